// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <utility>

#include "lib/base/error.h"
#include "lib/base/file.h"

namespace echelon::shm {
namespace {

constexpr std::uint64_t kMagic = 0x3230'6d68'7363'6865;  // "echshm02"
constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

std::size_t SegmentShape::control_bytes() const {
  return kBoardBytes +
         round_up(sizeof(SegmentHeader) + sizeof(BellLine) + lanes * sizeof(LaneLines), kPage);
}

std::size_t SegmentShape::bytes() const { return control_bytes() + lanes * 4 * slot_bytes; }

Segment::Segment(Segment&& o) noexcept
    : fd_(std::move(o.fd_)), shape_(o.shape_), base_(std::exchange(o.base_, nullptr)) {}

Segment& Segment::operator=(Segment&& o) noexcept {
  std::swap(fd_, o.fd_);
  std::swap(shape_, o.shape_);
  std::swap(base_, o.base_);
  return *this;
}

Segment::~Segment() {
  if (base_ != nullptr) munmap(base_, shape_.bytes());
}

Segment Segment::create(const SegmentShape& shape) {
  Fd fd(memfd_create("echelon-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw system_error("create shared memory");
  if (ftruncate(fd.get(), static_cast<off_t>(shape.bytes())) != 0)
    throw system_error(fmt::format("size shared memory of {} bytes", shape.bytes()));
  // The others may rely on its length: no access to a mapped segment can fault.
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw system_error("seal shared memory");
  Segment segment = map(std::move(fd), shape);
  segment.header().nonce = random_nonce();
  segment.header().slot_bytes = shape.slot_bytes;
  segment.header().lanes = static_cast<std::uint32_t>(shape.lanes);
  segment.header().magic = kMagic;
  return segment;
}

Segment Segment::map(Fd fd, const SegmentShape& shape) {
  void* base = mmap(nullptr, shape.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) throw system_error("map shared memory");
  Segment segment;
  segment.fd_ = std::move(fd);
  segment.shape_ = shape;
  segment.base_ = static_cast<std::byte*>(base);
  return segment;
}

Segment Segment::map(Fd fd, const SegmentShape& shape, std::uint64_t nonce) {
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) throw system_error("look at shared memory");
  if (static_cast<std::size_t>(info.st_size) != shape.bytes())
    throw invalid(fmt::format("shared memory has {} bytes, expected {}: not the same settings",
                              info.st_size, shape.bytes()));
  Segment segment = map(std::move(fd), shape);
  segment.fd_ = Fd();  // the mapping suffices
  const SegmentHeader& header = segment.header();
  if (header.magic != kMagic || header.nonce != nonce)
    throw invalid("shared memory is not the one its address names");
  if (header.slot_bytes != shape.slot_bytes || header.lanes != std::uint32_t(shape.lanes))
    throw invalid("shared memory has other lanes or slots than ours: not the same settings");
  return segment;
}

LaneLines& Segment::lane(int lane) const {
  std::byte* lines = base_ + sizeof(SegmentHeader) + sizeof(BellLine);
  return reinterpret_cast<LaneLines*>(lines)[lane];
}

std::span<std::byte> Segment::board() const {
  return {base_ + shape_.control_bytes() - kBoardBytes, kBoardBytes};
}

std::byte* Segment::slot(int lane, int index) const {
  return base_ + shape_.control_bytes() + (std::size_t(lane) * 4 + index) * shape_.slot_bytes;
}

void Segment::take_pages(int lane, int first, std::size_t bytes) const {
  for (int index = first; index < first + 2; ++index)
    madvise(slot(lane, index), bytes, MADV_POPULATE_WRITE);
}

std::string host_identity() {
  std::string text = read_file("/proc/sys/kernel/random/boot_id");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::uint64_t namespace_identity(const char* kind) {
  struct stat info {};
  const std::string path = fmt::format("/proc/self/ns/{}", kind);
  if (stat(path.c_str(), &info) != 0) throw system_error("look at " + path);
  return info.st_ino;
}

std::uint64_t random_nonce() {
  std::uint64_t nonce = 0;
  if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) throw system_error("random number");
  return nonce;
}

}  // namespace echelon::shm
