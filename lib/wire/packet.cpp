#include "wire/packet.h"

namespace metaroce::wire {
namespace {

// Header length of DATA by operation byte [MR-3.4.5]; 0 = malformed [MR-3.4.4].
std::uint16_t data_header_bytes(std::uint8_t op) {
  const bool imm = (op & kOpImm) != 0;
  switch (static_cast<Op>(op & kOpMask)) {
    case Op::kWrite:
      if (!imm) return sizeof(Write);
      return (op & kOpLast) != 0 ? sizeof(WriteImm) : std::uint16_t{0};
    case Op::kSend:
      return imm ? std::uint16_t{0} : sizeof(Send);
    case Op::kSendImm:
    case Op::kSendInv:  // [MR-3.4.6]
      return imm ? std::uint16_t{0} : sizeof(SendImm);
    default:
      return 0;  // also those of a later version [MR-1.2.1]
  }
}

std::uint16_t fixed_bytes(const std::uint8_t* p, std::uint32_t n, Type t) {
  switch (t) {
    case Type::kData:
      return n > offsetof(Data, op) ? data_header_bytes(p[offsetof(Data, op)]) : sizeof(Data);
    case Type::kFlush:
      return sizeof(Flush);
    case Type::kAck:
      return sizeof(Ack);
    case Type::kNack:
      return sizeof(Nack);
    case Type::kProbe:
    case Type::kProbeReply:
      return sizeof(Probe);
    case Type::kCtrl:
      return sizeof(Ctrl);
  }
  return 0;
}

}  // namespace

Checked check_packet(const std::uint8_t* p, std::uint32_t n) {
  Checked r;
  // [MR-4.1.1] Checks 2 to 5, in this order. [MR-4.1.4] No byte is read before its presence is
  // known.
  if (n < sizeof(Common)) {
    r.drop = DropReason::kTooShort;
    return r;
  }
  // [MR-3.3.3]
  if ((p[0] >> 4) != kVersion) {
    r.drop = DropReason::kVersion;
    return r;
  }
  const std::uint16_t fixed = fixed_bytes(p, n, static_cast<Type>(p[0] & 0x0f));
  // [MR-3.3.2] [MR-3.4.2]
  if (fixed == 0) {
    r.drop = DropReason::kType;
    return r;
  }
  const std::uint32_t trailer = (p[offsetof(Common, flags)] & kFlagCrc) != 0 ? kCrcBytes : 0;
  if (n < fixed + trailer) {
    r.drop = DropReason::kTooShort;
    return r;
  }
  r.header_bytes = fixed;
  // [MR-3.2.4]
  r.payload_bytes = n - fixed - trailer;
  return r;
}

}  // namespace metaroce::wire
