// The packets of protocol version 1: the one place that knows their bytes (doc/spec, chapter 3).
//
// Structures consist of alignment-1 big-endian fields, so that `sizeof` and `offsetof` are the
// wire layout; the assertions below are the table to compare with the specification. A reader
// calls check_packet() first: it proves that the fixed part of the packet lies within the
// bytes, and nothing else may be read before.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/serial.h"
#include "wire/drop_reason.h"
#include "wire/endian.h"

namespace metaroce::wire {

inline constexpr std::uint8_t kVersion = 1;  // [MR-11.1.1]
inline constexpr std::uint16_t kDefaultBasePort = 47910;
inline constexpr std::uint32_t kCrcBytes = 4;

// [MR-3.3.2]
enum class Type : std::uint8_t {
  kData = 1,
  kFlush = 2,
  kAck = 3,
  kNack = 4,
  kProbe = 5,
  kProbeReply = 6,
  kCtrl = 7,
};

// Common flags. RTX and END_OF_BURST are hints that no receiver reads. [MR-3.3.4] [MR-3.3.7]
inline constexpr std::uint8_t kFlagAckReq = 0x01;      // acknowledge at once
inline constexpr std::uint8_t kFlagRtx = 0x02;         // a retransmission
inline constexpr std::uint8_t kFlagEndOfBurst = 0x04;  // sender has nothing more right now
inline constexpr std::uint8_t kFlagCrc = 0x08;         // CRC32C trailer present
inline constexpr std::uint8_t kFlagOrd = 0x10;         // place only after all earlier spn

// [MR-3.3.1]
struct Common {
  std::uint8_t ver_type;  // version in the high nibble
  std::uint8_t flags;
  std::uint8_t path;
  std::uint8_t epoch;  // path epoch
  Be32 dcid;           // index 24 | generation 8, of the receiver
  Be32 pseq;           // CTRL: serial
  Be32 timestamp;      // 64 ns units; echoed only [MR-3.3.6]

