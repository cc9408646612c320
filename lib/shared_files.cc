// SPDX-License-Identifier: Apache-2.0
#include "lib/shared_files.h"

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/introduction.h"

namespace echelon {
namespace {

// "+" and the text, or "-" and why there is none. A communicator that comes of another has the
// text from there: the file may be on a host that is gone.
std::string text_or_excuse(const std::string& text, const std::string& path) {
  if (!text.empty()) return "+" + text;
  if (path.empty()) return "";
  try {
    return "+" + read_file(path);
  } catch (const Error& e) {
    return std::string("-") + e.what();
  }
}

std::string text_of(const std::string& answer, const char* file) {
  if (answer.empty()) return "";
  if (answer == "+") return "\n";  // an empty file is one, too
  if (answer[0] == '+') return answer.substr(1);
  throw invalid(fmt::format("rank 0 cannot read {}: {}", file, answer.substr(1)));
}

}  // namespace

void share_files(Control& control, Options& options, Deadline deadline) {
  SharedFiles mine;
  if (control.rank() == 0)
    mine = {options.fabric_file, options.tuning_file,
            text_or_excuse(options.fabric_text, options.fabric_file),
            text_or_excuse(options.tuning_text, options.tuning_file)};
  const SharedFiles files = shared_files_from_wire(control.allgather(to_wire(mine), deadline)[0]);
  options.fabric_file = files.fabric_path;
  options.tuning_file = files.tuning_path;
  options.fabric_text = text_of(files.fabric, kFabricFile);
  options.tuning_text = text_of(files.tuning, kTuningFile);
}

Tuning tuning_for(const Options& options, const MachineKey& here, const Speaker& speaker) {
  if (options.tuning_text.empty()) return {};
  Tuning tuning;
  try {
    tuning = parse_tuning(options.tuning_text, options.tuning_file);
  } catch (const Error& e) {
    throw invalid(fmt::format("{}: {}", kTuningFile, e.what()));
  }
  const std::string other = difference(here, tuning.machine);
  if (other.empty()) return tuning;
  if (!options.if_possible)
    speaker.log(speaker.first ? ECH_LOG_WARN : ECH_LOG_INFO,
                fmt::format("{} is left aside: {}: {}", kTuningFile, options.tuning_file, other));
  return {};
}

}  // namespace echelon
