// SPDX-License-Identifier: Apache-2.0
// Loading libraries at run time: which one is taken, and what is said when none can be.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "transports/cuda/driver.h"
#include "transports/nccl/library.h"

namespace echelon {
namespace {

std::string library(const std::string& name) {
  return std::string(std::getenv("ECHELON_TEST_LIBRARIES")) + "/lib" + name + ".so";
}

bool is_loaded(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

template <typename Body>
std::string unsupported(const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ECH_ERR_UNSUPPORTED);
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(DynamicLibrary, SaysOfEveryNameWhyItCannotBeLoaded) {
  const char* names[] = {"libechelon-none.so.1", "/dev/null"};
  const std::string reason = unsupported([&] { const DynamicLibrary opened(names); });
  EXPECT_TRUE(reason.starts_with("libechelon-none.so.1: ")) << reason;
  EXPECT_NE(reason.find("No such file or directory; /dev/null: "), std::string::npos) << reason;
  EXPECT_EQ(reason.find('\n'), std::string::npos);
}

TEST(DynamicLibrary, IsUnloadedUnlessItIsKept) {
  const std::string path = library("third_versions");
  {
    DynamicLibrary opened(path.c_str());
    const DynamicLibrary moved = std::move(opened);
    EXPECT_TRUE(is_loaded(path));
    EXPECT_NE(moved.find("ncclGetVersion"), nullptr);
    EXPECT_EQ(moved.find("ncclNothing"), nullptr);
  }
  EXPECT_FALSE(is_loaded(path));
  { DynamicLibrary(path.c_str()).keep(); }
  EXPECT_TRUE(is_loaded(path));
}

TEST(DynamicLibrary, TakesWhatTheProcessHasLoadedBeforeWhatIsNamedFirst) {
  const std::string first = library("first_versions"), second = library("second_versions");
  const char* names[] = {first.c_str(), second.c_str()};
  EXPECT_EQ(DynamicLibrary(names).name(), first);
  const DynamicLibrary loaded(second.c_str());
  EXPECT_EQ(DynamicLibrary(names).name(), second);
}

TEST(CudaDriver, AnOldOneIsRefusedWithBothVersions) {
  const std::string path = library("old_versions");
  EXPECT_EQ(unsupported([&] { load_cuda(path.c_str()); }),
            path + " is for CUDA 10.2, 11.0 or newer is needed");
}

TEST(CudaDriver, AMissingFunctionIsNamed) {
  const std::string path = library("new_versions");
  EXPECT_EQ(unsupported([&] { load_cuda(path.c_str()); }),
            path + " has no cuInit: it is too old, or another one");
}

TEST(CudaDriver, IsThereOrThereIsAReason) {
  EXPECT_EQ(cuda_driver() == nullptr, !cuda_absence().empty());
  EXPECT_EQ(cuda_driver(), cuda_driver());
}

TEST(Nccl, AnOldOneIsRefusedWithBothVersions) {
  const std::string path = library("old_versions");
  EXPECT_EQ(nccl_library(path), nullptr);
  EXPECT_EQ(nccl_absence(path), path + " is NCCL 2.17.5, 2.18.0 or newer is needed");
}

TEST(Nccl, AMissingFunctionIsNamed) {
  const std::string path = library("new_versions");
  EXPECT_EQ(nccl_library(path), nullptr);
  EXPECT_EQ(nccl_absence(path), path + " has no ncclGetErrorString: it is too old, or another one");
}

TEST(Nccl, AMissingLibraryIsNamed) {
  EXPECT_EQ(nccl_library("libechelon-none.so.2"), nullptr);
  EXPECT_TRUE(nccl_absence("libechelon-none.so.2").starts_with("libechelon-none.so.2: "));
}

TEST(Nccl, VersionsAreCountedInTwoWays) {
  EXPECT_EQ(nccl_version_text(2708), "2.7.8");
  EXPECT_EQ(nccl_version_text(21803), "2.18.3");
}

}  // namespace
}  // namespace echelon
