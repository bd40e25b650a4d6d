// The RX role: checks each packet, places it, records it, and says so to the peer and to TX.
// Owns receive windows, stream bitmaps, receive queues and acknowledgment state of one worker
// group. Passive: the caller hands it packets and time; one thread.
//
//   begin_burst(now)                 once per receive burst
//   on_packet(p)                     each packet; never throws, never allocates, never logs
//   end_burst(queue_empty, leaving)  ACKs, mail for TX, completions
//
// ACK policy [MR-7.1.1]: at the end of a burst when >= ack_every packets are pending, a gap, a CE
// change, ACK_REQ or FLUSH occurred, the sender has nothing else to send, the oldest has waited for
// max_ack_delay, or the caller is `leaving`: it may not be back within that time.
//
// Io (compile-time interface):
//   void learn(ConnIndex, plane_slot, const RxPacket&)   remember how to answer on this plane
//   uint8_t* begin_reply(ConnIndex, plane_slot)          room for one UDP payload, or nullptr
//   bool commit_reply(n, src_port, dst_port)             sends what begin_reply gave, as control
//   void place(uint8_t* to, const uint8_t* from, n)      the one copy of the receive path
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/crc32c.h"
#include "transport/completion_queue.h"
#include "transport/config.h"
#include "transport/events.h"
#include "transport/fixed_pool.h"
#include "transport/memory_table.h"
#include "transport/rate_hints.h"
#include "transport/recv_stream.h"
#include "transport/rx_conn.h"
#include "wire/net.h"
#include "wire/packet.h"

namespace metaroce {

// One received UDP payload. Addresses point into the frame, which outlives the call.
struct RxPacket {
  const std::uint8_t* data = nullptr;  // UDP payload
  std::uint32_t length = 0;
  PlaneId port;  // local port index on which it arrived
  bool ce = false;
  bool v6 = false;
  const std::uint8_t* src_ip = nullptr;
  const std::uint8_t* dst_ip = nullptr;
  const std::uint8_t* src_mac = nullptr;
  std::uint16_t src_port = 0, dst_port = 0;
};

struct RxCounters {
  DropCounters drops;
  std::uint64_t packets = 0, data_packets = 0, data_bytes = 0, placed_bytes = 0;
  std::uint64_t acks_sent = 0, nacks_sent = 0, out_of_order = 0, held = 0;
  std::uint64_t bad_submissions = 0;  // work requests naming a foreign or unknown stream
  std::uint64_t no_window = 0;        // a packet out of order, and no window to record it in
  std::uint64_t no_path_state = 0;    // a packet beyond a hole, and no ring to record it in
};

struct RxLimits {
  std::uint32_t hold_buffers = 512;  // ordered packets, per group; quota per connection besides
  std::uint32_t rings = 1U << 16;    // paths with something missing, 72 bytes each
  std::uint32_t windows = 1U << 15;  // streams with packets out of order, spn_window bits each
  std::uint32_t mail = 1U << 14;     // paths whose acknowledgment waits for TX; below 2^16
};

template <typename Queues, typename Io>
class RxRole {
 public:
  RxRole(const TransportConfig& config, Queues& queues, Io& io, const RxLimits& limits = {})
      : config_(config),
        q_(queues),
        io_(io),
        memory_(config.max_regions),
        cqs_(config.max_cqs),
        conns_(config.max_connections),
        windows_(std::min(limits.windows, config.max_streams), config.spn_window),
        streams_(config.max_streams),
        hold_space_(std::size_t{limits.hold_buffers} * config.payload_mtu),
        rings_(std::min(limits.rings, config.max_connections * kMaxPaths)),
        mail_(std::min({limits.mail, config.max_connections * kMaxPaths, kMaxMail})) {
    for (std::uint32_t i = limits.hold_buffers; i-- > 0;) hold_free_.push_back(i);
    for (std::uint8_t i = 0; i < kMaxPlanes; ++i)
      set_port(PlaneId{i}, PlaneId{i}, config.line_rate);
    ack_list_.reserve(config.max_connections);
    mail_list_.reserve(config.max_connections);
    stream_mail_.reserve(config.max_streams);
    clients_.reserve(config.max_clients);
  }
  RxRole(const RxRole&) = delete;

  // Before the first command: local port `port` is plane number `plane` and has this line rate.
  // Unless told, port i is plane i at the configured rate.
  void set_port(PlaneId port, PlaneId plane, Mbps line_rate) {
    port_of_plane_[plane.v % kMaxPlanes] = port.v % kMaxPlanes;
    hints_[port.v % kMaxPlanes].configure(config_, line_rate);
  }

  void begin_burst(Nanos now) {
    now_ = now;
    ++round_;
    take_commands();
  }
  void on_packet(const RxPacket& p);
  // Takes receives that applications posted; call once per pass, before end_burst.
  void take_receives();
  void end_burst(bool queue_empty, bool leaving) {
    refresh_hints();
    send_acks(leaving);
    deliver_mail();
    if (rings_.used() != 0) sweep_rings();
    note_pressure(queue_empty);
    cqs_.flush();
  }

