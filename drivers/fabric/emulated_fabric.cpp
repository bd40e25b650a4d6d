#include "drivers/fabric/emulated_fabric.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "drivers/fabric/frame.h"

namespace metaroce {

using fabric::Packet;
using fabric::Picos;

namespace {

constexpr std::uint16_t kNoPort = UINT16_MAX;
constexpr Nanos kLongestRun = 100 * 24 * 3600 * kSecond;
constexpr std::uint32_t kEthBytes = 14;

EmulatedFabric* g_current = nullptr;  // control thread only

void free_ring(rte_ring*& ring) {
  void* m = nullptr;
  while (ring != nullptr && rte_ring_dequeue(ring, &m) == 0)
    rte_pktmbuf_free(static_cast<rte_mbuf*>(m));
  rte_ring_free(ring);
  ring = nullptr;
}

}  // namespace

const char* fabric_drop_name(FabricDrop why) {
  constexpr const char* names[] = {"runt", "nobody", "inside_limit", "rx_ring_full", "no_buffer"};
  static_assert(std::size(names) == kFabricDrops);
  return names[static_cast<std::size_t>(why)];
}

EmulatedFabric* EmulatedFabric::current() { return g_current; }

Status EmulatedFabric::create(const EmulatedFabricPlan& plan,
                              std::unique_ptr<EmulatedFabric>& out) {
  out.reset();
  if (g_current != nullptr)
    return Status::error(Errc::kBusy, "fabric: this process has one already; it can have only one");
  std::unique_ptr<EmulatedFabric> made;
  try {
    made.reset(new EmulatedFabric(plan));
  } catch (const std::invalid_argument& e) {
    return Status::error(Errc::kInvalid, fmt::format("fabric: {}", e.what()));
  }
  if (Status s = made->make_pool(); !s.ok()) return s;
  g_current = made.get();
  out = std::move(made);
  return {};
}

EmulatedFabric::EmulatedFabric(const EmulatedFabricPlan& plan)
    : plan_(plan),
      model_(
          std::make_unique<fabric::Fabric<EmulatedFabric>>(plan.model, plan.seed, clock_, *this)),
      flip_rng_(mix64(plan.seed)),
      places_(std::size_t{plan.model.planes} * model_->hosts(), kNoPort) {}

EmulatedFabric::~EmulatedFabric() {
  if (g_current == this) g_current = nullptr;
  drain();
  for (Port& p : ports_) {
    free_ring(p.rings.to_host);
    free_ring(p.rings.from_host);
  }
  rte_mempool_free(copies_);
}

Status EmulatedFabric::make_pool() {
  const std::uint32_t room = plan_.frame_room + RTE_PKTMBUF_HEADROOM;
  if (room > UINT16_MAX)
    return Status::error(Errc::kTooLarge, fmt::format("fabric: frames of {} bytes do not fit one "
                                                      "buffer",
                                                      plan_.frame_room));
  copies_ = rte_pktmbuf_pool_create("mr_fabric", kCopies, 32, 0, static_cast<std::uint16_t>(room),
                                    SOCKET_ID_ANY);
  if (copies_ == nullptr)
    return Status::error(Errc::kNoMemory,
                         fmt::format("fabric: no memory for {} buffers ({}): raise the memory size",
                                     kCopies, rte_strerror(rte_errno)));
  return {};
}

// --- Ports

const EmulatedFabric::Port* EmulatedFabric::port_at(std::uint16_t host, std::uint8_t plane) const {
  if (host >= model_->hosts() || plane >= plan_.model.planes) return nullptr;
  const std::uint16_t i = places_[std::size_t{plane} * model_->hosts() + host];
  return i == kNoPort ? nullptr : &ports_[i];
}
EmulatedFabric::Port* EmulatedFabric::port_at(std::uint16_t host, std::uint8_t plane) {
  return const_cast<Port*>(std::as_const(*this).port_at(host, plane));
}

Status EmulatedFabric::attach(std::uint16_t host, std::uint8_t plane, unsigned slots, Rings& out) {
  if (host >= model_->hosts() || plane >= plan_.model.planes)
    return Status::error(
        Errc::kInvalid, fmt::format("fabric: no host {} in plane {}: it has {} hosts and {} planes",
                                    host, plane, model_->hosts(), plan_.model.planes));
  if (port_at(host, plane) != nullptr)
    return Status::error(
        Errc::kBusy, fmt::format("fabric: host {} of plane {} has a port already", host, plane));
  Port p;
  p.host = host;
  p.plane = plane;
  p.attached = true;
  const auto ring = [&](const char* way) {
    return rte_ring_create(fmt::format("mr_fab_{}_{}_{}", host, plane, way).c_str(), slots,
                           SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
  };
  p.rings = {ring("in"), ring("out")};
  if (p.rings.to_host == nullptr || p.rings.from_host == nullptr) {
    free_ring(p.rings.to_host);
    free_ring(p.rings.from_host);
    return Status::error(Errc::kNoMemory,
                         fmt::format("fabric: no memory for rings of {}: raise the memory size or "
                                     "lower ring_size",
                                     slots));
  }
  // A place of an earlier port is used again: frames in the model may still name it.
  const auto old = std::find_if(ports_.begin(), ports_.end(),
                                [](const Port& x) { return !x.attached && x.inside == 0; });
  const auto index = static_cast<std::uint16_t>(old - ports_.begin());
  if (old == ports_.end()) {
    const auto first = static_cast<std::uint32_t>(slots_.size());
    ports_.emplace_back();
    keys_.push_back(0);
    slots_.resize(first + plan_.port_packets);
    for (std::uint32_t i = first; i < slots_.size(); ++i)
      slots_[i].next_free = i + 1 == slots_.size() ? free_slot_ : i + 1;
    free_slot_ = first;
  }
  ports_[index] = p;
  places_[std::size_t{plane} * model_->hosts() + host] = index;
  out = p.rings;
  return {};
}

void EmulatedFabric::set_device(std::uint16_t host, std::uint8_t plane, std::uint16_t device) {
  if (Port* p = port_at(host, plane)) {
    p->device = device;
    p->has_device = true;
  }
}

void EmulatedFabric::detach(std::uint16_t host, std::uint8_t plane) {
  Port* p = port_at(host, plane);
  if (p == nullptr) return;
  drain();
  free_ring(p->rings.to_host);
  free_ring(p->rings.from_host);
  p->attached = p->has_device = false;
  keys_[static_cast<std::size_t>(p - ports_.data())] = 0;
  places_[std::size_t{plane} * model_->hosts() + host] = kNoPort;
}

// The model keeps what it has inside; it finds the frames gone when they come out.
void EmulatedFabric::drain() {
  for (Slot& s : slots_) {
    rte_pktmbuf_free(s.frame);
    s.frame = nullptr;
  }
  for (Port& p : ports_) {
    rte_pktmbuf_free_bulk(p.stash.data() + p.next, p.taken - p.next);
    p.next = p.taken = 0;
    for (rte_ring* r : {p.rings.to_host, p.rings.from_host}) {
      void* m = nullptr;
      while (r != nullptr && rte_ring_dequeue(r, &m) == 0)
        rte_pktmbuf_free(static_cast<rte_mbuf*>(m));
    }
  }
}

void EmulatedFabric::watch_links() {
  for (const Port& p : ports_) {
    if (!p.attached || !p.has_device) continue;
    rte_eth_link now{};
    if (rte_eth_link_get_nowait(p.device, &now) != 0) continue;
    const bool up = model_->link_up(p.host, p.plane);
    if (up == (now.link_status == RTE_ETH_LINK_UP)) continue;
    if (up)
      rte_eth_dev_set_link_up(p.device);
    else
      rte_eth_dev_set_link_down(p.device);
  }
}

// --- Time

unsigned EmulatedFabric::pass(Nanos now) {
  if (started_at_ == 0) started_at_ = now;
  moved_ = 0;
  run_until(std::min(now - started_at_, kLongestRun) * fabric::kPicosPerNano);
  if (batch_.load(std::memory_order_acquire) == Batch::kPosted) [[unlikely]]
    apply_posted();
  for (Port& p : ports_)
    if (p.attached) moved_ += take_from(p);
  return moved_;
}

void EmulatedFabric::run_until(Picos t) {
  fabric::Event e;
  while (clock_.pop(e, t)) model_->handle(e);
  clock_.advance_to(t);
}

// All or nothing, so that an error leaves no half of a change.
void EmulatedFabric::apply_posted() {
  error_.clear();
  for (const fabric::Fault& f : posted_)
    if (error_.empty()) error_ = model_->why_not(f);
  if (error_.empty())
    for (const fabric::Fault& f : posted_) model_->apply(f);
  batch_.store(Batch::kDone, std::memory_order_release);
}

bool EmulatedFabric::post(std::vector<fabric::Fault> faults) {
  if (batch_.load(std::memory_order_acquire) != Batch::kNone) return false;
  posted_ = std::move(faults);
  batch_.store(Batch::kPosted, std::memory_order_release);
  return true;
}

bool EmulatedFabric::take_result(std::string& error) {
  if (batch_.load(std::memory_order_acquire) != Batch::kDone) return false;
  error = std::move(error_);
  batch_.store(Batch::kNone, std::memory_order_release);
  return true;
}

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
