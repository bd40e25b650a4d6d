// A multiplane Ethernet fabric as a deterministic discrete-event model: store and forward,
// output-queued switches, ECMP, ECN, strict priority, optional shared buffers and PFC, faults.
//
// The owner calls send() and hands every event of kind < 16 to handle(); the fabric answers through
// the sink:
//   void deliver(Picos now, std::uint16_t host, const Packet&)
//   void lost(Picos now, const Packet&, Loss)
//   void nic_ready(Picos now, std::uint16_t host, std::uint8_t plane)
//   std::uint64_t duplicate(const Packet&)      optional: a reference of its own for a fault's copy
// A sink may call send() and want_room() from any of them. A callback is always the last thing that
// a function does with a packet.
//
// Events: one per arrival at a node; one more at the start of transmission for a packet that had to
// wait. ECN is decided as a packet leaves its queue, from the bytes behind it and its own.
//
// Invariants: sent + duplicated = delivered + lost + inside; a port that may send and has something
// to send has exactly one start event (Link::pending). One thread. No allocation but for the growth
// of the two pools. Rejected: virtual sinks (a call per packet); computing departures when a packet
// is queued, which saves the start event but knows neither priority nor the queue behind a packet.
#pragma once

#include "fabric/fabric_state.h"

namespace metaroce::fabric {

template <typename Sink>
class Fabric : public FabricState {
 public:
  // The queue and the sink outlive the fabric. Seed: hashes of the switches, marks, faults.
  Fabric(const FabricConfig& config, std::uint64_t seed, EventQueue& queue, Sink& sink);

  // Whether fewer than nic_queue_packets data packets wait at the host's egress.
  [[nodiscard]] bool nic_room(std::uint16_t host, std::uint8_t plane) const {
    return exists(host, plane) && has_room(links_[nic_link(host, plane)]);
  }
  // nic_ready() comes once, when there is room; now, by an event, when there is already.
  void want_room(std::uint16_t host, std::uint8_t plane);

  // From packet.src at queue.now(). There is room on a link that is down, and everything sent there
  // is lost (link_up() tells): an owner that filled a dead link in a loop would never end.
  void send(const Packet& packet);

  // Events of kinds below kFirstOwnerKind.
  void handle(const Event& event);
  // A packet that was on its way for microseconds is in no near cache any more.
  void prefetch(std::uint8_t kind, std::uint32_t a) {
    if (kind == kArrive) __builtin_prefetch(&pool_[a]);
  }

  // Makes a fault happen now. False, and nothing changed: why_not(fault) says why.
  bool apply(const Fault& fault);
  void set_link_up(std::uint32_t link, bool up);

 private:
  enum Kind : std::uint8_t { kStart, kArrive, kDeliver, kNicReady, kPause, kReroute, kFault };

  // Path of a packet, this file.
  void enter(std::uint32_t link_id, std::uint32_t id);
  void start(std::uint32_t link_id);
  void transmit(std::uint32_t link_id, Link& l, std::uint32_t id);
  void arrive(std::uint32_t link_id, std::uint32_t id);
  void reach_host(std::uint32_t link_id, std::uint32_t id);
  void deliver(std::uint32_t id);
  void lose(std::uint32_t link_id, std::uint32_t id, Loss why);
  [[nodiscard]] std::uint32_t route(const Switch& s, const Packet& p) const;
  void mark(Link& l, Packet& p, std::uint32_t queue_bytes);
  [[nodiscard]] std::optional<Loss> refuses(const Link& l, const Packet& p, bool urgent) const;
  void account_wait(const Link& l, const PoolPacket& p);
  void account_leave(const Link& l, const PoolPacket& p);
  void schedule_start(std::uint32_t link_id, Link& l);
  void tell_room(std::uint32_t link_id, Link& l);
  [[nodiscard]] bool has_room(const Link& l) const {
    return l.data.packets < config_.nic_queue_packets;
  }
  [[nodiscard]] bool urgent(const Packet& p) const { return p.control && config_.strict_priority; }
  static bool may_send(const Link& l, bool urgent) {
    return (l.blocked & (urgent ? kDown | kStalled : kDown | kStalled | kPaused)) == 0;
  }
  static bool has_work(const Link& l) {
    return (!l.control.empty() && may_send(l, true)) || (!l.data.empty() && may_send(l, false));
  }

  // fabric_faults.h
  void transmit_faulty(std::uint32_t link_id, Link& l, std::uint32_t id);
  void reach_host_faulty(std::uint32_t link_id, std::uint32_t id);
  std::uint32_t copy_of(std::uint32_t id);
  void drop_all(std::uint32_t link_id);
  void kick(std::uint32_t link_id);
  void set_blocked(std::uint32_t link_id, std::uint8_t reason, bool on);
  void set_up(const Target& target, bool up);
  void set_stall(const Fault& fault);
  void pfc_wait(std::uint32_t link_id, std::uint32_t bytes);
  void pfc_leave(std::uint32_t link_id, std::uint32_t bytes);
  void note_route(std::uint32_t link_id);
  [[nodiscard]] std::uint32_t route_around(const Switch& s, const Packet& p) const;
  [[nodiscard]] bool live_route(std::uint32_t link_id, const Packet& p) const;

