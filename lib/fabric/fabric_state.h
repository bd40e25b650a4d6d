// The part of a fabric that does not depend on its owner: links and switches of all planes, their
// names and counters, and how a target of a fault turns into links.
//
// Numbering: plane p's links are [p * L, (p + 1) * L) in the order of PlaneShape, its switches
// likewise; hosts have the same number in every plane.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "fabric/config.h"
#include "fabric/fault_set.h"
#include "fabric/link.h"
#include "fabric/topology.h"

namespace metaroce::fabric {

// Of one link. Invariant over the whole fabric: sent + duplicated = delivered + lost + inside.
struct LinkCounters {
  std::uint64_t bytes = 0, packets = 0;  // put on the wire, lost there or not
  std::uint64_t ce_marks = 0;
  Picos busy = 0;                     // time spent in serialising
  std::uint32_t max_queue_bytes = 0;  // data that waited
  std::array<std::uint64_t, kLossKinds> drops{};
};

struct FabricTotals {
  std::uint64_t sent = 0, delivered = 0, duplicated = 0, corrupted = 0, delayed = 0;
  std::uint64_t pauses = 0;  // PFC: pause frames
  std::array<std::uint64_t, kLossKinds> lost{};
  [[nodiscard]] std::uint64_t all_lost() const {
    std::uint64_t n = 0;
    for (const std::uint64_t x : lost) n += x;
    return n;
  }
};

class FabricState {
 public:
  // Throws std::invalid_argument with check()'s sentence.
  FabricState(const FabricConfig& config, std::uint64_t seed);

  [[nodiscard]] const FabricConfig& config() const { return config_; }
  [[nodiscard]] std::uint32_t hosts() const { return shape_.hosts; }
  [[nodiscard]] std::uint32_t links() const { return static_cast<std::uint32_t>(links_.size()); }
  [[nodiscard]] std::uint32_t links_per_plane() const { return links_per_plane_; }
  [[nodiscard]] std::uint32_t switches_per_plane() const {
    return static_cast<std::uint32_t>(shape_.switches.size());
  }

  // "leaf0->spine1", with " plane 2" behind it when there are several planes.
  [[nodiscard]] std::string link_name(std::uint32_t link) const;
  [[nodiscard]] std::optional<std::uint32_t> find_link(std::string_view name) const;
  // A switch's number within its plane, "spine0".
  [[nodiscard]] std::optional<std::uint32_t> find_switch(std::string_view name) const;
  // Host's egress, and the link that ends at the host. The host and plane exist.
  [[nodiscard]] std::uint32_t nic_link(std::uint16_t host, std::uint8_t plane) const {
    return plane * links_per_plane_ + host;
  }
  [[nodiscard]] std::uint32_t last_link(std::uint16_t host, std::uint8_t plane) const {
    return plane * links_per_plane_ + shape_.hosts + host;
  }
  [[nodiscard]] std::uint32_t opposite(std::uint32_t link) const {
    const std::uint32_t local = link % links_per_plane_;
    return link - local + shape_.opposite(local);
  }

  [[nodiscard]] LinkCounters counters(std::uint32_t link) const;
  [[nodiscard]] const FabricTotals& totals() const { return totals_; }
  // Data and control that waits, without what is being sent.
  [[nodiscard]] std::uint32_t queue_bytes(std::uint32_t link) const {
    return links_[link].data.bytes + links_[link].control.bytes;
  }
  [[nodiscard]] std::uint32_t packets_inside() const { return pool_.used(); }
  [[nodiscard]] bool is_up(std::uint32_t link) const { return (links_[link].blocked & kDown) == 0; }
  // Both directions of a host's own cable.
  [[nodiscard]] bool link_up(std::uint16_t host, std::uint8_t plane) const {
    return exists(host, plane) && is_up(nic_link(host, plane)) && is_up(last_link(host, plane));
  }

 protected:
  struct LinkInfo {  // cold
    Mbps rate_mbps = 0;
    Picos propagation = 0;
    std::uint32_t from_node = 0, to_node = 0;
  };
  struct Ingress {  // PFC: what came in by this link and waits in the switch at its end
    std::uint32_t bytes = 0;
    bool paused = false;
  };
  struct Blackhole {
    std::uint16_t src, dst;
    std::uint8_t plane;
  };

  [[nodiscard]] bool exists(std::uint32_t host, std::uint32_t plane) const {
    return host < shape_.hosts && plane < config_.planes;
  }
  // Links that a target means; empty when it does not exist.
  [[nodiscard]] std::vector<std::uint32_t> links_of(const Target& target) const;

  // Faults that only change state; false: the target does not exist or the kind does not fit.
  bool set_random_fault(const Fault& fault);
  bool set_rate(const Fault& fault);
  bool set_propagation(const Fault& fault);
  bool set_blackhole(const Fault& fault);
  bool rehash(const Target& target);
  [[nodiscard]] bool blackholed(const Packet& packet) const;

  FabricConfig config_;
  PlaneShape shape_;
  std::uint32_t links_per_plane_ = 0;
  std::vector<Link> links_;
  std::vector<Switch> switches_;
  PacketPool pool_;
  FabricTotals totals_;

  std::vector<LinkInfo> info_;
  std::vector<std::array<std::uint64_t, kLossKinds>> drops_;
  std::vector<Ingress> ingress_;
  std::vector<std::unique_ptr<FaultSet>> link_faults_;
  std::vector<FaultSet> plane_faults_;
  std::vector<Blackhole> blackholes_;
  std::vector<std::uint8_t> end_to_end_;     // per plane: a fault or blackhole to look at
  std::vector<std::uint8_t> routed_around_;  // per link: routing knows that it is down
  std::uint32_t dead_routes_ = 0;            // how many of these

  // Each its own sequence: a fault more does not move the marks of the others.
  Rng ecn_rng_, fault_rng_, hash_rng_;

 private:
  void add_plane(std::uint8_t plane);
  void shape_link(std::uint32_t id, std::uint8_t plane);
  void note_end_to_end(std::uint8_t plane);
};

}  // namespace metaroce::fabric
