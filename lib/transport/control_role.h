// The control role of one host: owner of connections, streams, listeners, keys, clients and
// completion queues. Installs them in the worker groups' roles, speaks the handshake and the
// stream protocol [MR-5] [MR-6] with the peers, answers the applications (ControlApi).
//
// A passive object without I/O and clock; one thread, the control thread. poll(now) takes in
// what the roles say, runs what is due and retries commands that found a full ring; API calls
// use the time of the last poll. State machines: control_records.h. Rules of each exchange: the
// file that holds it.
//
//   control_role.cpp      poll, dispatch, commands, timers, events
//   control_tables.cpp    slots and lookup of connections and streams
//   control_objects.cpp   clients, completion queues, regions
//   handshake.cpp         CONN_REQ, CONN_RSP: from nothing to an installed connection; asker
//   handshake_answer.cpp  the same, asked
//   conn_life.cpp         packets on a connection, CONN_RTU, duplicates, serials
//   port_status.cpp       ports down and up; PORT_STATUS
//   conn_end.cpp          CONN_CLOSE, failure, removal, shutdown
//   stream_open.cpp       connect; STREAM_OPEN; initiator
//   stream_accept.cpp     listen, accept, reject; acceptor
//   stream_close.cpp      close, failures; STREAM_CLOSE, linger
//
// Bounds: every table has a limit in TransportConfig; an object has at most four commands
// outstanding per role, so the retry FIFOs are bounded by the tables; events are bounded by the
// requests that the host has passed in and the streams that exist. Timers: one wake-up time per
// connection and stream in one ordered set.
//
// Rejected: an answer cache of packets per peer (SerialWindow keeps one byte per request and
// the record does the rest); a thread of its own (the simulator runs hundreds of hosts).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "transport/control_records.h"
#include "transport/cookie.h"
#include "transport/peer_table.h"

namespace metaroce {

struct ControlCounts {
  std::uint32_t connections = 0, half_open = 0, streams = 0, listeners = 0, clients = 0, cqs = 0,
                regions = 0, queued_commands = 0;
  bool operator==(const ControlCounts&) const = default;
};

class ControlRole final : public ControlApi {
 public:
  // `io`, `ports` (one per group) and `stats` outlive the role.
  ControlRole(HostInfo host, ControlIo& io, std::vector<GroupPort*> ports,
              StatsSource* stats = nullptr);
  ~ControlRole() override = default;
  ControlRole(const ControlRole&) = delete;
  ControlRole& operator=(const ControlRole&) = delete;

  void poll(Nanos now);
  // Earliest time at which poll() has something to do without new input; kNever when none.
  [[nodiscard]] Nanos next_deadline() const;

  // Refuses new work, closes every stream (draining) and connection in order; what is left at
  // `deadline` is cut. drained() once no connection exists.
  void shutdown(Nanos deadline);
  [[nodiscard]] bool drained() const { return counts_.connections == 0; }

  // The dataplane learnt another link address for a peer's plane: its connections' TX roles are
  // told (kPeerAddress).
  void neighbour_changed(PlaneId plane, const IpAddress& peer);

  // A port of this host went down or up: its plane is dropped at once, or probed, for all
  // connections, and their peers are told. Repeating a known state does nothing.
  void port_state(PlaneId plane, bool up);

  [[nodiscard]] const DropCounters& drops() const { return drops_; }
  [[nodiscard]] ControlCounts counts() const;
  // Invariants; for tests and the simulator. False when one is broken.
  [[nodiscard]] bool validate() const;

