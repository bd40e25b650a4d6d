// The TX role: streams -> packets, sprayed over paths; loss recovery; windows; completions of
// requests. Owns send queues, in-flight records, path windows and the scheduler of one worker
// group. Passive: one thread calls poll(now).
//
// poll() is the table of contents:
//   commands -> feedback from RX -> expired timers -> submissions -> blocked streams -> transmit
//   -> retire finished work -> publish completions
//
// Limits: every pool is sized at start (work requests, in-flight blocks, resend nodes); an empty
// pool leaves work where it is (in the client's ring, unresolved on its path) until there is room.
//
// Io (compile-time interface):
//   bool install(const ConnParams&); void uninstall(ConnIndex)
//   bool ready(ConnIndex, plane_slot)                 the port takes a packet now
//   uint8_t* begin(ConnIndex, plane_slot)             room for a header, or nullptr
//   void commit(header_bytes, payload, payload_bytes, trailer or nullptr, src_port, dst_port, work,
//               control)                              control: with the control DSCP
//   bool busy(work)                                   a packet in the port still refers to its
//   buffer
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/crc32c.h"
#include "base/rng.h"
#include "transport/array_pool.h"
#include "transport/completion_queue.h"
#include "transport/config.h"
#include "transport/events.h"
#include "transport/memory_table.h"
#include "transport/tx_conn.h"
#include "wire/net.h"
#include "wire/packet.h"

namespace metaroce {

struct TxCounters {
  DropCounters drops;
  std::uint64_t data_packets = 0, data_bytes = 0, resent_packets = 0, resent_bytes = 0, flushes = 0,
                probes = 0;
  std::uint64_t lost_packets = 0, spurious_packets = 0, rejected_packets = 0, timeouts = 0;
  std::uint64_t acked_packets = 0, acked_bytes = 0, completions = 0, epoch_changes = 0;
  std::uint64_t no_work = 0, no_block = 0, no_node = 0, no_buffer = 0, no_path_state = 0,
                no_window = 0;     // a pool was empty
  std::uint64_t paths_failed = 0;  // third silence in a row, or never verified [MR-9.4.3]
  std::uint64_t paths_mtu = 0;     // small probes answered, full-size ones not [MR-9.1.7]
  std::uint64_t routes_left = 0;   // far worse than the connection [MR-9.4.7]
  std::uint64_t paths_returned = 0, planes_lost = 0, planes_returned = 0;  // [MR-9.5.1]
  std::uint64_t bad_submissions = 0;
};

struct TxLimits {
  std::uint32_t work_requests = 1U << 14;
  std::uint32_t blocks = 4096;  // paths with something in flight, 4 KiB each
  std::uint32_t resend_nodes = 1U << 16;
  // Paths of connections at work, some 280 bytes each. Those of one connection are taken together,
  // and the memory is not touched before: enough for nearly all, since a connection whose paths are
  // being probed holds its own for as long as that lasts.
  std::uint32_t paths = 1U << 18;
  std::uint32_t windows = 1U << 15;  // streams with requests outstanding, spn_window bits each
};

template <typename Queues, typename Io, typename Cc>
class TxRole {
 public:
  using Conn = TxConn<Cc>;
  using Path = TxPath<Cc>;

  TxRole(const TransportConfig& config, const TxLimits& limits, std::uint32_t max_paths,
         Queues& queues, Io& io)
      : config_(config),
        q_(queues),
        io_(io),
        memory_(config.max_regions),
        cqs_(config.max_cqs),
        work_(limits.work_requests),
        work_held_(1U << 16),
        work_share_(std::max(1U, limits.work_requests / 2 / std::max(1U, config.max_clients))),
        blocks_(limits.blocks),
        nodes_(limits.resend_nodes),
        conns_(config.max_connections),
        windows_(std::min(limits.windows, config.max_streams), config.spn_window),
        streams_(config.max_streams),
        paths_(std::clamp(limits.paths / std::bit_ceil(max_paths), 1U, config.max_connections),
               std::bit_ceil(max_paths)),
        owners_(paths_.size(), kNil),
        path_shift_(std::bit_width(std::bit_ceil(max_paths)) - 1) {
    clients_.reserve(config.max_clients);
  }
  TxRole(const TxRole&) = delete;

