// SPDX-License-Identifier: Apache-2.0
#include "tools/run_protocol.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/bytes.h"
#include "lib/base/error.h"

namespace echelon::run {
namespace {

constexpr std::uint32_t kMaxBody = 64U << 20;
constexpr std::size_t kHeader = 5;
constexpr char kTrailer = '\n';

void put(ByteWriter& out, const std::vector<std::string>& list) {
  out.u32(static_cast<std::uint32_t>(list.size()));
  for (const std::string& text : list) out.text(text);
}

std::vector<std::string> take_list(ByteReader& in) {
  std::vector<std::string> out;
  for (std::uint32_t n = in.u32(); n > 0; --n) out.push_back(in.text());
  return out;
}

int take_int(ByteReader& in) { return static_cast<int>(in.u32()); }

}  // namespace

std::string encode(const CheckRequest& request) {
  ByteWriter out;
  return out.text(request.program).text(request.directory).text(request.interface_name).take();
}

std::string encode(const CheckReply& reply) {
  ByteWriter out;
  put(out, reply.problems);
  return out.u32(reply.port).take();
}

std::string encode(const Job& job) {
  ByteWriter out;
  put(out, job.argv);
  out.text(job.directory);
  put(out, job.env);
  out.u32(static_cast<std::uint32_t>(job.ranks.size()));
  for (int rank : job.ranks) out.u32(static_cast<std::uint32_t>(rank));
  out.u8(static_cast<std::uint8_t>(job.bind));
  return out.take();
}

CheckRequest decode_check_request(std::string_view bytes) {
  ByteReader in(bytes, "check request");
  CheckRequest request;
  request.program = in.text();
  request.directory = in.text();
  request.interface_name = in.text();
  in.expect_end();
  return request;
}

CheckReply decode_check_reply(std::string_view bytes) {
  ByteReader in(bytes, "check reply");
  CheckReply reply;
  reply.problems = take_list(in);
  reply.port = in.u32();
  in.expect_end();
  return reply;
}

Job decode_job(std::string_view bytes) {
  ByteReader in(bytes, "job");
  Job job;
  job.argv = take_list(in);
  job.directory = in.text();
  job.env = take_list(in);
  for (std::uint32_t n = in.u32(); n > 0; --n) job.ranks.push_back(take_int(in));
  job.bind = static_cast<Bind>(in.u8());
  if (job.bind > Bind::kSocket) throw invalid("job: an unknown way to bind");
  in.expect_end();
  if (job.argv.empty() || job.ranks.empty()) throw invalid("job: no program or no ranks");
  if (std::any_of(job.ranks.begin(), job.ranks.end(), [](int rank) { return rank < 0; }))
    throw invalid("job: a negative rank");
  return job;
}

std::string greeting() {
  return fmt::format("{}{}.{}.{}\n", kGreetingPrefix, ECH_VERSION_MAJOR, ECH_VERSION_MINOR,
                     ECH_VERSION_PATCH);
}

bool send(int fd, Frame kind, std::string_view body) {
  std::string bytes = ByteWriter()
                          .u32(static_cast<std::uint32_t>(body.size()))
                          .u8(static_cast<std::uint8_t>(kind))
                          .take();
  bytes.append(body) += kTrailer;
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  return true;
}

std::optional<Message> MessageReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(used_);
  if (rest.size() < kHeader) {
    buffer_.erase(0, used_);
    used_ = 0;
    return std::nullopt;
  }
  ByteReader header(rest.substr(0, kHeader), "message");
  const std::uint32_t length = header.u32();
  if (length > kMaxBody) throw invalid(fmt::format("message of {} bytes", length));
  const std::size_t end = kHeader + length;
  if (rest.size() <= end) return std::nullopt;
  if (rest[end] != kTrailer)
    throw invalid(fmt::format("message of {} bytes without its end", length));
  Message message{static_cast<Frame>(header.u8()), std::string(rest.substr(kHeader, length))};
  used_ += end + 1;
  return message;
}

}  // namespace echelon::run
