// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/ucx_leftovers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "lib/base/fd.h"

namespace echelon {
namespace {

constexpr const char* kPrefix = "ucx_shm_posix_";

// The kernel grants a lease for writing to who alone has the file open; a mapping counts too.
// Should another process open it meanwhile, the kernel tells us by a signal: by one that is ignored
// if nobody wants it, since SIGIO would end us.
bool used_by_nobody(const std::filesystem::path& path) {
  const Fd file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0) return false;
  if (!S_ISREG(about.st_mode) || about.st_uid != ::geteuid()) return false;
  return ::fcntl(file.get(), F_SETSIG, SIGURG) == 0 &&
         ::fcntl(file.get(), F_SETLEASE, F_WRLCK) == 0;
}

}  // namespace

void remove_ucx_leftovers(const std::string& folder) noexcept {
  // One at a time: two that look at a file each find it open by the other. Who comes meanwhile need
  // not look.
  const Fd turn(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!turn || ::flock(turn.get(), LOCK_EX | LOCK_NB) != 0) return;
  try {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::filesystem::path& path = entry.path();
      if (path.filename().native().starts_with(kPrefix) && used_by_nobody(path))
        ::unlink(path.c_str());
    }
  } catch (const std::exception&) {
    // It can wait for the next one.
  }
}

}  // namespace echelon