  // One pass; returns packets sent. `budget` bounds them.
  std::uint32_t poll(Nanos now, std::uint32_t budget = 64);
  // After poll(): when a connection that waits for nothing but the pacer may send again; kNever
  // when there is none. Not later than `now` when the budget ended the pass.
  [[nodiscard]] Nanos pacing_wake() const { return wake_; }

  [[nodiscard]] const TxCounters& counters() const { return counters_; }
  [[nodiscard]] TxCounters& counters() { return counters_; }
  [[nodiscard]] const Conn* conn(ConnIndex c) const {
    return c.v < conns_.size() && conns_[c.v].used ? &conns_[c.v] : nullptr;
  }
  [[nodiscard]] TxPathView<Cc> path(ConnIndex c, unsigned path) const;
  // Connections that hold state of paths at work.
  [[nodiscard]] std::uint32_t at_work() const { return paths_.used(); }
  [[nodiscard]] std::uint32_t windows_used() const { return windows_.used(); }
  [[nodiscard]] const SendStream* stream(StreamHandle h) const {
    const std::uint32_t s = stream_slot(h);
    return s < streams_.size() && streams_[s].used && streams_[s].params.handle == h ? &streams_[s]
                                                                                     : nullptr;
  }
  // What window and pacer allow a connection to send now, for reports: Mb/s.
  [[nodiscard]] Mbps allowed_rate(ConnIndex c) const;
  [[nodiscard]] std::uint32_t timer_ids() const { return paths_.size() << path_shift_; }
  // True when no pool holds anything: tests and shutdown.
  [[nodiscard]] bool quiet() const {
    return work_.used() == 0 && blocks_.used() == 0 && nodes_.used() == 0;
  }
  // Invariants, for simulation and tests: first violated one as text, or nullptr.
  [[nodiscard]] const char* validate() const;

 private:
  SendStream* find_stream(StreamHandle h) {
    const std::uint32_t s = stream_slot(h);
    return s < streams_.size() && streams_[s].used && streams_[s].params.handle == h ? &streams_[s]
                                                                                     : nullptr;
  }
  static std::uint32_t slot_of(const SendStream& s) { return stream_slot(s.params.handle); }

  // tx_commands.h
  void take_commands();
  bool run_command(const Command& c);  // false: a removal that a port still delays
  void finish_removals();
  bool add_conn(const ConnParams& p);
  void remove_conn(std::uint32_t index);
  void fail_conn(Conn& c, WorkStatus status);
  bool add_stream(const StreamParams& p);
  void stop_stream(SendStream& s, const Command& c);
  void remove_stream(SendStream& s);
  bool any_busy_with_key(std::uint32_t key) const;
  bool any_busy_of_client(ClientId client) const;
  void result(const Command& c, bool ok);
  void tell_control(const TxToControl& e);
  void report_drained();

  // tx_submissions.h
  void take_submissions();
  bool take_one(const WorkRequest& w, ClientId client, bool& consumed);
  void list_stream(SendStream& s);
  void list_conn(Conn& c);

  // tx_feedback.h
  void take_feedback();
  bool concerns_resting(Conn& c, const RxToTx& e);
  void on_path_ack(Conn& c, std::uint8_t path, const PathAck& a, Nanos received_at);
  void on_stream_ack(Conn& c, const StreamAck& a);
  void on_nack(Conn& c, std::uint8_t path, const NackInfo& n);
  void on_probe_reply(Conn& c, std::uint8_t path, const ProbeReplyInfo& r);
  void apply_acked(Conn& c, std::uint8_t path, const SackVector& newly, Bytes& bytes);
  bool apply_lost(Conn& c, std::uint8_t path, const SackVector& lost);
  void take_timers();
  void on_timer(Conn& c, std::uint8_t path);
  void on_ripe_gap(Conn& c, std::uint8_t path);
  void on_timeout(Conn& c, std::uint8_t path);
  void heard_peer(Conn& c);
  void heard(Conn& c, std::uint8_t path);
  // [MR-6.6.6]
  static WorkStatus final_status(wire::NackReason r) {
    switch (r) {
      case wire::NackReason::kBadKey:
      case wire::NackReason::kBounds:
      case wire::NackReason::kAccess:
        return WorkStatus::kRemoteAccess;
      case wire::NackReason::kLength:
      case wire::NackReason::kBadStream:
      case wire::NackReason::kOperation:
        return WorkStatus::kRemoteInvalidRequest;
      default:
        return WorkStatus::kRemoteOperation;
    }
  }