  EventQueue& queue_;
  Sink& sink_;
};

template <typename Sink>
Fabric<Sink>::Fabric(const FabricConfig& config, std::uint64_t seed, EventQueue& queue, Sink& sink)
    : FabricState(config, seed), queue_(queue), sink_(sink) {
  for (std::uint32_t i = 0; i < config_.faults.size(); ++i) {
    const Fault& f = config_.faults[i];
    if (f.at_ns <= 0) {
      apply(f);
    } else {
      queue_.schedule(f.at_ns * kPicosPerNano, kFault, i);
    }
  }
}

template <typename Sink>
void Fabric<Sink>::want_room(std::uint16_t host, std::uint8_t plane) {
  if (!exists(host, plane)) return;
  const std::uint32_t id = nic_link(host, plane);
  Link& l = links_[id];
  if ((l.traits & kWanted) != 0) return;
  l.traits |= kWanted;
  if (has_room(l)) queue_.schedule(queue_.now(), kNicReady, id);
}

template <typename Sink>
void Fabric<Sink>::send(const Packet& packet) {
  constexpr std::uint32_t kMaxBytes = 1U << 17;
  ++totals_.sent;
  if (!exists(packet.src, packet.plane) || packet.dst >= hosts() || packet.bytes == 0 ||
      packet.bytes > kMaxBytes) {
    ++totals_.lost[static_cast<std::size_t>(Loss::kInvalid)];
    return sink_.lost(queue_.now(), packet, Loss::kInvalid);
  }
  enter(nic_link(packet.src, packet.plane), pool_.take(packet));
}

template <typename Sink>
void Fabric<Sink>::handle(const Event& event) {
  switch (event.kind) {
    case kArrive:
      return arrive(event.b, event.a);
    case kStart:
      return start(event.a);
    case kDeliver:
      return deliver(event.a);
    case kNicReady:
      return tell_room(event.a, links_[event.a]);
    case kPause:
      return set_blocked(event.a, kPaused, event.b != 0);
    case kReroute:
      return note_route(event.a);
    case kFault:
      apply(config_.faults[event.a]);
      return;
    default:
      return;
  }
}

// A packet comes to an egress port.
template <typename Sink>
void Fabric<Sink>::enter(std::uint32_t link_id, std::uint32_t id) {
  Link& l = links_[link_id];
  PoolPacket& p = pool_[id];
  const bool first = urgent(p.packet), free = may_send(l, first);
  if (free && !l.pending && queue_.now() >= l.busy_until) {
    mark(l, p.packet, p.packet.bytes);
    return transmit(link_id, l, id);
  }
  if (const auto why = refuses(l, p.packet, first)) return lose(link_id, id, *why);
  if (first) {
    l.control.push(pool_, id);
  } else {
    l.data.push(pool_, id);
    if (l.data.bytes > l.max_queue_bytes) l.max_queue_bytes = l.data.bytes;
    account_wait(l, p);
  }
  if (free && !l.pending) schedule_start(link_id, l);
}

template <typename Sink>
std::optional<Loss> Fabric<Sink>::refuses(const Link& l, const Packet& p, bool first) const {
  if ((l.blocked & kDown) != 0) return Loss::kLinkDown;
  if ((l.traits & kNic) != 0) {
    const std::uint32_t waiting = first ? l.control.packets : l.data.packets;
    if (waiting >= config_.nic_hard_packets) return Loss::kNicFull;
    return std::nullopt;
  }
  if (first) {
    if (l.control.bytes + p.bytes > config_.control_queue_bytes) return Loss::kControlFull;
    return std::nullopt;
  }
  if (config_.pfc) return std::nullopt;
  std::uint64_t limit = l.data_limit_bytes;
  if (config_.shared_buffer) {
    const std::uint64_t free = config_.buffer_bytes - switches_[l.from].buffered_bytes;
    if (p.bytes > free) return Loss::kQueueFull;
    limit = (free * config_.alpha_256) >> 8;
  }
  if (l.data.bytes + std::uint64_t{p.bytes} > limit) return Loss::kQueueFull;
  return std::nullopt;
}

// The port is free for the next packet.
template <typename Sink>
void Fabric<Sink>::start(std::uint32_t link_id) {
  Link& l = links_[link_id];
  l.pending = false;
  std::uint32_t id = kNone;
  if (!l.control.empty() && may_send(l, true)) {
    mark(l, pool_[l.control.head].packet, l.control.bytes);
    id = l.control.pop(pool_);
  } else if (!l.data.empty() && may_send(l, false)) {
    mark(l, pool_[l.data.head].packet, l.data.bytes);
    id = l.data.pop(pool_);
    account_leave(l, pool_[id]);
  } else {
    return;
  }
  transmit(link_id, l, id);
  if (!l.pending && has_work(l)) schedule_start(link_id, l);
  tell_room(link_id, l);
}

template <typename Sink>
void Fabric<Sink>::schedule_start(std::uint32_t link_id, Link& l) {
  l.pending = true;
  queue_.schedule(l.busy_until, kStart, link_id);
}

template <typename Sink>
void Fabric<Sink>::transmit(std::uint32_t link_id, Link& l, std::uint32_t id) {
  constexpr std::uint64_t kHalf = std::uint64_t{1} << (kByteTimeShift - 1);
  PoolPacket& p = pool_[id];
  const std::uint64_t wire = p.packet.bytes + std::uint64_t{config_.overhead_bytes};
  const auto time = static_cast<Picos>((wire * l.byte_time + kHalf) >> kByteTimeShift);
  l.busy_until = queue_.now() + time;
  l.busy += time;
  l.bytes += p.packet.bytes;
  ++l.packets;
  p.epoch = l.epoch;
  if ((l.traits & kFaulty) != 0) return transmit_faulty(link_id, l, id);
  queue_.schedule(l.busy_until + l.flight, kArrive, id, link_id);
}

template <typename Sink>
void Fabric<Sink>::arrive(std::uint32_t link_id, std::uint32_t id) {
  const Link& l = links_[link_id];
  PoolPacket& p = pool_[id];
  if (p.epoch != l.epoch) return lose(link_id, id, Loss::kLinkDown);
  if (p.packet.corrupt && (l.traits & kChecksFcs) != 0) return lose(link_id, id, Loss::kCorrupt);
  if ((l.traits & kToHost) != 0) return reach_host(link_id, id);
  p.ingress = link_id;
  const Switch& s = switches_[l.to];
  const std::uint32_t out = dead_routes_ == 0 ? route(s, p.packet) : route_around(s, p.packet);
  if (out == kNone) return lose(link_id, id, Loss::kNoRoute);
  enter(out, id);
}

// Down to the child that holds the destination, else up by hash.
template <typename Sink>
std::uint32_t Fabric<Sink>::route(const Switch& s, const Packet& p) const {
  const std::uint32_t place = p.dst - s.first_host;  // wraps below first_host: not ours either
  if (place < s.host_count)
    return s.down + static_cast<std::uint32_t>((place * s.child_reciprocal) >> 32);
  if (s.up_count == 0) return kNone;
  return s.up + static_cast<std::uint32_t>(((flow_hash(s, p) >> 32) * s.up_count) >> 32);
}

template <typename Sink>
void Fabric<Sink>::reach_host(std::uint32_t link_id, std::uint32_t id) {
  if (end_to_end_[pool_[id].packet.plane] != 0) return reach_host_faulty(link_id, id);
  deliver(id);
}

template <typename Sink>
void Fabric<Sink>::deliver(std::uint32_t id) {
  const Packet packet = pool_[id].packet;
  pool_.release(id);
  ++totals_.delivered;
  sink_.deliver(queue_.now(), packet.dst, packet);
}

template <typename Sink>
void Fabric<Sink>::lose(std::uint32_t link_id, std::uint32_t id, Loss why) {
  const Packet packet = pool_[id].packet;
  pool_.release(id);
  ++drops_[link_id][static_cast<std::size_t>(why)];
  ++totals_.lost[static_cast<std::size_t>(why)];
  sink_.lost(queue_.now(), packet, why);
}

template <typename Sink>
void Fabric<Sink>::mark(Link& l, Packet& p, std::uint32_t queue_bytes) {
  if ((l.traits & kMarks) == 0 || queue_bytes < config_.ecn_min_bytes || !p.ect) return;
  if (p.control && !config_.ecn_mark_control) return;
  if (config_.ecn == EcnMode::kLinear && queue_bytes < config_.ecn_max_bytes &&
      ecn_rng_.below(config_.ecn_max_bytes - config_.ecn_min_bytes) >=
          queue_bytes - config_.ecn_min_bytes)
    return;
  p.ce = true;
  ++l.ce_marks;
}

// Data that waits in a switch counts against its buffer and, for PFC, its way in.
template <typename Sink>
void Fabric<Sink>::account_wait(const Link& l, const PoolPacket& p) {
  if (l.from == kNone) return;
  switches_[l.from].buffered_bytes += p.packet.bytes;
  if (config_.pfc) pfc_wait(p.ingress, p.packet.bytes);
}
template <typename Sink>
void Fabric<Sink>::account_leave(const Link& l, const PoolPacket& p) {
  if (l.from == kNone) return;
  switches_[l.from].buffered_bytes -= p.packet.bytes;
  if (config_.pfc) pfc_leave(p.ingress, p.packet.bytes);
}

template <typename Sink>
void Fabric<Sink>::tell_room(std::uint32_t link_id, Link& l) {
  if ((l.traits & kWanted) == 0 || !has_room(l)) return;
  l.traits &= static_cast<std::uint8_t>(~kWanted);
  const std::uint32_t plane = link_id / links_per_plane_, host = link_id - plane * links_per_plane_;
  sink_.nic_ready(queue_.now(), static_cast<std::uint16_t>(host), static_cast<std::uint8_t>(plane));
}

}  // namespace metaroce::fabric

#include "fabric/fabric_faults.h"
