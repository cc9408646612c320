// SPDX-License-Identifier: Apache-2.0
// A shared library that is loaded at run time, and its symbols.
#pragma once

#include <span>
#include <string>

namespace echelon {

class DynamicLibrary {
 public:
  // The first of `names` that this process has loaded already, else the first that can be loaded.
  // Throws ECH_ERR_UNSUPPORTED with the loader's words on each name.
  explicit DynamicLibrary(std::span<const char* const> names);
  explicit DynamicLibrary(const char* name) : DynamicLibrary(std::span(&name, 1)) {}
  DynamicLibrary(DynamicLibrary&& o) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& o) noexcept;
  ~DynamicLibrary();  // unloads

  const std::string& name() const { return name_; }

  void* find(const char* symbol) const;  // nullptr: not in it

  // Sets `function`; to nullptr when there is no such symbol.
  template <typename F>
  void find(const char* symbol, F*& function) const {
    function = reinterpret_cast<F*>(find(symbol));
  }

  // Sets `function`. Throws ECH_ERR_UNSUPPORTED that names the symbol.
  template <typename F>
  void need(const char* symbol, F*& function) const {
    find(symbol, function);
    if (function == nullptr) missing(symbol);
  }

  // It stays until the process ends, for libraries that have threads or handlers of their own.
  void keep() { kept_ = true; }

 private:
  [[noreturn]] void missing(const char* symbol) const;

  void* handle_ = nullptr;
  bool kept_ = false;
  std::string name_;
};

}  // namespace echelon