  // tx_recovery.h
  // kMoved: off a lost plane or a failed path, which says nothing about congestion.
  enum class Lost : std::uint8_t { kGap, kTimeout, kRejected, kMoved };
  bool requeue_all(Conn& c, std::uint8_t path, Lost how);  // false: no room for all
  bool resolve(Conn& c, std::uint8_t path, unsigned bit, Lost how);
  bool queue_resend(Conn& c, SendStream& s, std::uint8_t path, const TxRecord& r, Lost how);
  void append(std::uint32_t& head, std::uint32_t& tail, std::uint32_t node);
  void end_nack(Conn& c, SendStream& s);
  void wake_blocked();
  void settle(Conn& c, std::uint8_t path);
  void settle_block(Path& p) {  // an attempt to send took a block and failed
    if (p.seq.span() == 0 && p.block != kNil) {
      blocks_.give(p.block);
      p.block = kNil;
    }
  }
  void update_open(Conn& c, std::uint8_t path);
  void arm(Conn& c, std::uint8_t path);
  [[nodiscard]] Nanos deadline(const Conn& c, std::uint8_t path) const;
  // Probe timeout of a path without back-off. The whole connection's round trips count too: a path
  // that was quiet, or has no sample, does not know that queues have grown. [MR-7.4.1] [MR-7.2.4]
  // [MR-7.2.5]
  [[nodiscard]] Nanos probe_timeout(const Conn& c, const Path& p) const {
    const Nanos all = c.rtt.probe_timeout(config_.probe_timeout_floor, config_.max_ack_delay,
                                          c.params.handshake_rtt);
    // Over long ways a route may be some times as long as those known so far. [MR-7.2.6]
    if (!p.rtt.valid())
      return c.lowest_rtt.value() > kMaxStartRtt ? std::max(all, 4 * c.rtt.srtt()) : all;
    return std::max(all,
                    p.rtt.probe_timeout(config_.probe_timeout_floor, config_.max_ack_delay, 0));
  }

  // Something was heard within the last round trip: who is silent now is a path, not the peer.
  [[nodiscard]] bool peer_answers(const Conn& c) const {
    return c.rtt.valid() && now_ - c.last_ack < c.rtt.srtt();
  }

  // tx_paths.h
  void fail_path(Conn& c, std::uint8_t path);
  void ask_path(Conn& c, std::uint8_t path);
  void on_path_reply(Conn& c, std::uint8_t path, const ProbeReplyInfo& r);
  void path_returns(Conn& c, std::uint8_t path);
  void peer_recovered(Conn& c);
  void change_port(Conn& c, std::uint8_t path, std::uint16_t port);
  void start_port_change(Conn& c, std::uint8_t path, std::uint16_t port);
  void leave_route(Conn& c, std::uint8_t path);
  void try_port_change(Conn& c, std::uint8_t path);
  std::uint16_t draw_port(Conn& c, std::uint8_t path);
  std::uint64_t fresh_nonce(Conn& c);
  std::uint8_t next_question_path(const Conn& c) const;

  // tx_rest.h
  bool wake(Conn& c);  // false: no state for its paths is free
  void rest(Conn& c);
  [[nodiscard]] bool may_rest(const Conn& c) const;
  Path resume(const Conn& c, unsigned path) const;
  static void keep(const Path& p, PathRest& r);
  void on_reply_at_rest(Conn& c, const ProbeReplyInfo& r);
  [[nodiscard]] static bool unproven(const Conn& c) {
    return c.rests() && c.rest[0].state == static_cast<std::uint8_t>(PathState::kNew);
  }

