// Faults that only change state, and what their targets mean.
#include <algorithm>

#include "fabric/fabric_state.h"

namespace metaroce::fabric {
namespace {

bool end_to_end(const Target& t) { return t.scope == Scope::kAll || t.scope == Scope::kPlane; }
// Scope::kAll means every plane whatever `plane` says.
bool in_plane(const Target& t, std::uint32_t plane) {
  return t.scope == Scope::kAll || t.plane == kAllPlanes || t.plane == plane;
}

std::string bad_numbers(const Fault& f) {
  constexpr Nanos kLatest = 1'000'000 * kSecond, kLongest = 10 * kSecond;
  constexpr Mbps kFastest = 8'000'000;
  if (f.at_ns > kLatest) return "time of the fault is behind 10^6 s";
  if (f.delay_ns < 0 || f.delay_ns > kLongest) return "delay of the fault; accepted: 0 to 10 s";
  if (f.rate_mbps > kFastest) return "rate of the fault; accepted: 0 to 8 Tb/s";
  for (const std::uint32_t p :
       {f.probability, f.burst.to_bad, f.burst.to_good, f.burst.loss_good, f.burst.loss_bad}) {
    if (p > kCertain) return "probability of the fault; accepted: 0 to 10^9, in units of 10^-9";
  }
  return {};
}

}  // namespace

std::vector<std::uint32_t> FabricState::links_of(const Target& t) const {
  std::vector<std::uint32_t> found;
  std::uint32_t node = 0;  // one of whose ends the links have
  switch (t.scope) {
    case Scope::kPair:
      return found;
    case Scope::kLink:
    case Scope::kCable:
      if (t.id < links_.size()) found.push_back(t.id);
      if (t.id < links_.size() && t.scope == Scope::kCable) found.push_back(opposite(t.id));
      return found;
    case Scope::kHost:
      if (t.id >= shape_.hosts) return found;
      node = t.id;
      break;
    case Scope::kSwitch:
      if (t.id >= switches_per_plane()) return found;
      node = shape_.hosts + t.id;
      break;
    case Scope::kAll:
    case Scope::kPlane:
      break;
  }
  for (std::uint32_t l = 0; l < links_.size(); ++l) {
    if (!in_plane(t, l / links_per_plane_)) continue;
    if (end_to_end(t) || info_[l].from_node == node || info_[l].to_node == node) found.push_back(l);
  }
  return found;
}

std::string FabricState::why_not(const Fault& f) const {
  if (std::string e = bad_numbers(f); !e.empty()) return e;
  const Target& t = f.target;
  if (t.plane != kAllPlanes && t.plane >= config_.planes && t.scope != Scope::kAll &&
      t.scope != Scope::kLink && t.scope != Scope::kCable)
    return "the fault's plane does not exist; accepted: 0 to " + std::to_string(config_.planes - 1);
  if ((f.kind == FaultKind::kBlackhole) != (t.scope == Scope::kPair))
    return "a blackhole has a pair of hosts for its target, and nothing else has";
  if (t.scope == Scope::kPair) {
    if (exists(t.src, 0) && exists(t.dst, 0)) return {};
    return "a host of the pair does not exist; accepted: 0 to " + std::to_string(hosts() - 1);
  }
  if (f.kind == FaultKind::kRehash && !end_to_end(t) && t.scope != Scope::kSwitch)
    return "only switches rehash: the target is a switch, a plane or everything";
  const std::vector<std::uint32_t> links = links_of(t);
  if (links.empty()) return "the fault's link, switch or host does not exist";
  if (f.kind == FaultKind::kStall && std::none_of(links.begin(), links.end(), [this](auto l) {
        return (links_[l].traits & kToHost) != 0;
      }))
    return "only hosts stall, and none is behind the target";
  return {};
}

void FabricState::set_random_fault(const Fault& fault) {
  if (end_to_end(fault.target)) {
    for (std::uint8_t p = 0; p < config_.planes; ++p) {
      if (!in_plane(fault.target, p)) continue;
      plane_faults_[p].set(fault, shape_.hosts);
      note_end_to_end(p);
    }
    return;
  }
  for (const std::uint32_t l : links_of(fault.target)) {
    if (!link_faults_[l]) link_faults_[l] = std::make_unique<FaultSet>();
    link_faults_[l]->set(fault, 1);
    if (link_faults_[l]->any()) {
      links_[l].traits |= kFaulty;
    } else {
      links_[l].traits &= static_cast<std::uint8_t>(~kFaulty);
    }
  }
}

void FabricState::set_rate(const Fault& fault) {
  for (const std::uint32_t l : links_of(fault.target))
    links_[l].byte_time = byte_time(fault.rate_mbps != 0 ? fault.rate_mbps : info_[l].rate_mbps);
}

void FabricState::set_propagation(const Fault& fault) {
  for (const std::uint32_t l : links_of(fault.target)) {
    const Nanos latency = (links_[l].traits & kToHost) != 0 ? 0 : config_.switch_latency_ns;
    links_[l].flight = info_[l].propagation + (fault.delay_ns + latency) * kPicosPerNano;
  }
}

void FabricState::set_blackhole(const Fault& fault) {
  const Target& t = fault.target;
  std::erase_if(blackholes_, [&](const Blackhole& b) {
    return b.src == t.src && b.dst == t.dst && b.plane == t.plane;
  });
  if (fault.probability > 0) blackholes_.push_back({t.src, t.dst, t.plane});
  for (std::uint8_t p = 0; p < config_.planes; ++p) note_end_to_end(p);
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

void FabricState::rehash(const Target& t) {
  for (std::uint32_t s = 0; s < switches_.size(); ++s) {
    const std::uint32_t plane = s / switches_per_plane(), local = s % switches_per_plane();
    const bool meant = t.scope != Scope::kSwitch || t.id == local;
    if (meant && in_plane(t, plane)) switches_[s].seed = hash_rng_.next();
  }
}

}  // namespace metaroce::fabric
