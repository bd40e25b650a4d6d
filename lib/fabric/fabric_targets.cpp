// Faults that only change state, and what their targets mean.
#include <algorithm>

#include "fabric/fabric_state.h"

namespace metaroce::fabric {

std::vector<std::uint32_t> FabricState::links_of(const Target& t) const {
  std::vector<std::uint32_t> found;
  if (t.scope == Scope::kLink || t.scope == Scope::kCable) {
    if (t.id < links_.size()) {
      found.push_back(t.id);
      if (t.scope == Scope::kCable) found.push_back(opposite(t.id));
    }
    return found;
  }
  const std::uint32_t host = t.id, node = t.id + shape_.hosts;
  if (t.scope == Scope::kHost && host >= shape_.hosts) return found;
  if (t.scope == Scope::kSwitch && t.id >= switches_per_plane()) return found;
  if (t.scope == Scope::kPair) return found;
  for (std::uint32_t l = 0; l < links_.size(); ++l) {
    if (t.plane != kAllPlanes && t.scope != Scope::kAll && l / links_per_plane_ != t.plane)
      continue;
    const LinkInfo& i = info_[l];
    const std::uint32_t wanted = t.scope == Scope::kHost ? host : node;
    const bool whole = t.scope == Scope::kAll || t.scope == Scope::kPlane;
    if (whole || i.from_node == wanted || i.to_node == wanted) found.push_back(l);
  }
  return found;
}

bool FabricState::set_random_fault(const Fault& fault) {
  if (fault.target.scope == Scope::kAll || fault.target.scope == Scope::kPlane) {
    bool found = false;
    for (std::uint8_t p = 0; p < config_.planes; ++p) {
      const std::uint8_t only = fault.target.plane;
      if (fault.target.scope == Scope::kPlane && only != kAllPlanes && only != p) continue;
      if (!plane_faults_[p].set(fault, shape_.hosts)) return false;
      note_end_to_end(p);
      found = true;
    }
    return found;
  }
  const std::vector<std::uint32_t> links = links_of(fault.target);
  for (const std::uint32_t l : links) {
    if (!link_faults_[l]) link_faults_[l] = std::make_unique<FaultSet>();
    if (!link_faults_[l]->set(fault, 1)) return false;
    if (link_faults_[l]->any()) {
      links_[l].traits |= kFaulty;
    } else {
      links_[l].traits &= static_cast<std::uint8_t>(~kFaulty);
    }
  }
  return !links.empty();
}

bool FabricState::set_rate(const Fault& fault) {
  const std::vector<std::uint32_t> links = links_of(fault.target);
  for (const std::uint32_t l : links)
    links_[l].byte_time = byte_time(fault.rate_mbps != 0 ? fault.rate_mbps : info_[l].rate_mbps);
  return !links.empty();
}

bool FabricState::set_propagation(const Fault& fault) {
  const Picos extra = std::max<Nanos>(fault.delay_ns, 0) * kPicosPerNano;
  const std::vector<std::uint32_t> links = links_of(fault.target);
  for (const std::uint32_t l : links) {
    const bool to_host = (links_[l].traits & kToHost) != 0;
    links_[l].flight =
        info_[l].propagation + extra + (to_host ? 0 : config_.switch_latency_ns * kPicosPerNano);
  }
  return !links.empty();
}

bool FabricState::set_blackhole(const Fault& fault) {
  const Target& t = fault.target;
  if (t.scope != Scope::kPair || t.src >= shape_.hosts || t.dst >= shape_.hosts) return false;
  if (t.plane != kAllPlanes && t.plane >= config_.planes) return false;
  std::erase_if(blackholes_, [&](const Blackhole& b) {
    return b.src == t.src && b.dst == t.dst && b.plane == t.plane;
  });
  if (fault.probability > 0) blackholes_.push_back({t.src, t.dst, t.plane});
  for (std::uint8_t p = 0; p < config_.planes; ++p) note_end_to_end(p);
  return true;
}

bool FabricState::blackholed(const Packet& packet) const {
  for (const Blackhole& b : blackholes_) {
    if (b.src == packet.src && b.dst == packet.dst &&
        (b.plane == kAllPlanes || b.plane == packet.plane))
      return true;
  }
  return false;
}

void FabricState::note_end_to_end(std::uint8_t plane) {
  end_to_end_[plane] = plane_faults_[plane].any() || !blackholes_.empty() ? 1 : 0;
}

bool FabricState::rehash(const Target& t) {
  bool found = false;
  for (std::uint32_t s = 0; s < switches_.size(); ++s) {
    const std::uint32_t plane = s / switches_per_plane(), local = s % switches_per_plane();
    if (t.scope != Scope::kAll && t.plane != kAllPlanes && t.plane != plane) continue;
    if (t.scope == Scope::kSwitch ? t.id != local
                                  : t.scope != Scope::kAll && t.scope != Scope::kPlane)
      continue;
    switches_[s].seed = hash_rng_.next();
    found = true;
  }
  return found;
}

}  // namespace metaroce::fabric
