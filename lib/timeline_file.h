// SPDX-License-Identifier: Apache-2.0
// The files of a timeline: what they are called, and how they are written.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/bootstrap/control.h"
#include "lib/options.h"

namespace echelon {

// A file that is there under its name when all of it has been written, and not before. What was
// there is replaced then. All functions throw ECH_ERR_SYSTEM or ECH_ERR_NO_MEMORY naming the path.
class TimelineFile {
 public:
  explicit TimelineFile(const std::string& path);
  ~TimelineFile();  // without commit() nothing is left
  TimelineFile(const TimelineFile&) = delete;

  void write(std::string_view text);
  void commit();

 private:
  void flush();

  const std::string path_, unfinished_;
  Fd file_;
  std::string buffer_;
};

// "dir/file.json" and "-2" make "dir/file-2.json".
std::string with_suffix(const std::string& path, const std::string& suffix);

// The path of a communicator's timeline: what rank 0's options say, with a suffix when another
// communicator of its process has had that; "": there is none. Rank 0 finds out whether it can
// write there; when not, throws ECH_ERR_INVALID on all ranks, or logs it where the options say so.
// Collective.
std::string agree_on_timeline(Control& control, const Options& options, const Log& log,
                              Deadline deadline);

}  // namespace echelon
