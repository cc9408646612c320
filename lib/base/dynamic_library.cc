// SPDX-License-Identifier: Apache-2.0
#include "lib/base/dynamic_library.h"

#include <dlfcn.h>

#include <utility>

#include "lib/base/error.h"

namespace echelon {

DynamicLibrary::DynamicLibrary(std::span<const char* const> names) {
  std::string reasons;
  for (int how : {RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL}) {
    reasons.clear();
    for (const char* name : names) {
      handle_ = dlopen(name, how);
      name_ = name;
      if (handle_ != nullptr) return;
      const char* words = dlerror();
      const std::string reason = words != nullptr ? words : name_ + ": not loaded";
      reasons += (reasons.empty() ? "" : "; ") + reason;
    }
  }
  throw Error(ECH_ERR_UNSUPPORTED, reasons);
}

DynamicLibrary::DynamicLibrary(DynamicLibrary&& o) noexcept
    : handle_(std::exchange(o.handle_, nullptr)), kept_(o.kept_), name_(std::move(o.name_)) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& o) noexcept {
  std::swap(handle_, o.handle_);
  std::swap(kept_, o.kept_);
  std::swap(name_, o.name_);
  return *this;
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr && !kept_) dlclose(handle_);
}

void* DynamicLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

void DynamicLibrary::missing(const char* symbol) const {
  throw Error(ECH_ERR_UNSUPPORTED, name_ + " has no " + symbol + ": it is too old, or another one");
}

}  // namespace echelon