  [[nodiscard]] std::uint32_t groups() const override { return host_.groups; }
  void add_client(std::uint64_t token, ClientId, std::vector<GroupRings>) override;
  void remove_client(std::uint64_t token, ClientId) override;
  void add_region(std::uint64_t token, ClientId, std::uint64_t va, std::uint8_t* host,
                  std::uint64_t length, std::uint32_t access) override;
  void remove_region(std::uint64_t token, ClientId, std::uint32_t key) override;
  void add_cq(std::uint64_t token, ClientId, std::vector<CqRings>,
              std::atomic<std::uint32_t>* armed, int event_fd) override;
  void remove_cq(std::uint64_t token, ClientId, std::uint32_t cq) override;
  void listen(std::uint64_t token, ClientId, std::uint32_t service) override;
  void unlisten(std::uint64_t token, ClientId, std::uint32_t service) override;
  void accept(std::uint64_t token, ClientId, std::uint64_t request, const StreamAttr&) override;
  void reject(ClientId, std::uint64_t request) override;
  void connect(std::uint64_t token, ClientId, const IpAddress& peer, std::uint32_t service,
               const StreamAttr&, Nanos deadline) override;
  void close(std::uint64_t token, ClientId, StreamHandle, Nanos drain_deadline) override;
  bool conn_stats(ClientId, StreamHandle, ConnStats& out) override;
  ControlStatus move_path(ClientId, StreamHandle, std::uint8_t path, std::uint16_t port) override;
  bool next_event(ControlEvent& out) override;

 private:
  using Conn = control::Conn;
  using Stream = control::Stream;
  using Region = control::Region;
  using Cq = control::Cq;
  using Client = control::Client;
  using Retry = control::Retry;
  using Message = control::CtrlMessage;
  using CtrlStatus = control::CtrlStatus;
  enum class Owner : std::uint8_t { kConn = 1, kStream = 2, kRegion = 3, kCq = 4, kClient = 5 };
  enum class Side : std::uint8_t { kRx = 0, kTx = 1 };

  // control_role.cpp
  void command(std::uint32_t group, Side side, const Command& cmd);
  // With a result for the object `owner`, `id`.
  void command(std::uint32_t group, Side side, Command cmd, Owner owner, std::uint32_t id);
  void command(std::uint32_t group, Side side, CommandKind kind, Owner owner, std::uint32_t id,
               const void* params = nullptr);
  void flush_commands();
  void on_rx(std::uint32_t group, const RxToControl&);
  void on_tx(std::uint32_t group, const TxToControl&);
  void on_result(const CommandResult&);
  void on_ctrl_packet(const RxToControl&);
  void run_timers();
  void drop(DropReason r) { drops_.add(r); }  // [MR-4.1.2]
  ControlEvent& emit(ControlEventKind, std::optional<std::uint64_t> token, ClientId,
                     ControlStatus = ControlStatus::kOk, const char* message = "");
  void emit_stream(ControlEventKind, std::optional<std::uint64_t> token, const Stream&,
                   ControlStatus = ControlStatus::kOk, const char* message = "");
  void reply(const PacketSource& to, std::uint16_t dst_port, const Message&);
  void start(Retry&, std::uint32_t serial);
  bool repeat(Retry&);  // false: exhausted
  void rearm(Conn&);
  void rearm(Stream&);
  [[nodiscard]] std::uint16_t entropy_port();
  [[nodiscard]] Nanos long_linger() const;

  // control_tables.cpp, handshake.cpp, handshake_answer.cpp
  Conn* new_conn(std::uint32_t group, bool initiator);
  void free_conn(Conn&);
  [[nodiscard]] Conn* conn_at(ConnIndex);
  Conn* find_conn(const IpAddress& peer, std::uint32_t group);
  Conn* start_connecting(const IpAddress& peer, std::uint32_t group);
  bool send_conn_req(Conn&);  // false: no way to the peer on this plane
  void repeat_conn_req(Conn&);
  void next_local_plane(Conn&);
  void sample_rtt(Conn&, Nanos received_at);
  void on_conn_req(const Message&, const PacketSource&);
  void accept_conn_req(const Message&, const PacketSource&, std::uint32_t group);
  bool conn_req_is_repeat(const Message&, const PacketSource&, std::uint32_t group);
  Conn* room_for_half_open(const Message&, const PacketSource&, std::uint32_t group);
  void send_conn_rsp(Conn&, const PacketSource&);
  void on_conn_rsp(Conn&, const Message&, const PacketSource&, Nanos received_at);
  bool on_conn_retry(Conn&, const Message&);
  bool join_other(Conn&, bool tell_peer);
  bool negotiate(Conn&, const Message&, const IpAddress& local);
  void install_conn(Conn&);
  void on_conn_installed(Conn&);