  [[nodiscard]] Type type() const { return static_cast<Type>(ver_type & 0x0f); }
  void set(Type t) { ver_type = static_cast<std::uint8_t>((kVersion << 4) | static_cast<int>(t)); }
};
static_assert(sizeof(Common) == 16 && alignof(Common) == 1);
static_assert(offsetof(Common, dcid) == 4 && offsetof(Common, pseq) == 8 &&
              offsetof(Common, timestamp) == 12);

// Operation byte of DATA: code in the low five bits. [MR-3.4.2]
enum class Op : std::uint8_t {
  kWrite = 1,
  kSend = 2,
  kSendImm = 3,
  kSendInv = 4,
  kReadReq = 5,
  kReadRsp = 6,
  kAtomicReq = 7,
  kAtomicRsp = 8,
};
inline constexpr std::uint8_t kOpFirst = 0x80;
inline constexpr std::uint8_t kOpLast = 0x40;
inline constexpr std::uint8_t kOpImm = 0x20;  // WRITE LAST only
inline constexpr std::uint8_t kOpMask = 0x1f;

// [MR-3.4.1]
struct Data {
  Common c;
  std::uint8_t op;
  std::uint8_t floor_delta;  // pseq - lowest unresolved pseq of the sender
  Be16 stream;               // the receiver's number
  Be32 spn;
  std::uint8_t demand;  // log2 of the backlog in bytes, 0 = application-limited
  Be24 msn;             // message number within the stream
  [[nodiscard]] Op code() const { return static_cast<Op>(op & kOpMask); }
};
static_assert(sizeof(Data) == 28 && offsetof(Data, op) == 16 && offsetof(Data, floor_delta) == 17 &&
              offsetof(Data, stream) == 18 && offsetof(Data, spn) == 20 &&
              offsetof(Data, demand) == 24 && offsetof(Data, msn) == 25);

struct Write {
  Data d;
  Be64 va;  // of this packet's first byte
  Be32 rkey;
  Be32 message_length;
};
struct WriteImm {
  Write w;
  Be32 imm;
  Be32 rqn;  // the receive that it consumes
};
static_assert(sizeof(Write) == 44 && sizeof(WriteImm) == 52);
static_assert(offsetof(Write, va) == 28 && offsetof(Write, rkey) == 36 &&
              offsetof(Write, message_length) == 40 && offsetof(WriteImm, imm) == 44);

struct Send {
  Data d;
  Be32 rqn;
  Be32 offset;  // of this packet within the message
  Be32 message_length;
};
struct SendImm {
  Send s;
  Be32 imm;  // or the rkey to invalidate
};
static_assert(sizeof(Send) == 40 && sizeof(SendImm) == 44 && offsetof(Send, offset) == 32);

// [MR-3.5.1]
struct Flush {
  Common c;
  std::uint8_t floor_delta;
  std::uint8_t demand;
  Be16 reserved;
};
static_assert(sizeof(Flush) == 20 && offsetof(Flush, demand) == 17);

// [MR-3.6.1]
struct Ack {
  Common c;
  Be24 rate_hint;  // Mb/s, 0 = none
  std::uint8_t hint_epoch;
  std::uint8_t receive_load;   // 1/255 of the port's capacity
  std::uint8_t host_pressure;  // 1/255
  std::uint8_t n_paths;
  std::uint8_t n_streams;
};
// [MR-3.6.2]
struct AckPath {
  std::uint8_t path;
  std::uint8_t epoch;
  std::uint8_t flags;  // kAckSack
  std::uint8_t reserved0;
  Be32 cum;  // next expected
  Be32 highest;
  Be32 timestamp_echo;  // of the packet `highest`
  Be16 ack_delay;       // 64 ns units; 0xffff = no sample
  Be16 late;
  Be16 rejects;
  Be16 reserved1;
  Be32 ce_packets;
  Be32 received_packets;
};
inline constexpr std::uint8_t kAckSack = 0x01;
inline constexpr std::uint16_t kNoDelaySample = 0xffff;
struct AckSack {
  std::uint8_t bytes[32];  // bit i (byte i / 8, 1 << i % 8) = pseq cum + i
};
// [MR-3.6.6]
struct AckStream {
  Be16 stream;  // the number of the ACK's receiver
  Be16 flags;   // kAckStreamResponse
  Be32 cum_spn;
  Be32 rqn_limit;
};
inline constexpr std::uint16_t kAckStreamResponse = 0x0001;
static_assert(sizeof(Ack) == 24 && sizeof(AckPath) == 32 && sizeof(AckSack) == 32 &&
              sizeof(AckStream) == 12);
static_assert(offsetof(Ack, hint_epoch) == 19 && offsetof(Ack, n_paths) == 22);
static_assert(offsetof(AckPath, cum) == 4 && offsetof(AckPath, highest) == 8 &&
              offsetof(AckPath, ack_delay) == 16 && offsetof(AckPath, ce_packets) == 24);

// [MR-3.7.2]
enum class NackReason : std::uint8_t {
  // Retriable: the packet is not acknowledged.
  kRnr = 1,
  kNotReady = 2,
  kNoResource = 3,
  kStreamWindow = 4,
  // Final: acts in spn order.
  kBadKey = 16,
  kBounds = 17,
  kAccess = 18,
  kBadStream = 19,
  kLength = 20,
  kOperation = 21,
};
constexpr bool is_final(NackReason r) { return static_cast<std::uint8_t>(r) >= 16; }

// [MR-3.7.1]
struct Nack {
  Common c;
  std::uint8_t reason;
  std::uint8_t flags;
  Be16 wait;    // us
  Be16 stream;  // the number of the NACK's receiver, 0xffff when the stream is not known
  Be16 reserved;
  Be32 spn;   // named packet: retriable, the rejected one; final, the lowest failing one
  Be32 pseq;  // of the packet answered, on path c.path
};
static_assert(sizeof(Nack) == 32 && offsetof(Nack, stream) == 20 && offsetof(Nack, pseq) == 28);

enum class ProbeKind : std::uint8_t { kLiveness = 0, kEpoch = 1, kFullSize = 2 };
// [MR-3.8.1]
struct Probe {  // PROBE and PROBE_REPLY
  Common c;
  Be64 nonce;
  Be32 timestamp_echo;
  Be16 delay;
  std::uint8_t kind;
  std::uint8_t state;
  Be16 stream;  // of the receiver; 0xffff none. A reply then carries an AckStream behind
  Be16 reserved;
};
static_assert(sizeof(Probe) == 36 && offsetof(Probe, kind) == 30 && offsetof(Probe, stream) == 32);

// [MR-3.9.2]
enum class CtrlType : std::uint8_t {
  kConnReq = 1,
  kConnRsp = 2,
  kConnRtu = 3,
  kConnRtuAck = 4,
  kConnClose = 5,
  kConnCloseRsp = 6,
  kStreamOpen = 8,
  kStreamOpenRsp = 9,
  kStreamClose = 10,
  kStreamCloseRsp = 11,
  kPortStatus = 12,
  kPortStatusRsp = 13,
};
// [MR-3.9.1]
struct Ctrl {
  Common c;
  std::uint8_t ctype;
  std::uint8_t status;
  Be16 length;  // bytes of TLVs behind this header
  Be32 scid;    // the sender's dcid
  Be64 conn_epoch;
  Be64 cookie;
};
static_assert(sizeof(Ctrl) == 40 && offsetof(Ctrl, scid) == 20 && offsetof(Ctrl, cookie) == 32);
inline constexpr std::uint32_t kMaxCtrlBytes = 512;  // [MR-3.9.3]

struct Checked {
  DropReason drop = DropReason::kNone;
  std::uint16_t header_bytes = 0;   // up to the payload (DATA) or the variable part
  std::uint32_t payload_bytes = 0;  // without header and CRC trailer
};

// Proves that the fixed part of the packet `p[0, n)` is present and consistent: version, type,
// operation, flags that the operation allows, trailer length. Does not verify the CRC itself.
Checked check_packet(const std::uint8_t* p, std::uint32_t n);

}  // namespace metaroce::wire