  // tx_active.h
  [[nodiscard]] ActiveSetRule active_rule(const Conn& c) const {
    return {c.cc.packet, config_.packets_per_path, c.params.n_planes, c.params.n_paths};
  }
  [[nodiscard]] bool hopeful(const Conn& c, unsigned path) const {
    return c.paths[path].health.hopeful() && c.planes[c.plane_slots[path]].up();
  }
  void start_paths(Conn& c);
  void verify_active(Conn& c);
  void watch_window(Conn& c) {
    if (c.cc.window > c.active.grow_above || c.cc.window < c.active.shrink_below) [[unlikely]]
      resize_active(c, active_rule(c).choose(c.cc.window, c.active.paths));
  }
  void resize_active(Conn& c, const ActiveSet& to);
  int window_of_plane(const Conn& c, unsigned path, bool widest) const;
  void join_active(Conn& c, std::uint8_t path);

  // tx_planes.h
  void plane_progress(Conn& c, std::uint8_t path);
  void check_planes(Conn& c);
  [[nodiscard]] bool plane_is_at_work(const Conn& c, unsigned slot) const;
  [[nodiscard]] bool plane_is_silent(const Conn& c, std::uint8_t path) const;
  void lose_plane(Conn& c, unsigned slot);
  void drain_plane(Conn& c, unsigned slot);
  void ask_plane(Conn& c, unsigned slot);
  void plane_returns(Conn& c, unsigned slot);
  void on_port_state(Conn& c, const Command& k);
  void hurry_plane(Conn& c, unsigned slot);

  // tx_transmit.h
  std::uint32_t transmit(std::uint32_t budget);
  std::uint32_t send_from(Conn& c, std::uint32_t budget);
  enum class Sent : std::uint8_t { kYes, kNothing, kNoRoom };
  // Something was lost of late, and not in the queue that a hint speaks of.
  [[nodiscard]] static bool worth_questions(const Conn& c) {
    return c.flush_credit != 0 && !c.cc.hinted;
  }
  // Enough data for one packet per path not to matter. [MR-7.6.5]
  [[nodiscard]] static bool much_since_flush(const Conn& c) {
    return c.sent_since_flush >= 4 * c.active_paths;
  }
  Sent send_resend(Conn& c);
  Sent send_new(Conn& c);
  bool any_port(const Conn& c);
  int pick_path(Conn& c);
  int pick_resend_path(Conn& c, const ResendNode& n);
  int next_proven_path(Conn& c);
  bool send_data(Conn& c, std::uint8_t path, SendStream& s, std::uint32_t work, StreamSeq spn,
                 std::uint8_t losses, bool resend);
  std::uint32_t write_header(std::uint8_t* out, Conn& c, std::uint8_t path, SendStream& s,
                             const WorkState& w, StreamSeq spn, std::uint32_t offset,
                             std::uint32_t bytes, bool resend, PathSeq pseq);
  void owe_flush(Conn& c, std::uint8_t path);
  void owe_flushes(Conn& c, bool waits);
  bool pay_flushes(Conn& c);
  bool send_owed_questions(Conn& c);
  bool send_flush(Conn& c, std::uint8_t path, bool announces = false);
  void announce(Conn& c);
  bool send_probe(Conn& c, std::uint8_t path, std::uint16_t stream, std::uint64_t nonce,
                  wire::ProbeKind kind = wire::ProbeKind::kLiveness);
  void finish_packet(Conn& c, std::uint8_t path, std::uint8_t* header, std::uint32_t header_bytes,
                     const std::uint8_t* payload, std::uint32_t payload_bytes, std::uint32_t work,
                     bool control = false);
  void keep_alive();
  // tx_pacing.h
  static constexpr std::uint32_t kHintBurst = 4;            // packets
  static constexpr Nanos kMaxStartRtt = 25 * kMicrosecond;  // [MR-8.2.8]
  static constexpr Nanos kHintLife = 100 * kMicrosecond;    // and 2 srtt
  bool may_send(Conn& c);
  void charge(Conn& c, std::uint32_t bytes, bool resend);
  void credit(Conn& c);
  // Whole packets of the longest kind, with their headers.
  [[nodiscard]] static std::int64_t burst(const Conn& c, std::uint32_t packets) {
    constexpr std::int64_t kHeaders = wire::kEncap4Bytes + sizeof(wire::Write);
    return std::int64_t{packets} * (c.params.payload_mtu + kHeaders) * 8000;
  }
  // Many senders' bursts arrive together: under a hint they are short.
  [[nodiscard]] std::int64_t bucket(const Conn& c) const {
    const std::uint32_t packets = c.hint_window == Conn::kNoHintWindow
                                      ? config_.pacing_burst_packets
                                      : std::min(config_.pacing_burst_packets, kHintBurst);
    return burst(c, packets);
  }
  void start_pacing(Conn& c);
  void start_after_idle(Conn& c);
  void note_hint(Conn& c, const PathAck& a, Nanos received_at);
  void apply_hint(Conn& c);
  void size_hint_window(Conn& c);
  void lift_windows(Conn& c);
  Nanos on_rtt(Conn& c, Path& p, Nanos rtt);
  void on_announced(Conn& c, Nanos rtt);
  void measure_trip(Conn& c);
  void pause(Conn& c, Mbps before, bool first);
  [[nodiscard]] Nanos hint_trip(const Conn& c) const;
  // Under a hint: an eighth less while a queue stands, a sixty-fourth more while there is none, or
  // the link idles for what is kept back and for what is lost. The newest round trip tells; what is
  // in flight does not, for lost packets count. Each sender judges by a lowest round trip of its
  // own: a larger step up would let those win that never saw the queue empty. [MR-8.4.6]
  // [MR-8.4.18] [MR-8.4.20]
  [[nodiscard]] Mbps rate_now(const Conn& c) const {
    if (c.hint_window == Conn::kNoHintWindow) return c.pace_rate;
    const Nanos drain = std::max(2 * config_.hint_window_slack, c.lowest_rtt.value() / 16);
    if (c.latest_queue > drain) return std::max<Mbps>(c.pace_rate - c.pace_rate / 8, 1);
    return c.latest_queue < config_.hint_window_slack ? c.pace_rate + c.pace_rate / 64
                                                      : c.pace_rate;
  }
  // What waits besides `bytes` and `resends` that leave now. [MR-8.5.1]
  static std::uint8_t demand(const Conn& c, std::uint32_t bytes, std::uint32_t resends) {
    return static_cast<std::uint8_t>(std::bit_width(
        c.backlog - bytes + std::uint64_t{c.waiting - resends} * c.params.payload_mtu));
  }

