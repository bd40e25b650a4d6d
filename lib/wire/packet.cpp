#include "wire/packet.h"

namespace metaroce::wire {
namespace {

// Header length of DATA by operation byte; 0 = malformed.
std::uint16_t data_header_bytes(std::uint8_t op) {
  const bool imm = (op & kOpImm) != 0;
  switch (static_cast<Op>(op & kOpMask)) {
    case Op::kWrite:
      if (!imm) return sizeof(Write);
      return (op & kOpLast) != 0 ? sizeof(WriteImm) : std::uint16_t{0};
    case Op::kSend:
      return imm ? std::uint16_t{0} : sizeof(Send);
    case Op::kSendImm:
    case Op::kSendInv:
      return imm ? std::uint16_t{0} : sizeof(SendImm);
    default:
      return 0;
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
  if (n < sizeof(Common)) {
    r.drop = DropReason::kTooShort;
    return r;
  }
  if ((p[0] >> 4) != kVersion) {
    r.drop = DropReason::kVersion;
    return r;
  }
  const std::uint16_t fixed = fixed_bytes(p, n, static_cast<Type>(p[0] & 0x0f));
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
  r.payload_bytes = n - fixed - trailer;
  return r;
}

}  // namespace metaroce::wire
