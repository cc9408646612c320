// SPDX-License-Identifier: Apache-2.0
// What the launcher and the agent on each host say to each other over the agent's stdin and
// stdout: frames of u32 length, u8 kind, body, a newline, because srun passes whole lines on and
// keeps the rest back. The agent first sends one line, so that whatever a
// login shell prints before it can be told apart. The job's secret travels in kStart only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace echelon::run {

enum class Bind : unsigned char { kAuto, kNone, kCore, kSocket };

enum class Frame : unsigned char {
  // launcher to agent
  kCheck = 1,  // CheckRequest
  kStart = 2,  // Job
  kInput = 3,  // bytes for rank 0; empty: end of file
  kEnd = 4,    // u32 signal: end the ranks, by force after a grace period
  // agent to launcher
  kChecked = 16,  // CheckReply
  kStarted = 17,  // u32 rank, u32 pid
  kOutput = 18,   // u32 rank, u8 stream (1 or 2), bytes
  kExited = 19,   // u32 rank, u32 wait status
  kWantInput = 20,
  kFailed = 21,  // text: the agent cannot go on
};

struct Message {
  Frame kind;
  std::string body;
};

struct CheckRequest {
  std::string program;
  std::string directory;
  std::string interface_name;  // "": any
};

struct CheckReply {
  std::vector<std::string> problems;
  unsigned port = 0;  // free on this host, for rank 0
};

struct Job {
  std::vector<std::string> argv;
  std::string directory;
  std::vector<std::string> env;  // NAME=VALUE, the same for all ranks of this host
  std::vector<int> ranks;        // by local rank
  Bind bind = Bind::kAuto;
};

std::string encode(const CheckRequest& request);
std::string encode(const CheckReply& reply);
std::string encode(const Job& job);
CheckRequest decode_check_request(std::string_view bytes);  // these throw ECH_ERR_INVALID
CheckReply decode_check_reply(std::string_view bytes);
Job decode_job(std::string_view bytes);

std::string greeting();  // "echelon-agent VERSION\n"
inline constexpr std::string_view kGreetingPrefix = "echelon-agent ";

// Writes all of it; false when the other side has gone.
bool send(int fd, Frame kind, std::string_view body);

// Collects bytes until they make a message. Throws ECH_ERR_INVALID on a length that no one sends
// and where the newline is missing.
class MessageReader {
 public:
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  std::optional<Message> next();

 private:
  std::string buffer_;
  std::size_t used_ = 0;
};

}  // namespace echelon::run
