// Fixed-size messages between the roles. Objects of different owners talk through these only.
//
//   control -> RX, TX       Command            install and remove objects
//   RX -> TX                RxToTx             what acknowledgments, NACKs and probes said
//   RX -> control           RxToControl        control packets, foreign frames, command results
//   TX -> control           TxToControl        failures, drains, command results
//   TX -> timer, timer -> TX                   deadlines
//
// A full ring: RX -> TX state events coalesce at the sender (newest per path or stream);
// RX -> control packets are dropped by name; commands wait in the control role.
#pragma once

#include <cstdint>

#include "base/bitmap.h"
#include "base/serial.h"
#include "base/units.h"
#include "transport/address.h"
#include "transport/params.h"
#include "transport/work.h"
#include "wire/packet.h"

namespace metaroce {

// ---- control -> RX, TX -------------------------------------------------------------------------
enum class CommandKind : std::uint8_t {
  kAddClient,     // client
  kRemoveClient,  // id = client: forgets its ring; streams, CQs and regions were removed before
  kAddRegion,     // region
  kRemoveRegion,  // id = key; done means that no new access will start (TX: none is in flight)
  kAddCq,         // cq
  kRemoveCq,      // id = cq
  kAddConn,       // conn
  kOpenConn,      // id = conn index: the peer is proven, data may be sent (TX only)
  kRemoveConn,    // id = conn index; streams were removed before
  kFailConn,      // id = conn index, status: every outstanding work request in error (TX only)
  kAddStream,     // stream
  kDrainStream,   // id = handle: kStreamDrained when nothing is outstanding (TX only)
  kStopStream,    // id = handle, spn = peer's final cumulative spn if has_spn: TX completes what is
                  // below as success, flushes the rest; RX flushes receives. Result carries the
                  // final cumulative spn (RX)
  kRemoveStream,  // id = handle: frees the slot (after linger)
  kChangePort,    // id = conn index, path, port (0 = draw one): live change of a path's source port
  kPeerAddress,   // TX: id = conn index, plane in path: neighbour of a plane changed
  kPortState,     // TX: id = conn index, plane number in path, status = kPort* bits: a port of the
                  // plane went down or up, here or at the peer
};
inline constexpr std::uint8_t kPortUp = 1, kPortOfPeer = 2;  // kPortState
struct Command {
  CommandKind kind{};
  std::uint8_t status = 0;  // WorkStatus
  std::uint8_t path = 0;
  bool has_spn = false;
  std::uint16_t port = 0;
  std::uint32_t id = 0;
  StreamSeq spn;
  std::uint64_t token = 0;  // returned in the result; 0 = no result wanted
  union {
    const ConnParams* conn;
    const StreamParams* stream;
    const RegionParams* region;
    const CqParams* cq;
    const ClientParams* client;
    const void* any = nullptr;
  };
};

struct CommandResult {
  std::uint64_t token = 0;
  bool ok = true;     // false: the object does not exist, or no room for it
  StreamSeq cum_spn;  // kStopStream by RX
};

// ---- RX -> TX
// ------------------------------------------------------------------------------------
struct PathAck {  // one AckPath block, as received
  PathSeq cum, highest;
  SackVector sack;  // bit i = cum + i
  WireTime timestamp_echo;
  std::uint32_t ack_delay_64ns = 0;  // kNoDelaySample: no RTT sample
  std::uint16_t late = 0, rejects = 0;
  std::uint32_t ce_packets = 0, received_packets = 0;
  std::uint8_t epoch = 0;
  // Of the ACK packet as a whole.
  std::uint8_t receive_load = 0, host_pressure = 0, hint_epoch = 0;
  Mbps rate_hint = 0;
  WireTime sent;               // the ACK's own timestamp: the newest hint wins
  std::uint8_t hint_path = 0;  // path of the ACK itself: the hint is of its plane
};
struct StreamAck {
  std::uint16_t number = 0;  // our number of the stream
  bool response = false;
  StreamSeq cum_spn;
  RecvNumber rqn_limit;
};
struct NackInfo {
  wire::NackReason reason{};
  std::uint16_t wait_us = 0;
  StreamSeq spn;
  PathSeq pseq;
};
struct ProbeReplyInfo {
  std::uint64_t nonce = 0;
  WireTime timestamp_echo;
  std::uint16_t delay_64ns = 0;
  std::uint8_t kind = 0, epoch = 0;
};
enum class RxToTxKind : std::uint8_t { kPathAck, kStreamAck, kNack, kProbeReply };
struct RxToTx {
  RxToTxKind kind{};
  std::uint8_t path = 0;
  std::uint8_t generation = 0;  // of own_dcid: the index may have another owner by now
  ConnIndex conn;
  Nanos received_at = 0;
  union {
    PathAck ack;
    StreamAck stream;
    NackInfo nack;
    ProbeReplyInfo probe;
  };
  RxToTx() : ack() {}
};
static_assert(sizeof(RxToTx) <= 128);

// ---- RX, TX -> control
// -----------------------------------------------------------------------------
struct PacketSource {  // whence a control packet came, enough to answer it
  PlaneId plane;       // local port index
  IpAddress src, dst;
  MacAddress src_mac;
  std::uint16_t src_port = 0, dst_port = 0;
};
enum class RxToControlKind : std::uint8_t { kCtrlPacket, kFrame, kResult, kConnAlive };
struct RxToControl {
  RxToControlKind kind{};
  std::uint16_t length = 0;  // of bytes
  ConnIndex conn;            // kConnAlive: first valid packet of this half-open connection
  Nanos received_at = 0;
  CommandResult result;
  PacketSource source;
  std::array<std::uint8_t, wire::kMaxCtrlBytes> bytes{};  // UDP payload, or frame (ARP, ND)
};
enum class TxToControlKind : std::uint8_t { kResult, kConnFailed, kStreamFailed, kStreamDrained };
struct TxToControl {
  TxToControlKind kind{};
  std::uint8_t status = 0;      // WorkStatus
  bool never_answered = false;  // kConnFailed: the peer never acknowledged anything
  std::uint32_t id = 0;         // conn index or stream handle
  CommandResult result;
};

// ---- TX <-> timer
// --------------------------------------------------------------------------------
struct TimerArm {
  std::uint32_t id = 0;
  Nanos deadline = 0;
};  // re-arming replaces; kNever cancels
struct TimerFired {
  std::uint32_t id = 0;
};

}  // namespace metaroce
