// SPDX-License-Identifier: Apache-2.0
// The one place where exceptions become statuses, and the message of the last failure.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "lib/base/error.h"

namespace echelon {

// Keeps `message` for ech_last_error() on this thread and returns `code`.
ech_status fail(ech_status code, const char* message) noexcept;

const char* last_error() noexcept;

// Runs `body` and turns whatever it throws into a status.
template <typename Body>
ech_status guarded(Body&& body) noexcept {
  try {
    body();
    return ECH_OK;
  } catch (const Error& e) {
    return fail(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return fail(ECH_ERR_NO_MEMORY, "out of memory");
  } catch (const std::system_error& e) {  // a thread or a lock
    const Error error = system_error("the system refused", e.code().value());
    return fail(error.code(), error.what());
  } catch (const std::exception& e) {
    return fail(ECH_ERR_INTERNAL, e.what());
  } catch (...) {
    return fail(ECH_ERR_INTERNAL, "unknown exception");
  }
}

inline void require(bool condition, const char* message) {
  if (!condition) throw invalid(message);
}

}  // namespace echelon
