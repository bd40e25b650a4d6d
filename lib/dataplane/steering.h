// rte_flow rules that bring UDP destination port base + i to queue i, so that a packet arrives at
// the worker group that owns its connection. [MR-3.1.2] Tried, never assumed: some drivers validate
// what they cannot create (net_tap without the kernel's classifier), so only created rules count.
// Control thread.
#pragma once

#include <cstdint>
#include <vector>

#include <rte_flow.h>

#include "dataplane/status.h"

namespace metaroce {

class Steering {
 public:
  Steering() = default;
  Steering(const Steering&) = delete;
  Steering& operator=(const Steering&) = delete;
  ~Steering() { remove(); }

  // Rules for IPv4 and IPv6, all or none.
  Status install(std::uint16_t port, std::uint16_t base_udp_port, std::uint16_t queues);
  void remove();
  [[nodiscard]] bool active() const { return !flows_.empty(); }

 private:
  std::uint16_t port_ = 0;
  std::vector<rte_flow*> flows_;
};

}  // namespace metaroce