  // tx_completion.h
  void finish_work(SendStream& s);
  void complete(SendStream& s, const WorkState& w, WorkStatus status);
  void retire();
  void give_work(std::uint32_t slot) {
    --work_held_[work_[slot].client.v];
    work_.give(slot);
  }

  const TransportConfig& config_;
  Queues& q_;
  Io& io_;
  Nanos now_ = 0;
  MemoryTable memory_;
  CompletionQueues cqs_;
  FixedPool<WorkState> work_;
  std::vector<std::uint32_t> work_held_;  // by client id: slots of work_
  std::uint32_t work_share_;              // of each client, whatever the others hold
  FixedPool<TxBlock> blocks_;
  FixedPool<ResendNode> nodes_;
  std::vector<Conn> conns_;
  WindowPool windows_;  // before the streams that hold some
  std::vector<SendStream> streams_;
  std::vector<ClientParams> clients_;
  ArrayPool<Path> paths_;              // by connection
  std::vector<std::uint32_t> owners_;  // of an array of paths: connection
  std::vector<std::uint32_t> blocked_, retiring_, retiring_now_, draining_, zombies_, unarmed_,
      live_conns_;
  std::vector<TxToControl> outbox_;
  std::vector<Command> removals_;
  std::uint32_t conn_head_ = kNil, conn_tail_ = kNil;  // connections that may send
  std::uint32_t next_client_ = 0, next_alive_ = 0;
  int path_shift_;
  Nanos wake_ = kNever;
  Nanos blocked_check_ = 0, alive_check_ = 0, removal_check_ = 0;
  TxCounters counters_;
};

}  // namespace metaroce

#include "transport/tx_active.h"
#include "transport/tx_commands.h"
#include "transport/tx_completion.h"
#include "transport/tx_feedback.h"
#include "transport/tx_pacing.h"
#include "transport/tx_paths.h"
#include "transport/tx_planes.h"
#include "transport/tx_probe.h"
#include "transport/tx_recovery.h"
#include "transport/tx_rest.h"
#include "transport/tx_submissions.h"
#include "transport/tx_transmit.h"
#include "transport/tx_upkeep.h"
#include "transport/tx_write.h"