  // port_status.cpp
  void tell_tx_port(Conn&, std::uint32_t plane, std::uint8_t bits);
  void tell_peer_ports(Conn&);
  void tell_down_ports(Conn&);
  void send_port_status(Conn&, bool rotate);
  void on_port_status(Conn&, const Message&, const PacketSource&);
  void on_port_status_rsp(Conn&, const Message&);
  void plane_changed(Conn&, std::uint32_t plane);
  void next_control_plane(Conn&);
  [[nodiscard]] bool plane_up(const Conn&, std::uint32_t plane) const;

  // conn_life.cpp, conn_end.cpp
  void enter_address(Conn&, const IpAddress&);
  void enter_instance(Conn&);
  void on_conn_packet(Conn&, const Message&, const PacketSource&);
  void open_conn(Conn&);
  void settle_duplicates(Conn&);
  void probe_instance(Conn&);
  void retire(Conn& loser, Conn& winner);
  void move_queued(Conn& from, Conn& to);
  void start_proofs(Conn&);
  void send_rtu(Conn&, std::uint32_t plane);
  void on_rtu_ack(Conn&, const Message&, const PacketSource&);
  void on_conn_close(Conn&, const Message&, const PacketSource&);
  void on_conn_close_rsp(Conn&, const Message&);
  void close_conn_if_idle(Conn&);
  void send_on(Conn&, Message&, bool rotate);
  [[nodiscard]] bool has_live_streams(const Conn&) const;
  // Streams of ours that are not open yet: fail, or get another connection - those whose OPEN
  // never left, or those too whose OPEN nobody answered.
  enum class Queued : std::uint8_t { kFail, kRequeue, kRequeueOpening };
  void fail_conn(Conn&, ControlStatus, WorkStatus, const char* message, bool tell_peer,
                 Queued = Queued::kFail);
  void advance_conn(Conn&);
  void on_conn_timer(Conn&);
  bool take_serial(Conn&, std::uint32_t& serial);
  void serial_answered(Conn&, std::uint32_t serial);
  void kick_queued(Conn&);

  // control_tables.cpp, stream_open.cpp, stream_accept.cpp
  [[nodiscard]] const char* attr_problem(const Client&, const StreamAttr&) const;
  Stream* new_stream(std::uint32_t group);
  void free_stream(Stream&);
  [[nodiscard]] Stream* stream_at(StreamHandle);
  [[nodiscard]] Stream* own_stream(ClientId, StreamHandle);
  void use_cqs(Stream&);
  void release_cqs(Stream&);
  bool put_on_conn(Stream&, Conn&);
  void dispatch_connect(Stream&);
  void fail_connect(Stream&, ControlStatus, const char* message);
  void try_open(Stream&);
  void send_open(Stream&, bool rotate);
  void on_stream_open(Conn&, const Message&, const PacketSource&);
  bool answer_repeated_open(Conn&, const Message&, const PacketSource&);
  void refuse_open(Conn&, const Message&, const PacketSource&, CtrlStatus);
  void release_peer_number(Conn&, std::uint16_t number);
  Message open_answer(const Conn&, std::uint32_t serial, std::uint16_t to, CtrlStatus,
                      const Stream*);
  void on_stream_open_rsp(Conn&, const Message&);
  void end_listener(std::uint32_t service);
  void reject_request(Stream&, CtrlStatus);
  void install_stream(Stream&);
  void on_stream_installed(Stream&);
  void cancel_open(Stream&, ControlStatus, const char* message);

