// Members of Fabric off the fast path: faults, cuts, PFC, routing that reacts. Included by
// fabric.h.
#pragma once

#include "fabric/fabric.h"

namespace metaroce::fabric {

template <typename Sink>
bool Fabric<Sink>::apply(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kLoss:
    case FaultKind::kBurstLoss:
    case FaultKind::kCorrupt:
    case FaultKind::kDuplicate:
    case FaultKind::kReorder:
    case FaultKind::kJitter:
      return set_random_fault(fault);
    case FaultKind::kBlackhole:
      return set_blackhole(fault);
    case FaultKind::kDown:
      return set_up(fault.target, false);
    case FaultKind::kUp:
      return set_up(fault.target, true);
    case FaultKind::kRate:
      return set_rate(fault);
    case FaultKind::kPropagation:
      return set_propagation(fault);
    case FaultKind::kRehash:
      return rehash(fault.target);
    case FaultKind::kStall:
      return set_stall(fault);
  }
  return false;
}

// On a link: each passage is judged as it is sent, and leaves the wire no earlier than without
// the fault.
template <typename Sink>
void Fabric<Sink>::transmit_faulty(std::uint32_t link_id, Link& l, std::uint32_t id) {
  FaultSet& faults = *link_faults_[link_id];
  const bool was_corrupt = pool_[id].packet.corrupt;
  const Fate fate = faults.judge(pool_[id].packet, fault_rng_);
  if (fate.loss) return lose(link_id, id, *fate.loss);
  if (pool_[id].packet.corrupt && !was_corrupt) ++totals_.corrupted;
  if (fate.delay > 0) ++totals_.delayed;
  const Picos at = faults.in_order(0, l.busy_until + l.flight + fate.delay);
  queue_.schedule(at, kArrive, id, link_id);
  if (fate.duplicate) queue_.schedule(at + faults.duplicate_delay(), kArrive, copy_of(id), link_id);
}

// End to end: each packet is judged once, as it arrives at its host, so that its probability of
// loss is exactly the one asked for however long the route is.
template <typename Sink>
void Fabric<Sink>::reach_host_faulty(std::uint32_t link_id, std::uint32_t id) {
  if (blackholed(pool_[id].packet)) return lose(link_id, id, Loss::kBlackhole);
  FaultSet& faults = plane_faults_[pool_[id].packet.plane];
  const bool was_corrupt = pool_[id].packet.corrupt;
  const Fate fate = faults.judge(pool_[id].packet, fault_rng_);
  if (fate.loss) return lose(link_id, id, *fate.loss);
  if (pool_[id].packet.corrupt && !was_corrupt) {
    ++totals_.corrupted;
    if (config_.fcs_check) return lose(link_id, id, Loss::kCorrupt);
  }
  if (fate.delay > 0) ++totals_.delayed;
  const Picos now = queue_.now();
  const Picos at = faults.in_order(pool_[id].packet.dst, now + fate.delay);
  if (fate.duplicate) queue_.schedule(at + faults.duplicate_delay(), kDeliver, copy_of(id));
  if (at > now) return queue_.schedule(at, kDeliver, id);
  deliver(id);
}

template <typename Sink>
std::uint32_t Fabric<Sink>::copy_of(std::uint32_t id) {
  const PoolPacket original = pool_[id];
  Packet copy = original.packet;
  if constexpr (requires(Sink & s) { s.duplicate(copy); }) copy.user = sink_.duplicate(copy);
  const std::uint32_t twin = pool_.take(copy);
  pool_[twin].epoch = original.epoch;
  ++totals_.duplicated;
  return twin;
}

// --- Cuts, stalls

template <typename Sink>
bool Fabric<Sink>::set_up(const Target& target, bool up) {
  const std::vector<std::uint32_t> links = links_of(target);
  for (const std::uint32_t l : links) set_link_up(l, up);
  return !links.empty();
}

template <typename Sink>
void Fabric<Sink>::set_link_up(std::uint32_t link_id, bool up) {
  if (link_id >= links_.size() || is_up(link_id) == up) return;
  if (!up) {
    ++links_[link_id].epoch;
    set_blocked(link_id, kDown, true);
    drop_all(link_id);
  } else {
    set_blocked(link_id, kDown, false);
  }
  if (config_.reroute_after_ns > 0)
    queue_.schedule(queue_.now() + config_.reroute_after_ns * kPicosPerNano, kReroute, link_id);
}

