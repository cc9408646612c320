// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/attempts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "lib/base/error.h"
#include "lib/base/fd.h"
#include "lib/fabric/nvml.h"
#include "tools/run_output.h"
#include "transports/cuda/driver.h"
#include "transports/nccl/library.h"

namespace echelon::doctor {
namespace {

constexpr std::size_t kPage = 4096;

// A page of `fd` written to and read back.
int map_and_write(int fd) {
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return errno;
  *static_cast<volatile char*>(page) = 1;
  munmap(page, kPage);
  return 0;
}

// As transports/shm makes its segments.
Fd make_memfd() {
  Fd fd(memfd_create("echelon-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool sized = fd && ftruncate(fd.get(), kPage) == 0;
  if (!sized || fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return Fd();
  return fd;
}

[[noreturn]] void run_child(const std::function<int(std::string& said)>& body, int to) {
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, 1);
  dup2(nothing, 2);
  std::string said;
  const int error = body(said);
  run::write_all(to, said);
  _exit(error);
}

std::string everything(int fd) {
  std::string text;
  char some[4096];
  ssize_t n = 0;
  while ((n = read(fd, some, sizeof some)) > 0 || (n < 0 && errno == EINTR))
    text.append(some, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return text;
}

}  // namespace

Attempt attempt(const std::function<int(std::string& said)>& body) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return {errno, 0, {}};
  const Fd from(ends[0]);
  Fd to(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return {errno, 0, {}};
  if (pid == 0) run_child(body, to.get());
  to = Fd();
  Attempt attempt;
  attempt.said = everything(from.get());
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  attempt.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  attempt.error = WIFSIGNALED(status) ? 0 : WEXITSTATUS(status);
  return attempt;
}

Attempt try_memfd() {
  return attempt([](std::string&) {
    const Fd fd = make_memfd();
    return fd ? map_and_write(fd.get()) : errno;
  });
}

Attempt try_descriptor_of_other() {
  if (const Attempt made = try_memfd(); !made.good()) return made;
  const Fd fd = make_memfd();
  const std::string path = fmt::format("/proc/{}/fd/{}", getpid(), fd.get());
  return attempt([&](std::string&) {
    const Fd opened(open(path.c_str(), O_RDWR | O_CLOEXEC));
    return opened ? map_and_write(opened.get()) : errno;
  });
}

Attempt try_memory_of_other() {
  volatile char here = 1;
  const pid_t pid = getpid();
  return attempt([&](std::string&) {
    char there = 0;
    const iovec local{&there, 1};
    const iovec remote{const_cast<char*>(&here), 1};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == 1 ? 0 : errno;
  });
}

Attempt try_cuda() {
  return attempt([](std::string& said) {
    const CudaDriver* driver = cuda_driver();
    said = driver != nullptr ? std::to_string(driver->version) : cuda_absence();
    return driver != nullptr ? 0 : ENOENT;
  });
}

Attempt try_nccl(const std::string& path) {
  return attempt([&](std::string& said) {
    const NcclLibrary* library = nccl_library(path);
    said = library != nullptr ? std::to_string(library->version) : nccl_absence(path);
    return library != nullptr ? 0 : ENOENT;
  });
}

Attempt try_nvml() {
  return attempt([](std::string& said) {
    try {
      said = nvml_driver_version();
      return 0;
    } catch (const Error& e) {
      said = e.what();
      return ENOENT;
    }
  });
}

Attempt try_ucx_resources() {
  return attempt([](std::string& said) {
    for (const UcxResource& r : ucx_resources())
      said += fmt::format("{} {} {}\n", r.network ? 1 : 0, r.transport, r.device);
    return 0;
  });
}

std::vector<UcxResource> resources_from(const std::string& said) {
  std::vector<UcxResource> all;
  std::istringstream lines(said);
  UcxResource r;
  while (lines >> r.network >> r.transport >> r.device) all.push_back(r);
  return all;
}

Attempt try_ucx(const UcxConfig& config) {
  return attempt([&](std::string& said) {
    try {
      open_ucx(config);
      return 0;
    } catch (const Error& e) {
      said = e.what();
      return EIO;
    }
  });
}

}  // namespace echelon::doctor