  // Paths that remember holes, acknowledgments that wait for TX: none of it is an idle
  // connection's.
  [[nodiscard]] std::uint32_t rings_used() const { return rings_.used(); }
  [[nodiscard]] std::uint32_t windows_used() const { return windows_.used(); }
  [[nodiscard]] std::uint32_t mail_used() const { return mail_.used(); }

  // After end_burst(): when an acknowledgment has waited long enough; kNever: none is owed.
  [[nodiscard]] Nanos ack_wake() const { return std::min(ack_wake_, hint_wake_); }

  [[nodiscard]] const RxCounters& counters() const { return counters_; }
  [[nodiscard]] RxCounters& counters() { return counters_; }
  [[nodiscard]] const RxConn* conn(ConnIndex c) const {
    return c.v < conns_.size() && conns_[c.v].used ? &conns_[c.v] : nullptr;
  }
  [[nodiscard]] const PortHints& hints(PlaneId port) const { return hints_[port.v % kMaxPlanes]; }
  [[nodiscard]] const RecvStream* stream(StreamHandle h) const {
    const std::uint32_t s = stream_slot(h);
    return s < streams_.size() && streams_[s].used && streams_[s].params.handle == h ? &streams_[s]
                                                                                     : nullptr;
  }

  static constexpr std::uint32_t kMaxAckPaths = 16;  // blocks per ACK packet
  static constexpr std::uint32_t kMaxPaths = 256;    // of a connection
  static constexpr std::uint32_t kMaxMail = UINT16_MAX;
  static constexpr Nanos kRingIdle =
      kSecond;  // a path that was quiet for as long forgets its holes
  static constexpr std::uint32_t kControlReserve =
      32;  // rx_to_control slots that packets leave free

 private:
  void take_commands();
  bool add_stream(const StreamParams& p);
  void stop_stream(RecvStream& s);
  void remove_stream(RecvStream& s);
  void result(const Command& c, bool ok, StreamSeq cum = {});

  RxConn* find_conn(const RxPacket& p, const wire::Common& c, wire::Checked& k);
  bool crc_ok(const RxConn& conn, const RxPacket& p, std::uint8_t flags) const;
  void on_ctrl(const RxPacket& p);
  void on_data(RxConn& conn, const RxPacket& p, const wire::Checked& k);
  void on_flush(RxConn& conn, const RxPacket& p);
  void on_ack(RxConn& conn, const RxPacket& p);
  static bool ack_well_formed(const RxConn& conn, const std::uint8_t* at, const std::uint8_t* end,
                              const wire::Ack& a);
  void on_stream_block(RxConn& conn, const wire::AckStream& b);
  void on_nack(RxConn& conn, const RxPacket& p);
  void on_probe(RxConn& conn, const RxPacket& p);
  void on_probe_reply(RxConn& conn, const RxPacket& p);

  // Result of trying to place one packet: drop == kNone means placed or held.
  struct Outcome {
    DropReason drop = DropReason::kNone;
    wire::NackReason nack{};
    bool answer = false;  // send `nack`
    std::uint16_t wait_us = 0;
  };
  struct Target {  // where a packet's bytes go
    std::uint8_t* to = nullptr;
    std::uint32_t rkey = 0, access = 0, pd = 0;
    std::uint64_t va = 0;
    RecvSlot* slot = nullptr;
    bool last = false;
  };
  static Outcome retry_later(DropReason d, wire::NackReason r, std::uint16_t wait_us) {
    return {d, r, true, wait_us};
  }
  static Outcome refuse(RecvStream& s, StreamSeq spn, DropReason d, wire::NackReason r) {
    s.fail(spn, r);
    return {d, r, true, 0};
  }
  Outcome place(RxConn& conn, RecvStream& s, const RxPacket& p, const wire::Checked& k);
  Outcome resolve_target(RecvStream& s, const RxPacket& p, const wire::Checked& k, Target& t);
  Outcome resolve_send(RecvStream& s, const RxPacket& p, const wire::Checked& k, Target& t);
  Outcome resolve_write(RecvStream& s, const RxPacket& p, const wire::Checked& k, Target& t);
  Outcome hold(RxConn& conn, RecvStream& s, StreamSeq spn, const std::uint8_t* from,
               std::uint32_t n, const Target& t);
  void store_ordered(std::uint8_t* to, const std::uint8_t* from, std::uint32_t n);
  void progress_stream(RxConn& conn, RecvStream& s);
  void complete_receives(RecvStream& s);
  void free_held(RxConn& conn, RecvStream& s);

