#include "drivers/fabric/emulated_fabric.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

namespace metaroce {

using fabric::Picos;

namespace {

constexpr std::uint16_t kNoPort = UINT16_MAX;
constexpr Nanos kLongestRun = 100 * 24 * 3600 * kSecond;

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

}  // namespace metaroce
