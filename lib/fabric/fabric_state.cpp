#include "fabric/fabric_state.h"

#include <algorithm>
#include <stdexcept>

namespace metaroce::fabric {

void PacketPool::grow() {
  const auto old = static_cast<std::uint32_t>(packets_.size());
  const std::uint32_t size = old == 0 ? 1024 : old * 2;
  packets_.resize(size);
  for (std::uint32_t i = size; i-- > old;) {
    packets_[i].next = free_;
    free_ = i;
  }
}

FabricState::FabricState(const FabricConfig& config, std::uint64_t seed)
    : config_(config),
      ecn_rng_(mix64(seed ^ 0x65636e)),
      fault_rng_(mix64(seed ^ 0x6661756c74)),
      hash_rng_(mix64(seed ^ 0x68617368)) {
  if (const std::string error = check(config); !error.empty()) throw std::invalid_argument(error);
  shape_ = make_shape(config_);
  links_per_plane_ = static_cast<std::uint32_t>(shape_.links.size());
  const std::size_t total = std::size_t{links_per_plane_} * config_.planes;
  links_.resize(total);
  info_.resize(total);
  drops_.resize(total);
  link_faults_.resize(total);
  routed_around_.resize(total);
  if (config_.pfc) ingress_.resize(total);
  plane_faults_.resize(config_.planes);
  end_to_end_.resize(config_.planes);
  for (std::uint8_t plane = 0; plane < config_.planes; ++plane) add_plane(plane);
}

void FabricState::add_plane(std::uint8_t plane) {
  const std::uint32_t base = plane * links_per_plane_;
  for (const PlaneSwitch& s : shape_.switches) {
    Switch sw;
    sw.seed = hash_rng_.next();
    sw.first_host = s.first_host;
    sw.host_count = s.host_count;
    sw.child_reciprocal = ((std::uint64_t{1} << 32) + s.hosts_per_child - 1) / s.hosts_per_child;
    sw.down = base + s.down;
    sw.up = base + s.up;
    sw.up_count = s.up_count;
    switches_.push_back(sw);
  }
  for (std::uint32_t local = 0; local < links_per_plane_; ++local) shape_link(base + local, plane);
}

void FabricState::shape_link(std::uint32_t id, std::uint8_t plane) {
  const PlaneLink& shape = shape_.links[id - plane * links_per_plane_];
  const bool from_host = shape.from < shape_.hosts, to_host = shape.to < shape_.hosts;
  const bool edge = from_host || to_host;
  const std::uint32_t first_switch = plane * switches_per_plane();
  LinkInfo& info = info_[id];
  info.from_node = shape.from;
  info.to_node = shape.to;
  info.rate_mbps = edge ? config_.host_rate_mbps : config_.uplink_rate_mbps;
  if (!config_.plane_rate_mbps.empty()) {
    const std::uint64_t scaled =
        std::uint64_t{info.rate_mbps} * config_.plane_rate_mbps[plane] / config_.host_rate_mbps;
    info.rate_mbps = scaled == 0 ? 1 : static_cast<Mbps>(scaled);
  }
  info.propagation =
      (edge ? config_.host_propagation_ns : config_.uplink_propagation_ns) * kPicosPerNano;

  Link& l = links_[id];
  l.byte_time = byte_time(info.rate_mbps);
  l.flight = info.propagation + (to_host ? 0 : config_.switch_latency_ns * kPicosPerNano);
  l.to = to_host ? shape.to : first_switch + shape.to - shape_.hosts;
  l.from = from_host ? kNone : first_switch + shape.from - shape_.hosts;
  l.data_limit_bytes = config_.queue_bytes;
  if (from_host) l.traits |= kNic;
  if (to_host) l.traits |= kToHost;
  if (config_.fcs_check) l.traits |= kChecksFcs;
  if (config_.ecn != EcnMode::kOff && (!from_host || config_.ecn_at_nic)) l.traits |= kMarks;
}

std::string FabricState::link_name(std::uint32_t link) const {
  std::string name =
      node_name(shape_, info_[link].from_node) + "->" + node_name(shape_, info_[link].to_node);
  if (config_.planes > 1) name += " plane " + std::to_string(link / links_per_plane_);
  return name;
}

std::optional<std::uint32_t> FabricState::find_link(std::string_view name) const {
  const std::size_t arrow = name.find("->");
  if (arrow == std::string_view::npos) return std::nullopt;
  const auto from = find_node(shape_, name.substr(0, arrow));
  std::string_view rest = name.substr(arrow + 2);
  std::uint32_t plane = 0;
  if (const std::size_t at = rest.find(" plane "); at != std::string_view::npos) {
    const std::string_view digits = rest.substr(at + 7);
    if (digits.empty() || digits.size() > 3) return std::nullopt;
    for (const char c : digits) {
      if (c < '0' || c > '9') return std::nullopt;
      plane = plane * 10 + static_cast<std::uint32_t>(c - '0');
    }
    rest = rest.substr(0, at);
  }
  const auto to = find_node(shape_, rest);
  if (!from || !to || plane >= config_.planes) return std::nullopt;
  for (std::uint32_t l = 0; l < links_per_plane_; ++l) {
    if (shape_.links[l].from == *from && shape_.links[l].to == *to)
      return plane * links_per_plane_ + l;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> FabricState::find_switch(std::string_view name) const {
  const auto node = find_node(shape_, name);
  if (!node || *node < shape_.hosts) return std::nullopt;
  return *node - shape_.hosts;
}

LinkCounters FabricState::counters(std::uint32_t link) const {
  const Link& l = links_[link];
  return {l.bytes, l.packets, l.ce_marks, l.busy, l.max_queue_bytes, drops_[link]};
}

}  // namespace metaroce::fabric
