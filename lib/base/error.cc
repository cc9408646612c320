// SPDX-License-Identifier: Apache-2.0
#include "lib/base/error.h"

#include <cstring>

namespace echelon {
namespace {

struct Shortage {
  int error;
  ech_status status;
  const char* remedy;
};

constexpr Shortage kShortages[] = {
    {EMFILE, ECH_ERR_NO_MEMORY, "this process may open no more: raise ulimit -n"},
    {ENFILE, ECH_ERR_NO_MEMORY, "this machine opens no more: raise sysctl fs.file-max"},
    {ENOMEM, ECH_ERR_NO_MEMORY, "memory ran out: see ulimit -v and the limits of the container"},
    {ENOSPC, ECH_ERR_NO_MEMORY, "a file system is full: see df -h /dev/shm /tmp"},
    {EAGAIN, ECH_ERR_NO_MEMORY, "no more threads or processes: see ulimit -u"},
    {EADDRINUSE, ECH_ERR_SYSTEM, "the port is taken: see sysctl net.ipv4.ip_local_port_range"},
    {EADDRNOTAVAIL, ECH_ERR_SYSTEM,
     "the address has gone from this host, or no port is left: see sysctl "
     "net.ipv4.ip_local_port_range"},
};

}  // namespace

Error system_error(const std::string& what, int error) {
  const std::string text = what + ": " + std::strerror(error);
  for (const Shortage& s : kShortages)
    if (s.error == error) return {s.status, text + " (" + s.remedy + ")"};
  return {ECH_ERR_SYSTEM, text};
}

const char* name(ech_status status) {
  switch (status) {
    case ECH_OK:
      return "ok";
    case ECH_ERR_INVALID:
      return "invalid argument";
    case ECH_ERR_UNSUPPORTED:
      return "unsupported";
    case ECH_ERR_NO_MEMORY:
      return "out of memory";
    case ECH_ERR_MISMATCH:
      return "mismatch";
    case ECH_ERR_TIMEOUT:
      return "timeout";
    case ECH_ERR_PEER:
      return "peer failed";
    case ECH_ERR_ABORTED:
      return "aborted";
    case ECH_ERR_AUTH:
      return "not authenticated";
    case ECH_ERR_SYSTEM:
      return "system error";
    case ECH_ERR_INTERNAL:
      return "internal error";
  }
  return "unknown status";
}

}  // namespace echelon
