// SPDX-License-Identifier: Apache-2.0
#include "mpi/failure.h"

#include <unistd.h>

#include <mutex>

namespace echelon::dropin {
namespace {

// The process has one, whose text is that of the last failure.
int code_with(std::string text) {
  static std::mutex mutex;
  static int code = MPI_ERR_OTHER;
  const std::lock_guard lock(mutex);
  if (code == MPI_ERR_OTHER && PMPI_Add_error_code(MPI_ERR_OTHER, &code) != MPI_SUCCESS)
    return code;
  text = "Echelon: " + text;
  if (text.size() >= MPI_MAX_ERROR_STRING) text.resize(MPI_MAX_ERROR_STRING - 1);
  PMPI_Add_error_string(code, text.c_str());
  return code;
}

}  // namespace

int error_code(const Outcome& outcome) {
  if (outcome.status == ECH_OK) return MPI_SUCCESS;
  if (outcome.status == ECH_ERR_NO_MEMORY) return MPI_ERR_NO_MEM;
  return code_with(outcome.text);
}

int raise_on(MPI_Comm comm, const Outcome& outcome) {
  const int code = error_code(outcome);
  if (code != MPI_SUCCESS) PMPI_Comm_call_errhandler(comm, code);
  return code;
}

void say(const std::string& line) {
  const std::string whole = "echelon-mpi: " + line + "\n";
  if (write(STDERR_FILENO, whole.data(), whole.size()) < 0) return;  // nobody to tell
}

}  // namespace echelon::dropin