  // stream_close.cpp
  void begin_close(Stream&);
  void advance_stream(Stream&);
  bool stop_roles(Stream&);
  void stop_stream(Stream&, Side);
  void remove_stream(Stream&);
  void finish_stream(Stream&);
  void start_close_request(Stream&);
  void send_close(Stream&, bool rotate);
  void answer_close(Stream&, const PacketSource&);
  void refuse_close(Conn&, const Message&, const PacketSource&);
  Stream* named_by_close(Conn&, const Message&);
  void peer_closed(Stream&, const PacketSource&);
  void on_stream_close(Conn&, const Message&, const PacketSource&);
  void on_stream_close_rsp(Conn&, const Message&);
  void stream_conn_lost(Stream&, ControlStatus, WorkStatus, const char* message);
  void on_stream_failed(Stream&, WorkStatus);
  void on_stream_timer(Stream&);
  void detach_client(Stream&);

  // control_objects.cpp
  [[nodiscard]] Client* client_at(ClientId);
  [[nodiscard]] Client* ready_client(std::uint64_t token, ClientId);
  // To both roles of every group; `rx` and `tx` give the parameters of each group, or nullptr.
  template <typename Rx, typename Tx>
  void command_all(CommandKind kind, Owner owner, std::uint32_t id, std::uint32_t& waits, Rx rx,
                   Tx tx) {
    for (std::uint32_t g = 0; g < host_.groups; ++g) {
      waits += 2;
      command(g, Side::kRx, kind, owner, id, rx(g));
      command(g, Side::kTx, kind, owner, id, tx(g));
    }
  }
  void remove_region(Region&, std::optional<std::uint64_t> token);
  void remove_cq(Cq&, std::optional<std::uint64_t> token);
  void on_region_result(Region&);
  void on_cq_result(Cq&);
  void on_client_result(Client&);
  void advance_client_removal(Client&);
  void detach_streams(Client&);

  struct RolePort {
    GroupPort* port = nullptr;
    std::deque<Command> waiting[2];  // by Side
  };
  // Slots of one group's streams; a handle's generation modulo the number of groups is the
  // group, so that a handle names one stream of the host.
  struct StreamTable {
    std::vector<std::unique_ptr<Stream>> slots;
    std::vector<std::uint16_t> generation;
    std::deque<std::uint32_t> free;
  };
  // Ordered by time; the id is a connection index or a stream handle.
  using TimerKey = std::tuple<Nanos, Owner, std::uint32_t>;

  HostInfo host_;
  ControlIo& io_;
  StatsSource* stats_;
  std::vector<RolePort> ports_;
  Nanos now_ = 0;
  Rng rng_;  // source ports only
  control::CookieJar cookies_;
  DropCounters drops_;
  ControlCounts counts_;

  std::vector<std::unique_ptr<Conn>> conns_;
  std::vector<std::uint8_t> conn_generation_;
  std::deque<std::uint32_t> free_conns_;
  std::set<std::pair<Nanos, std::uint32_t>> half_open_;  // (since, index): oldest first
  control::PeerTable peers_;
  std::uint32_t attempt_ = 0;  // CONN_REQs are numbered per instance
  std::uint32_t next_group_ = 0;
  std::set<std::uint8_t> down_planes_;  // numbers of planes whose port is down here

  std::vector<StreamTable> streams_;
  std::map<std::uint32_t, ClientId> listeners_;
  std::map<std::uint16_t, std::unique_ptr<Client>> clients_;
  std::map<std::uint32_t, std::unique_ptr<Cq>> cqs_;
  std::map<std::uint32_t, std::unique_ptr<Region>> regions_;  // by index
  std::deque<std::uint32_t> free_cqs_;

  std::set<TimerKey> timers_;
  std::deque<ControlEvent> events_;
  std::vector<std::unique_ptr<Conn>> freed_conns_;      // until the next poll: callers up the
  std::vector<std::unique_ptr<Stream>> freed_streams_;  // stack may still look at `state`
  bool shutting_down_ = false;
  Nanos shutdown_deadline_ = kNever;
};

}  // namespace metaroce
