// What the application side (lib/api's session server, the embedded library, the simulator's
// workloads) asks of a host's control role. One thread: the control thread. Nothing blocks:
// every request with a token ends in exactly one ControlEvent with that token, within the limits
// named below.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "transport/address.h"
#include "transport/params.h"
#include "transport/path_health.h"
#include "transport/work.h"

namespace metaroce {

inline constexpr std::uint32_t kMaxPrivateData = 128;
struct PrivateData {
  std::uint32_t length = 0;
  std::array<std::uint8_t, kMaxPrivateData> bytes{};
};

struct StreamAttr {
  std::uint32_t send_cq = 0, recv_cq = 0;  // ids from add_cq
  std::uint32_t send_depth = 128, recv_depth = 128;
  bool ordered_last = false;  // [MR-6.4.4]
  PrivateData private_data;
};

// Rings of one client, one entry per worker group. The rings' memory outlives remove_client's
// event.
struct GroupRings {
  RingConsumer<WorkRequest> sends;     // read by the group's TX role
  RingConsumer<WorkRequest> receives;  // read by the group's RX role
};
struct CqRings {
  RingProducer<Completion> from_tx;  // written by the group's TX role
  RingProducer<Completion> from_rx;  // written by the group's RX role
};

enum class ControlStatus : std::uint8_t {
  kOk = 0,
  kNoSuchObject,  // unknown or foreign client, key, queue, request or stream
  kLimit,         // a configured limit (message says which)
  kInUse,         // service already has a listener; queue still used by a stream
  kInvalid,       // argument out of range
  kRefused,       // peer: nobody listens on that service, or rejected
  kUnreachable,   // no route, neighbour or common address family
  kTimeout,       // peer did not answer in time
  kPeerLost,      // connection failed or peer restarted
  kIncompatible,  // no common protocol version or MTU
};

enum class ControlEventKind : std::uint8_t {
  kDone,            // token: result of add_/remove_/listen/accept/close (key, cq, stream)
  kConnected,       // token of connect: stream, private_data of the acceptor
  kConnectRequest,  // token 0: client that listens, service, request, private_data
  kStreamDown,      // token 0: closed by the peer, or failed (work_status)
};
struct ControlEvent {
  ControlEventKind kind{};
  ControlStatus status = ControlStatus::kOk;
  std::uint64_t token = 0;
  ClientId client;
  std::uint32_t id = 0;  // key, cq id
  StreamHandle stream = 0;
  std::uint32_t group = 0;    // worker group of the stream: whose rings to post to
  std::uint64_t request = 0;  // kConnectRequest: to be given to accept() or reject()
  std::uint32_t service = 0;
  WorkStatus work_status = WorkStatus::kSuccess;
  IpAddress peer;
  PrivateData private_data;
  std::string message;  // for a person, when status is not kOk
};

struct PathStats {
  std::uint8_t path = 0, plane = 0;
  bool active = false;  // carries data now
  PathState state = PathState::kNew;
  PathFault fault = PathFault::kNone;  // why it failed last; none once it is back
  std::uint16_t source_port = 0;
  std::uint32_t srtt_ns = 0;
  std::uint64_t tx_packets = 0, tx_bytes = 0, rtx_packets = 0, lost_packets = 0,
                spurious_packets = 0;
  std::uint64_t rx_packets = 0, rx_bytes = 0, rx_out_of_order = 0, rx_late = 0, rx_ce = 0;
  Bytes window = 0;
};
struct ConnStats {
  IpAddress peer;
  std::uint32_t streams = 0;
  std::uint64_t acked_bytes = 0, tx_packets = 0, rtx_packets = 0, lost_packets = 0,
                spurious_packets = 0;
  std::uint64_t rx_packets = 0, rx_bytes = 0, rx_out_of_order = 0, rx_duplicates = 0, rx_drops = 0;
  std::vector<PathStats> paths;
};

class ControlApi {
 public:
  virtual ~ControlApi() = default;
  [[nodiscard]] virtual std::uint32_t groups() const = 0;

  virtual void add_client(std::uint64_t token, ClientId, std::vector<GroupRings>) = 0;
  // Ends listeners, streams (flushed), queues and regions of the client in that order. After the
  // event no role touches the client's rings, queues or memory.
  virtual void remove_client(std::uint64_t token, ClientId) = 0;

  // The application's [va, va + length) is mapped at `host` here. Event: id = key (lkey and rkey).
  virtual void add_region(std::uint64_t token, ClientId, std::uint64_t va, std::uint8_t* host,
                          std::uint64_t length, std::uint32_t access) = 0;
  virtual void remove_region(std::uint64_t token, ClientId, std::uint32_t key) = 0;

  virtual void add_cq(std::uint64_t token, ClientId, std::vector<CqRings>,
                      std::atomic<std::uint32_t>* armed, int event_fd) = 0;
  virtual void remove_cq(std::uint64_t token, ClientId, std::uint32_t cq) = 0;

  virtual void listen(std::uint64_t token, ClientId, std::uint32_t service) = 0;
  virtual void unlisten(std::uint64_t token, ClientId, std::uint32_t service) = 0;
  virtual void accept(std::uint64_t token, ClientId, std::uint64_t request, const StreamAttr&) = 0;
  virtual void reject(ClientId, std::uint64_t request) = 0;
  // Ends by `deadline` at the latest.
  virtual void connect(std::uint64_t token, ClientId, const IpAddress& peer, std::uint32_t service,
                       const StreamAttr&, Nanos deadline) = 0;
  // Waits until `drain_deadline` for outstanding requests, then closes.
  virtual void close(std::uint64_t token, ClientId, StreamHandle, Nanos drain_deadline) = 0;

  virtual bool conn_stats(ClientId, StreamHandle, ConnStats& out) = 0;
  // Moves a path of the stream's connection to another UDP source port (0: draw one), live: the
  // path drains, then goes on in a new epoch.
  virtual ControlStatus move_path(ClientId, StreamHandle, std::uint8_t path,
                                  std::uint16_t port) = 0;
  // Next event, oldest first; false when there is none.
  virtual bool next_event(ControlEvent& out) = 0;
};

}  // namespace metaroce
