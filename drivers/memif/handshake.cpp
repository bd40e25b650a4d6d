#include "drivers/memif/handshake.h"

#include <sys/stat.h>

namespace metaroce::drivers::memif {
namespace {

constexpr std::size_t kMaxRegions = 256;
constexpr unsigned kMaxLog2Ring = 14;
constexpr std::uint64_t kRingHeader = 128, kDescriptor = 16;
constexpr std::uint16_t kToServer = 1;  // flag of ADD_RING

}  // namespace

bool Handshake::allows(const Message& m) {
  if (!said_) {
    said_ = m.type() == (server_ ? MessageType::kInit : MessageType::kHello);
    return said_;
  }
  if (!server_) return m.type() == MessageType::kAck || m.type() == MessageType::kConnected;
  switch (m.type()) {
    case MessageType::kAddRegion:
      return add_region(m);
    case MessageType::kAddRing:
      return add_ring(m);
    case MessageType::kConnect:
      return rings_[0] == queues_ && rings_[1] == queues_;
    default:
      return false;
  }
}

bool Handshake::add_region(const Message& m) {
  const auto index = m.at<std::uint16_t>(2);
  const auto bytes = m.at<std::uint64_t>(4);
  struct stat s {};
  if (index != regions_.size() || index >= kMaxRegions || !m.fd || fstat(m.fd.get(), &s) != 0 ||
      s.st_size < 0 || bytes == 0 || bytes > static_cast<std::uint64_t>(s.st_size))
    return false;
  regions_.push_back(bytes);
  return true;
}

bool Handshake::add_ring(const Message& m) {
  const auto flags = m.at<std::uint16_t>(2), index = m.at<std::uint16_t>(4),
             region = m.at<std::uint16_t>(6);
  const std::uint64_t offset = m.at<std::uint32_t>(8);
  const unsigned log2 = m.at<std::uint8_t>(12);
  std::uint16_t& count = rings_[(flags & kToServer) != 0 ? 0 : 1];
  if (index != count || count >= queues_ || region >= regions_.size() || !m.fd ||
      log2 > kMaxLog2Ring || offset + kRingHeader + (kDescriptor << log2) > regions_[region])
    return false;
  ++count;
  return true;
}

}  // namespace metaroce::drivers::memif
