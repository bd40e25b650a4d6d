// CTRL packets: common header (serial in `pseq`), control header, then TLVs
// `type 8 | length 8 | value`, all big-endian. Unknown types are skipped, a known type with
// another length, a missing mandatory one or a repeated one (planes and ports excepted) is
// malformed.
//
//   type                    value                                             in [MR-5.4.2]
//    1 versions             min 8, max 8                                      REQ, RSP(ok)
//    2 payload MTU          32                                                REQ, RSP(ok)
//    3 plane                number 8, family 8 (4, 6), address 4 or 16        REQ, RSP(ok), 1..16
//    4 pseq seed            64                                                REQ, RSP(ok)
//    5 streams              accepted per connection 32                        REQ, RSP(ok)
//    6 spn window           32, packets                                       REQ, RSP(ok)
//    7 paths per plane      16                                                REQ, RSP(ok)
//    8 line rate            32, Mb/s                                          REQ, RSP(ok)
//    9 worker port          16, UDP                                           REQ, RSP(ok)
//   10 capabilities         32, bit 0 = CRC trailer wanted                    REQ, RSP(ok)
//   11 instance             128, group 8                                      REQ, RSP(ok, retry)
//   12 serials              attempt 32, first request serial 32               REQ, RSP(ok)
//   13 round trip           32, microseconds, as the requester measured it    REQ, optional
//   32 service              32                                                OPEN
//   33 stream               window 32, initial spn 32, credits 32, flags 8    OPEN, OPEN_RSP(ok)
//   34 numbers              to 16, from 16, serial of the OPEN 32             all STREAM packets
//   35 private data         0..128 bytes                                      OPEN, OPEN_RSP, opt.
//   36 final                cumulative spn 32                                 CLOSE, CLOSE_RSP,
//   opt.
//   48 port                 plane number 8, state 8 (0 down, 1 up)            PORT_STATUS, 1..16
//
// `to` and `from` are the receiver's and the sender's number of the stream; 0xffff = not known.
// Decoding reads untrusted bytes: every value is bounded here, nothing is allocated. [MR-4.1.5]
// [MR-10.2.5]
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/serial.h"
#include "base/units.h"
#include "transport/address.h"
#include "transport/control_api.h"
#include "wire/packet.h"

namespace metaroce::control {

// [MR-5.4.5]
enum class CtrlStatus : std::uint8_t {
  kOk = 0,
  kRetry = 1,         // CONN_RSP: come again with this cookie
  kPending = 2,       // STREAM_OPEN_RSP: the application has not decided yet
  kRefused = 3,       // no listener, rejected, or shutting down
  kLimit = 4,         // a limit of the peer is reached
  kIncompatible = 5,  // no common version, payload MTU or plane
  kBusy = 6,          // CONN_CLOSE_RSP: a stream is open or opening
  kUnknown = 7,       // STREAM_CLOSE_RSP: no such stream (any more)
  kAborted = 8,       // CONN_CLOSE: the connection failed at the sender, no answer expected
};

inline constexpr std::uint16_t kNoNumber = 0xffff;  // [MR-6.1.3]
inline constexpr std::uint32_t kCapCrc = 1;
inline constexpr std::uint8_t kStreamOrdered = 0x01;
inline constexpr std::uint32_t kMinPayloadMtu = 256, kMaxPayloadMtu = 16384;

struct PlaneAddress {
  PlaneId number;
  IpAddress address;
};

struct ConnInfo {
  std::uint8_t version_min = wire::kVersion, version_max = wire::kVersion;
  std::uint32_t payload_mtu = 0;
  std::uint32_t n_planes = 0;
  std::array<PlaneAddress, kMaxPlanes> planes{};
  std::uint64_t pseq_seed = 0;
  std::uint32_t max_streams = 0;
  std::uint32_t spn_window = 0;
  std::uint16_t paths_per_plane = 0;
  Mbps line_rate = 0;
  std::uint16_t worker_port = 0;
  std::uint32_t capabilities = 0;
  InstanceId instance;
  std::uint8_t group = 0;
  std::uint32_t attempt = 0;       // newest CONN_REQ of this instance so far
  std::uint32_t first_serial = 0;  // of the sender's requests on this connection
  std::uint32_t rtt_us = 0;        // 0 = not measured
};

struct StreamInfo {
  std::uint32_t service = 0;
  std::uint32_t window = 0;
  StreamSeq initial_spn;
  std::uint32_t credits = 0;
  std::uint8_t flags = 0;
  std::uint16_t to = kNoNumber, from = kNoNumber;
  std::uint32_t open_serial = 0;
  PrivateData private_data;
  bool has_final = false;
  StreamSeq final_spn;
};

struct PortInfo {
  struct Entry {
    PlaneId plane;
    bool up = true;
  };
  std::uint32_t n = 0;
  std::array<Entry, kMaxPlanes> planes{};
};

struct CtrlMessage {
  wire::CtrlType type{};
  CtrlStatus status = CtrlStatus::kOk;
  bool crc = false;  // trailer present, or to be appended
  std::uint32_t dcid = 0, scid = 0, serial = 0;
  std::uint64_t conn_epoch = 0, cookie = 0;
  ConnInfo conn;
  StreamInfo stream;
  PortInfo ports;
};

using CtrlBytes = std::array<std::uint8_t, wire::kMaxCtrlBytes>;

// Number of bytes written.
std::uint32_t encode_ctrl(const CtrlMessage&, WireTime now, CtrlBytes& out);
// kNone, or why the packet is to be dropped; `out` is then unspecified.
DropReason decode_ctrl(std::span<const std::uint8_t> bytes, CtrlMessage& out);

}  // namespace metaroce::control
