#include "dataplane/group.h"

#include <rte_prefetch.h>

namespace metaroce {
namespace {

std::vector<std::unique_ptr<OutQueue>> make_outs(const GroupPlan& plan, FaultHook* faults) {
  std::vector<std::unique_ptr<OutQueue>> outs;
  for (Port* p : plan.ports) outs.push_back(std::make_unique<OutQueue>(*p, plan.queue, faults));
  return outs;
}

}  // namespace

Group::Group(const TransportConfig& config, const GroupPlan& plan)
    : queues(QueueSizes{}, plan.socket),
      macs(config.max_connections),
      plan_(plan),
      faults_(plan.faults.any() ? std::make_unique<FaultHook>(plan.faults) : nullptr),
      outs_(make_outs(plan, faults_.get())),
      rx_io_(raw_outs(), config.max_connections, config.control_dscp),
      tx_io_(raw_outs(), plan.port_of_plane, macs, config.max_connections, limits().work_requests,
             config.data_dscp, config.control_dscp),
      rx_(config, queues, rx_io_),
      tx_(config, limits(), static_cast<std::uint32_t>(plan.ports.size()) * config.paths_per_plane,
          queues, tx_io_),
      timer_(tx_.timer_ids(), queues),
      whole_(frame_bytes(config.payload_mtu)) {
  for (std::size_t i = 0; i < plan.ports.size(); ++i)
    rx_.set_port(PlaneId{static_cast<std::uint8_t>(i)}, PlaneId{plan_.planes[i]},
                 plan_.line_rates[i]);
}

std::vector<OutQueue*> Group::raw_outs() const {
  std::vector<OutQueue*> r;
  for (const auto& o : outs_) r.push_back(o.get());
  return r;
}

std::uint32_t Group::rx_pass(Nanos now) {
  rte_mbuf* burst[kBurst];
  std::uint32_t total = 0;
  bool more = false;
  rx_.begin_burst(now);
  for (std::size_t i = 0; i < plan_.ports.size(); ++i) {
    if (!plan_.ports[i]->running()) continue;
    const std::uint16_t n = rte_eth_rx_burst(plan_.ports[i]->id(), plan_.queue, burst, kBurst);
    if (n == 0) continue;
    more |= n == kBurst;
    total += n;
    for (std::uint16_t k = 0; k < std::min<std::uint16_t>(n, 4); ++k)
      rte_prefetch0(rte_pktmbuf_mtod(burst[k], void*));
    for (std::uint16_t k = 0; k < n; ++k) {
      if (k + 4 < n) rte_prefetch0(rte_pktmbuf_mtod(burst[k + 4], void*));
      receive(i, burst[k]);
    }
    rte_pktmbuf_free_bulk(burst, n);
  }
  rx_.take_receives();
  // With its queue empty this loop turns to TX, or yields its core: it says what it owes before.
  rx_.end_burst(!more, !more);
  return total;
}

void Group::receive(std::size_t port, rte_mbuf* m) {
  DropCounters& drops = rx_.counters().drops;
  const std::uint32_t length = rte_pktmbuf_pkt_len(m);
  const auto* frame = rte_pktmbuf_mtod(m, const std::uint8_t*);
  // What is wrong ends here: counted once, without an answer. [MR-4.1.2] [MR-4.1.3] [MR-4.1.6]
  // Placement reads the packet in one piece. Only ring ports deliver chains: the sender's own.
  if (m->nb_segs != 1) [[unlikely]] {
    if (length > whole_.size()) return drops.add(DropReason::kOversize);
    frame = static_cast<const std::uint8_t*>(rte_pktmbuf_read(m, 0, length, whole_.data()));
  }
  wire::FrameView f;
  const DropReason parsed = wire::parse_frame(frame, length, f);  // [MR-4.1.1]
  if (parsed != DropReason::kNone) return drops.add(parsed);
  if (f.kind == wire::FrameKind::kNeighbour) return pass_to_control(port, frame, length);
  const Port& p = *plan_.ports[port];
  bool ours = false;
  for (const IpAddress& a : plan_.addresses[port])
    ours |= wire::check_destination(f, p.mac(), a) == DropReason::kNone;
  if (!ours) return drops.add(DropReason::kNotForUs);
  if (f.dst_port != plan_.udp_port) return drops.add(DropReason::kUdpPort);  // [MR-3.1.2]
  // [MR-3.1.10]
  if (p.verify_checksum() && !rx_checksum_good(m)) {
    const DropReason bad = wire::verify_udp_checksum(f);
    if (bad != DropReason::kNone) return drops.add(bad);
  }
  RxPacket r;
  r.data = f.payload();
  r.length = f.payload_len;
  r.port = PlaneId{static_cast<std::uint8_t>(port)};
  r.ce = f.ecn == 3;
  r.v6 = f.v6;
  r.src_ip = f.src_ip;
  r.dst_ip = f.dst_ip;
  r.src_mac = f.src_mac();
  r.src_port = f.src_port;
  r.dst_port = f.dst_port;
  rx_.on_packet(r);
}

void Group::pass_to_control(std::size_t port, const std::uint8_t* frame, std::uint32_t n) {
  RxToControl e;
  if (n > e.bytes.size()) return rx_.counters().drops.add(DropReason::kOversize);
  e.kind = RxToControlKind::kFrame;
  e.length = static_cast<std::uint16_t>(n);
  e.source.plane = PlaneId{static_cast<std::uint8_t>(port)};
  std::memcpy(e.bytes.data(), frame, n);
  if (queues.rx_to_control.room() < Rx::kControlReserve || !queues.rx_to_control.push(e)) {
    rx_.counters().drops.add(DropReason::kCtrlQueueFull);
  }
}

std::uint32_t Group::tx_pass(Nanos now) {
  const std::uint32_t n = tx_.poll(now);
  for (auto& o : outs_) o->flush(now);
  return n;
}

}  // namespace metaroce
