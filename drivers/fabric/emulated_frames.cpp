// The way of a frame through EmulatedFabric: from a port's ring into the model, and out of it.
#include <algorithm>

#include "drivers/fabric/emulated_fabric.h"
#include "drivers/fabric/frame.h"

namespace metaroce {

using fabric::Packet;
using fabric::Picos;

namespace {

constexpr std::uint32_t kEthBytes = 14;

}  // namespace

// --- Into the model

unsigned EmulatedFabric::take_from(Port& p) {
  unsigned n = 0;
  while (n < kBurst && model_->nic_room(p.host, p.plane)) {
    if (p.next == p.taken) {
      p.next = 0;
      p.taken = static_cast<std::uint16_t>(rte_ring_dequeue_burst(
          p.rings.from_host, reinterpret_cast<void**>(p.stash.data()), kBurst, nullptr));
      if (p.taken == 0) break;
    }
    forward(p, p.stash[p.next++]);
    ++n;
  }
  return n;
}

void EmulatedFabric::forward(Port& from, rte_mbuf* frame) {
  const std::uint32_t n = rte_pktmbuf_data_len(frame);
  if (n < kEthBytes) return drop(frame, FabricDrop::kRunt);
  const auto f =
      drivers::look_at_frame(rte_pktmbuf_mtod(frame, const std::uint8_t*), n, plan_.control_dscp);
  keys_[static_cast<std::size_t>(&from - ports_.data())] = key_of(from.plane, f.src_mac);
  Packet p;
  p.bytes = rte_pktmbuf_pkt_len(frame);
  p.entropy = f.entropy;
  p.src = from.host;
  p.plane = from.plane;
  p.control = f.control;
  p.ect = f.ect;
  p.ce = f.ce;
  const Port* to = f.group ? nullptr : find(key_of(from.plane, f.dst_mac));
  if (to == nullptr) return flood(from, frame, p);
  p.dst = to->host;
  send(from, frame, p);
}

// There are few ports in a process: the keys of eight hosts on eight planes are eight cache lines.
const EmulatedFabric::Port* EmulatedFabric::find(std::uint64_t key) const {
  for (std::size_t i = 0; i < keys_.size(); ++i)
    if (keys_[i] == key) return &ports_[i];
  return nullptr;
}

void EmulatedFabric::flood(Port& from, rte_mbuf* frame, const Packet& packet) {
  const Port* last = nullptr;
  for (const Port& p : ports_)
    if (p.attached && p.plane == from.plane && p.host != from.host) last = &p;
  if (last == nullptr) return drop(frame, FabricDrop::kNobody);
  for (const Port& p : ports_) {
    if (!p.attached || p.plane != from.plane || p.host == from.host) continue;
    Packet each = packet;
    each.dst = p.host;
    if (&p == last) return send(from, frame, each);
    rte_mbuf* twin = copy(frame);
    if (twin == nullptr) {
      ++drops_[static_cast<std::size_t>(FabricDrop::kNoBuffer)];
      continue;
    }
    send(from, twin, each);
  }
}

void EmulatedFabric::send(Port& from, rte_mbuf* frame, Packet packet) {
  packet.user = take_slot(from, frame);
  if (packet.user == kNoSlot) return drop(frame, FabricDrop::kInsideLimit);
  model_->send(packet);
}

std::uint64_t EmulatedFabric::take_slot(Port& from, rte_mbuf* frame) {
  if (from.inside >= plan_.port_packets || free_slot_ == kNoFree) return kNoSlot;
  const std::uint32_t id = free_slot_;
  Slot& s = slots_[id];
  free_slot_ = s.next_free;
  s.frame = frame;
  s.port = static_cast<std::uint32_t>(&from - ports_.data());
  ++from.inside;
  return id;
}

rte_mbuf* EmulatedFabric::release_slot(std::uint64_t slot) {
  if (slot == kNoSlot) return nullptr;  // a duplicate for which there was no buffer
  Slot& s = slots_[slot];
  rte_mbuf* frame = s.frame;
  s.frame = nullptr;
  --ports_[s.port].inside;
  s.next_free = free_slot_;
  free_slot_ = static_cast<std::uint32_t>(slot);
  return frame;
}

// --- Out of the model

void EmulatedFabric::deliver(Picos, std::uint16_t host, const Packet& packet) {
  rte_mbuf* frame = release_slot(packet.user);
  if (frame == nullptr) return;
  if (packet.ce) {
    frame = writable(frame, kEthBytes + 40);
    if (frame == nullptr) return;
    drivers::mark_ce(rte_pktmbuf_mtod(frame, std::uint8_t*), rte_pktmbuf_data_len(frame));
  }
  if (packet.corrupt && (frame = corrupt(frame)) == nullptr) return;
  Port* to = port_at(host, packet.plane);
  if (to == nullptr) return drop(frame, FabricDrop::kNobody);
  if (rte_ring_enqueue(to->rings.to_host, frame) != 0) return drop(frame, FabricDrop::kRxRingFull);
  ++moved_;
}

void EmulatedFabric::lost(Picos, const Packet& packet, fabric::Loss) {
  rte_pktmbuf_free(release_slot(packet.user));
}

std::uint64_t EmulatedFabric::duplicate(const Packet& packet) {
  if (packet.user == kNoSlot || slots_[packet.user].frame == nullptr) return kNoSlot;
  rte_mbuf* twin = copy(slots_[packet.user].frame);
  if (twin == nullptr) {
    ++drops_[static_cast<std::size_t>(FabricDrop::kNoBuffer)];
    return kNoSlot;
  }
  const std::uint64_t slot = take_slot(ports_[slots_[packet.user].port], twin);
  if (slot == kNoSlot) drop(twin, FabricDrop::kInsideLimit);
  return slot;
}

rte_mbuf* EmulatedFabric::copy(const rte_mbuf* frame) {
  rte_mbuf* twin = rte_pktmbuf_copy(frame, copies_, 0, UINT32_MAX);
  if (twin != nullptr) twin->ol_flags = frame->ol_flags & ~RTE_MBUF_F_EXTERNAL;
  return twin;
}

// The frame with its first `upto` bytes in an mbuf of its own, or dropped.
rte_mbuf* EmulatedFabric::writable(rte_mbuf* frame, std::uint32_t upto) {
  const std::uint32_t need = std::min(upto, rte_pktmbuf_pkt_len(frame));
  if (RTE_MBUF_DIRECT(frame) && rte_mbuf_refcnt_read(frame) == 1 &&
      rte_pktmbuf_data_len(frame) >= need)
    return frame;
  rte_mbuf* twin = copy(frame);
  if (twin == nullptr) {
    drop(frame, FabricDrop::kNoBuffer);
    return nullptr;
  }
  rte_pktmbuf_free(frame);
  if (rte_pktmbuf_data_len(twin) >= need) return twin;
  drop(twin, FabricDrop::kNoBuffer);  // longer than any frame of our hosts
  return nullptr;
}

// One bit behind the Ethernet header, so that the frame still arrives.
rte_mbuf* EmulatedFabric::corrupt(rte_mbuf* frame) {
  const std::uint32_t n = rte_pktmbuf_pkt_len(frame);
  if (n <= kEthBytes) return frame;
  const std::uint32_t bit = flip_rng_.below((n - kEthBytes) * 8), at = kEthBytes + bit / 8;
  frame = writable(frame, at + 1);
  if (frame == nullptr) return nullptr;
  *rte_pktmbuf_mtod_offset(frame, std::uint8_t*, at) ^= static_cast<std::uint8_t>(1U << bit % 8);
  return frame;
}

void EmulatedFabric::drop(rte_mbuf* frame, FabricDrop why) {
  ++drops_[static_cast<std::size_t>(why)];
  rte_pktmbuf_free(frame);
}

}  // namespace metaroce