template <typename Sink>
void Fabric<Sink>::drop_all(std::uint32_t link_id) {
  Link& l = links_[link_id];
  while (!l.control.empty()) lose(link_id, l.control.pop(pool_), Loss::kLinkDown);
  while (!l.data.empty()) {
    const std::uint32_t id = l.data.pop(pool_);
    account_leave(l, pool_[id]);
    lose(link_id, id, Loss::kLinkDown);
  }
  if ((l.traits & kNic) != 0) tell_room(link_id, l);
}

template <typename Sink>
bool Fabric<Sink>::set_stall(const Fault& fault) {
  bool found = false;
  for (const std::uint32_t l : links_of(fault.target)) {
    if ((links_[l].traits & kToHost) == 0) continue;
    set_blocked(l, kStalled, fault.probability > 0);
    found = true;
  }
  return found;
}

template <typename Sink>
void Fabric<Sink>::set_blocked(std::uint32_t link_id, std::uint8_t reason, bool on) {
  Link& l = links_[link_id];
  if (on) {
    l.blocked |= reason;
  } else {
    l.blocked &= static_cast<std::uint8_t>(~reason);
    kick(link_id);
  }
}

// A port that may send again.
template <typename Sink>
void Fabric<Sink>::kick(std::uint32_t link_id) {
  Link& l = links_[link_id];
  if (!l.pending && has_work(l)) schedule_start(link_id, l);
}

// --- PFC: a switch pauses the sender of a link when too much of what came in by it waits. The
// pause frame takes the propagation of the cable; what arrives meanwhile needs the headroom that
// pfc_xoff_bytes leaves in a real buffer.

template <typename Sink>
void Fabric<Sink>::pfc_wait(std::uint32_t link_id, std::uint32_t bytes) {
  Ingress& in = ingress_[link_id];
  in.bytes += bytes;
  if (in.paused || in.bytes <= config_.pfc_xoff_bytes) return;
  in.paused = true;
  ++totals_.pauses;
  queue_.schedule(queue_.now() + links_[link_id].flight, kPause, link_id, 1);
}

template <typename Sink>
void Fabric<Sink>::pfc_leave(std::uint32_t link_id, std::uint32_t bytes) {
  Ingress& in = ingress_[link_id];
  in.bytes -= bytes;
  if (!in.paused || in.bytes > config_.pfc_xon_bytes) return;
  in.paused = false;
  queue_.schedule(queue_.now() + links_[link_id].flight, kPause, link_id, 0);
}

// --- Routing that reacts: reroute_after_ns behind a change, every switch knows of it and hashes
// over the links that still lead to the destination.

template <typename Sink>
void Fabric<Sink>::note_route(std::uint32_t link_id) {
  const std::uint8_t dead = is_up(link_id) ? 0 : 1;
  if (routed_around_[link_id] == dead) return;
  routed_around_[link_id] = dead;
  dead_routes_ += dead != 0 ? 1U : ~std::uint32_t{0};
}

template <typename Sink>
std::uint32_t Fabric<Sink>::route_around(const Switch& s, const Packet& p) const {
  const std::uint32_t place = p.dst - s.first_host;
  if (place < s.host_count) {
    const std::uint32_t down =
        s.down + static_cast<std::uint32_t>((place * s.child_reciprocal) >> 32);
    return live_route(down, p) ? down : kNone;
  }
  std::uint32_t live = 0;
  for (std::uint32_t i = 0; i < s.up_count; ++i) live += live_route(s.up + i, p) ? 1 : 0;
  if (live == 0) return kNone;
  auto choice = static_cast<std::uint32_t>(((flow_hash(s, p) >> 32) * live) >> 32);
  for (std::uint32_t i = 0; i < s.up_count; ++i) {
    if (live_route(s.up + i, p) && choice-- == 0) return s.up + i;
  }
  return kNone;
}

template <typename Sink>
bool Fabric<Sink>::live_route(std::uint32_t link_id, const Packet& p) const {
  if (routed_around_[link_id] != 0) return false;
  const Link& l = links_[link_id];
  return (l.traits & kToHost) != 0 || route_around(switches_[l.to], p) != kNone;
}

}  // namespace metaroce::fabric
