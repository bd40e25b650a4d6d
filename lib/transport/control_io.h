// What the control role needs from its host: packets out, commands to the worker groups, random
// numbers, statistics. Implemented by lib/dataplane, the simulator and the tests; called on the
// control thread only, never from within each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/address.h"
#include "transport/config.h"
#include "transport/control_api.h"
#include "transport/events.h"

namespace metaroce {

// One plane of this host. A plane with an IPv4 and an IPv6 address appears twice, with the same
// number. `number` names the plane to the peers: planes with equal numbers reach each other.
struct HostPlane {
  PlaneId number;
  IpAddress address;
};

struct HostInfo {
  std::vector<HostPlane> planes;
  std::uint32_t groups = 1;  // worker groups, at most kMaxGroups
  InstanceId instance;       // random per start [MR-5.1.1]
  Mbps line_rate = 100000;   // all planes together
  TransportConfig config;
};
inline constexpr std::uint32_t kMaxGroups = 32;

// The rings of one worker group, whatever their kind. Each call returns false when the ring is
// full (to_*) or empty (from_*).
class GroupPort {
 public:
  virtual ~GroupPort() = default;
  virtual bool to_rx(const Command&) = 0;
  virtual bool to_tx(const Command&) = 0;
  virtual bool from_rx(RxToControl&) = 0;
  virtual bool from_tx(TxToControl&) = 0;
};

class ControlIo {
 public:
  virtual ~ControlIo() = default;
  // Answers a packet: from `to.dst` to `to.src`, UDP source port `to.dst_port`, destination port
  // `to.src_port`, on the local port `to.plane`, to `to.src_mac`. The control role puts the asker's
  // worker port into `to.src_port`; `to.dst_port` is the port that was asked. [MR-5.5.5]
  virtual bool send(const PacketSource& to, std::span<const std::uint8_t> bytes) = 0;
  // A fresh packet on the plane of that number. False: not now (neighbour not resolved, link
  // down, no buffer); the host starts resolving, the control role repeats the packet anyway.
  virtual bool send_to(PlaneId plane, const IpAddress& local, const IpAddress& peer,
                       std::uint16_t src_port, std::uint16_t dst_port,
                       std::span<const std::uint8_t> bytes) = 0;
  // [MR-5.1.5] [MR-10.1.1]
  virtual std::uint64_t secret_random() = 0;  // from the kernel; the simulator: seeded
  // A frame for the host itself (ARP, neighbour discovery), as it came from a receive role.
  virtual void on_frame(const PacketSource&, std::span<const std::uint8_t>) {}
};

class StatsSource {
 public:
  virtual ~StatsSource() = default;
  // Fills everything but `peer` and `streams`; false when the roles have no such connection.
  virtual bool conn_stats(std::uint32_t group, ConnIndex conn, ConnStats& out) = 0;
};

}  // namespace metaroce