  RxPath::Arrival record(RxPath& path, const RxPath::Rings& rings, PathSeq pseq, WireTime sent,
                         bool ce) {
    const auto a = path.accept(rings, pseq, sent, ce, now_);
    if (a == RxPath::Arrival::kUnrecorded) ++counters_.no_path_state;
    return a;
  }
  void account(RxConn& conn, std::uint8_t path, RxPath::Arrival a, bool ce);
  void owe_ack(RxConn& conn) {
    if (!conn.ack_queued) {
      conn.ack_queued = true;
      conn.owed_since = now_;
      ack_list_.push_back(conn.params.index.v);
    }
  }
  void owe_stream_block(RxConn& conn, RecvStream& s) {
    if (s.ack_dirty) return;
    s.ack_dirty = true;
    conn.ack_streams.push_back(stream_slot(s.params.handle));
  }
  void send_acks(bool leaving);
  bool send_one_ack(RxConn& conn, std::array<std::uint64_t, 4>& paths);
  void ack_alone(RxConn& conn, std::uint8_t path);
  std::uint32_t write_stream_block(std::uint8_t* out, RecvStream& s);
  void send_nack(RxConn& conn, std::uint8_t path, RecvStream* s, const Outcome& o, StreamSeq spn,
                 PathSeq pseq);

  // rx_hints.h
  // Ethernet, IP and UDP headers besides the payload. What the line adds (24 bytes) is left to the
  // part of the line rate that is not shared out.
  static std::uint32_t frame_bytes(const RxPacket& p) {
    return p.length + (p.v6 ? wire::kEncap6Bytes : wire::kEncap4Bytes);
  }
  PortHints& hints_of(const RxConn& conn, std::uint8_t path) {
    return hints_[conn.plane_ports[conn.plane_slot(path)]];
  }
  void add_hints(RxConn& conn);
  void remove_hints(const RxConn& conn);
  void refresh_hints();
  void fill_load(wire::Ack& a, const RxConn& conn);
  void note_pressure(bool queue_empty);
  // Three quarters of recent bursts. [MR-8.4.21]
  [[nodiscard]] bool pressed() const { return pressure_ > (192U << 8); }

  void fill_common(wire::Common& c, wire::Type t, RxConn& conn, std::uint8_t path) {
    c.set(t);
    c.flags = conn.params.crc ? wire::kFlagCrc : 0;
    c.path = path;
    c.dcid = conn.params.peer_dcid;
    c.pseq = ++serial_;
    c.timestamp = to_wire_time(now_).v;
  }
  // Adds the CRC trailer if negotiated and sends what begin_reply() gave at `out`.
  void finish_reply(RxConn& conn, std::uint8_t* out, std::uint32_t n, std::uint8_t path) {
    if (conn.params.crc) {
      wire::Be32 crc = crc32c(0, out, n);
      std::memcpy(out + n, &crc, sizeof crc);
      n += wire::kCrcBytes;
    }
    // Lost like a packet in the network: the next ACK says it again. [MR-7.1.9]
    if (!io_.commit_reply(n, conn.peer_source_ports[path], conn.params.peer_port))
      drop(conn, DropReason::kTxQueueFull);
  }
  void deliver_mail();
  RxPath::Rings rings_of(const RxConn& conn, std::uint8_t path) {
    return {rings_, conn.params.index.v * kMaxPaths + path};
  }
  void sweep_rings();
  void give_pools(RxConn& conn);
  void name(RxToTx& e, const RxConn& conn) const {
    e.conn = conn.params.index;
    e.generation = static_cast<std::uint8_t>(conn.params.own_dcid);
    e.received_at = now_;
  }
  void drop(DropReason r) { counters_.drops.add(r); }
  void drop(RxConn& conn, DropReason r) {
    drop(r);
    ++conn.counters.drops;
  }

  const TransportConfig& config_;
  Queues& q_;
  Io& io_;
  Nanos now_ = 0;
  Nanos ack_wake_ = kNever, hint_wake_ = kNever;
  std::uint32_t round_ = 0, serial_ = 0, next_client_ = 0;
  MemoryTable memory_;
  CompletionQueues cqs_;
  std::vector<RxConn> conns_;
  WindowPool windows_;  // before the streams that hold some
  std::vector<RecvStream> streams_;
  std::vector<ClientParams> clients_;
  std::vector<std::uint8_t> hold_space_;
  std::vector<std::uint32_t> hold_free_;
  RxRingPool rings_;
  FixedPool<PathAck> mail_;
  std::uint32_t next_ring_ = 0;
  Nanos ring_check_ = 0;
  std::vector<std::uint32_t> ack_list_, mail_list_, stream_mail_;
  std::array<PortHints, kMaxPlanes> hints_;  // by local port
  std::uint32_t hinted_ports_ = 0;           // bit set: those that had a connection
  std::array<std::uint8_t, kMaxPlanes> port_of_plane_{};
  std::uint32_t pressure_ = 0;  // 1/255, times 256
  RxCounters counters_;
};

}  // namespace metaroce

#include "transport/rx_ack.h"
#include "transport/rx_commands.h"
#include "transport/rx_data.h"
#include "transport/rx_feedback.h"
#include "transport/rx_hints.h"
#include "transport/rx_packet.h"
