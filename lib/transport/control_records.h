// The objects that the control role owns: plain records, changed by ControlRole only.
//
//   connection   kConnecting -> kInstalling -> kOpen                     we asked
//                kInstalling -> kHalfOpen -> kOpen                       the peer asked
//                any -> kRemoving -> freed;  kOpen -> kClosing -> kRemoving  at shutdown
//   stream       kQueued -> kOpening -> kInstalling -> kOpen             we connect
//                kRequested -> kInstalling -> kOpen                      the peer connects
//                kOpen -> [kDraining ->] kClosing -> kLinger -> kRemoving -> freed
//
// `waits` counts the command results that the roles still owe for an object. An object is
// advanced, and freed, only at zero: a role never holds a pointer into a freed record, and a
// result always finds its object.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "transport/control_io.h"
#include "transport/ctrl_codec.h"
#include "transport/serial_window.h"

namespace metaroce::control {

// A request under repetition: from ctrl_retry_first, doubling, ctrl_retries times.
struct Retry {
  bool active = false;
  std::uint32_t serial = 0;
  std::uint32_t tries = 0;
  Nanos interval = 0, next = kNever;
};

// Proof that the peer receives at one of its planes' addresses (CONN_RTU with a nonce).
struct PlaneProof {
  bool proven = false;
  std::uint64_t nonce = 0;
  Retry retry;
};

enum class ConnState : std::uint8_t {
  kConnecting,
  kInstalling,
  kHalfOpen,
  kOpen,
  kClosing,
  kRemoving,
  kFreed
};

struct Conn {
  ConnState state = ConnState::kConnecting;
  bool initiator = false;
  bool in_roles = false, install_failed = false;
  bool confirmed = false;       // the peer has sent a packet on the installed connection
  bool peer_closed = false;     // kRemoving after CONN_CLOSE: repeated ones are answered
  bool retiring = false;        // lost to a crossing connection: closes when idle
  bool serial_blocked = false;  // a stream waits for kSpan / 2 unanswered requests to shrink
  bool ever_sent = false;       // kConnecting: a CONN_REQ left this host
  std::uint32_t waits = 0;
  std::uint32_t group = 0;
  std::uint64_t epoch = 0, cookie = 0;
  IpAddress target;                // initiator: the address asked for; else the address proven
  PacketSource request_source;     // of the CONN_REQ that made it: whither its answer goes
  std::uint32_t local_plane = 0;   // kConnecting: index into HostInfo::planes
  std::uint32_t cookie_sends = 0;  // CONN_REQs sent at once because of a RETRY
  Nanos request_sent_at = 0;
  std::uint32_t requests_unanswered = 0;  // CONN_REQs since the last answer: 1 gives an RTT sample
  Nanos rtt = 0;
  ConnParams params;
  ConnInfo own, peer;                                   // as sent, as received
  Retry retry;                                          // CONN_REQ, CONN_CLOSE
  std::array<PlaneProof, kMaxPlanes> proofs{};          // of params.planes
  std::uint32_t control_plane = 0;                      // index into params.planes
  Retry port_retry;                                     // PORT_STATUS
  std::uint32_t port_serial = 0, peer_port_serial = 0;  // newest sent, newest taken
  std::uint32_t peer_down_planes = 0;                   // bit i: params.planes[i], as it said
  Nanos half_open_since = 0, linger_until = 0;
  SerialWindow seen;  // the peer's requests
  std::uint32_t next_serial = 0;
  std::deque<std::uint32_t> unanswered;  // ours, ascending
  std::uint16_t next_number = 0;         // of our side, for the next stream
  std::map<std::uint16_t, StreamHandle> by_own, by_peer;
  std::vector<IpAddress> addresses;  // entered in the PeerTable
  bool instance_entered = false;
  Nanos wake = kNever;
};

enum class StreamState : std::uint8_t {
  kQueued,
  kOpening,
  kRequested,
  kInstalling,
  kOpen,
  kDraining,
  kClosing,
  kLinger,
  kRemoving,
  kFreed
};

struct Stream {
  StreamState state = StreamState::kQueued;
  bool initiator = false;
  bool attached = true;  // the client may hear of it
  bool on_conn = false;  // `conn` and `own_number` are valid
  bool uses_cqs = false;
  bool in_roles = false, rx_running = false, tx_running = false, install_failed = false;
  bool detach = false;  // the client goes: leave the roles without linger
  bool down_sent = false;
  bool conn_dead = false;
  bool pending = false;     // kOpening: the peer's application is thinking
  bool close_done = false;  // our CLOSE was answered or given up
  bool close_timed_out = false;
  bool peer_closed = false, peer_close_answered = false;
  bool has_own_final = false, has_peer_final = false;
  std::uint32_t waits = 0;
  std::uint32_t group = 0;
  ConnIndex conn;
  std::uint16_t own_number = kNoNumber, peer_number = kNoNumber;
  StreamHandle handle = 0;
  ClientId client;
  std::uint32_t service = 0;
  StreamAttr attr;
  StreamInfo peer;  // as the OPEN or its reply said
  IpAddress target;
  std::optional<std::uint64_t> token, close_token;  // of connect or accept; of close
  std::uint32_t open_serial = 0, peer_close_serial = 0;
  PacketSource peer_close_source;
  StreamSeq own_final, peer_final;
  WorkStatus failure = WorkStatus::kSuccess;
  ControlStatus down_status = ControlStatus::kOk;
  const char* down_message = "";
  Retry retry;              // STREAM_OPEN, STREAM_CLOSE
  Nanos deadline = kNever;  // kQueued, kOpening: of connect; kDraining: of the drain
  Nanos linger_until = 0;
  StreamParams params;
  Nanos wake = kNever;
};

enum class ObjectState : std::uint8_t { kInstalling, kReady, kRemoving };

struct Region {
  ObjectState state = ObjectState::kInstalling;
  bool failed = false;
  std::uint32_t waits = 0;
  std::optional<std::uint64_t> token;
  RegionParams params;
};

struct Cq {
  ObjectState state = ObjectState::kInstalling;
  bool failed = false;
  std::uint32_t waits = 0, users = 0;
  std::uint32_t id = 0;
  ClientId client;
  std::optional<std::uint64_t> token;
  std::vector<CqParams> rx, tx;  // one per group
};

struct Client {
  ObjectState state = ObjectState::kInstalling;
  bool failed = false, remove_sent = false;
  std::uint32_t waits = 0;
  ClientId id;
  std::optional<std::uint64_t> token;
  std::vector<ClientParams> rx, tx;  // one per group
  std::set<StreamHandle> streams;
  std::set<std::uint32_t> cqs, regions, services;  // regions: by index
};

}  // namespace metaroce::control
