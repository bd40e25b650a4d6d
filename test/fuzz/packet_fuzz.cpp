// check_packet() on arbitrary bytes: a verdict that adds up, and headers that it admits can be
// read in full. [MR-4.1.4] [MR-4.1.5]
#include <cstring>

#include "base/crc32c.h"
#include "target.h"
#include "wire/packet.h"

using namespace metaroce::wire;

namespace metaroce::fuzz {

std::vector<std::vector<std::uint8_t>> seeds() {
  std::vector<std::vector<std::uint8_t>> all;
  const auto add = [&all](Type t, std::size_t bytes, std::uint8_t op, std::uint8_t flags) {
    std::vector<std::uint8_t> v(bytes + 24, 0x5a);
    v[0] = static_cast<std::uint8_t>((kVersion << 4) | static_cast<int>(t));
    v[1] = flags;
    if (t == Type::kData) v[16] = op;
    all.push_back(v);
  };
  for (const std::uint8_t flags : {std::uint8_t{0}, kFlagCrc, std::uint8_t{kFlagOrd | kFlagRtx}}) {
    add(Type::kData, sizeof(Write), 0xc1, flags);
    add(Type::kData, sizeof(WriteImm), 0xe1, flags);
    add(Type::kData, sizeof(Send), 0xc2, flags);
    add(Type::kData, sizeof(SendImm), 0xc3, flags);
    add(Type::kData, sizeof(SendImm), 0xc4, flags);
    add(Type::kFlush, sizeof(Flush), 0, flags);
    add(Type::kAck, sizeof(Ack) + sizeof(AckPath) + sizeof(AckSack), 0, flags);
    add(Type::kNack, sizeof(Nack), 0, flags);
    add(Type::kProbe, sizeof(Probe), 0, flags);
    add(Type::kProbeReply, sizeof(Probe) + sizeof(AckStream), 0, flags);
    add(Type::kCtrl, sizeof(Ctrl) + 64, 0, flags);
  }
  return all;
}

}  // namespace metaroce::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Checked c = check_packet(data, static_cast<std::uint32_t>(size));
  if (c.drop != metaroce::DropReason::kNone) {
    FUZZ_CHECK(c.header_bytes == 0 && c.payload_bytes == 0);
    return 0;
  }
  const std::size_t trailer = (data[1] & kFlagCrc) != 0 ? kCrcBytes : 0;
  FUZZ_CHECK(c.header_bytes >= sizeof(Common));
  FUZZ_CHECK(c.header_bytes + c.payload_bytes + trailer == size);
  // Reads every admitted byte: the sanitizer objects when one lies outside.
  (void)metaroce::crc32c(0, data, c.header_bytes + c.payload_bytes);
  const auto* common = reinterpret_cast<const Common*>(data);
  if (common->type() == Type::kData) {
    FUZZ_CHECK(c.header_bytes >= sizeof(Write) || c.header_bytes == sizeof(Send));
    const auto code = reinterpret_cast<const Data*>(data)->code();
    FUZZ_CHECK(code == Op::kWrite || code == Op::kSend || code == Op::kSendImm ||
               code == Op::kSendInv);
  }
  return 0;
}
