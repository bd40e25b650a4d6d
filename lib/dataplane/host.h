// One host: its ports (planes), neighbours, worker group and control role, tied together. Built
// and driven by the control thread; the group's passes belong to the lcores (or, in inline
// progress, to the same thread).
//
// One worker group per host in this version: the configuration refuses more.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/group.h"
#include "dataplane/neighbour.h"
#include "transport/control_role.h"

namespace metaroce {

struct PortPlan {
  std::unique_ptr<Port> port;
  std::uint8_t plane = 0;
  LocalAddress address;
  Mbps line_rate = 0;  // 0: what the port reports, else the transport's
};
struct HostPlan {
  std::string name;
  std::vector<PortPlan> ports;
  std::vector<std::pair<IpAddress, MacAddress>> neighbours;  // static
  TransportConfig transport;
  FaultPlan faults;
};

class Host final : private ControlIo, private GroupPort, private StatsSource {
 public:
  // Ports are open, not started. Throws std::bad_alloc when rings do not fit into memory.
  explicit Host(HostPlan plan);
  ~Host() override;
  Host(const Host&) = delete;

  Status start();
  void stop();

  // Control thread: everything that is due. Returns true when something was moved.
  void control_pass(Nanos now);
  [[nodiscard]] ControlRole& control() { return *control_; }
  [[nodiscard]] Group& group() { return *group_; }
  [[nodiscard]] const std::string& name() const { return plan_.name; }
  [[nodiscard]] const std::vector<PortPlan>& ports() const { return plan_.ports; }
  // Ports whose peer came or went: reconnect() lets their devices follow, while the lcores pause.
  // False: not all could; ask again later.
  [[nodiscard]] bool needs_reconnect();
  bool reconnect();
  // Sums of all drop counters of this host, by reason.
  [[nodiscard]] DropCounters drops() const;

 private:
  bool send(const PacketSource& to, std::span<const std::uint8_t> bytes) override;
  bool send_to(PlaneId plane, const IpAddress& local, const IpAddress& peer, std::uint16_t src_port,
               std::uint16_t dst_port, std::span<const std::uint8_t> bytes) override;
  std::uint64_t secret_random() override;
  void on_frame(const PacketSource&, std::span<const std::uint8_t>) override;
  bool to_rx(const Command& c) override { return group_->queues.control_to_rx.push(c); }
  bool to_tx(const Command& c) override;
  bool from_rx(RxToControl& e) override { return group_->queues.rx_to_control.pop(e); }
  bool from_tx(TxToControl& e) override { return group_->queues.tx_to_control.pop(e); }
  bool conn_stats(std::uint32_t group, ConnIndex conn, ConnStats& out) override;

  bool emit(std::size_t port, const wire::Encap& encap, std::uint16_t src_port,
            std::span<const std::uint8_t> bytes);
  void emit_frame(std::size_t port, std::span<const std::uint8_t> frame);
  void look_up_macs(ConnIndex conn);
  void watch_links(Nanos now);
  std::vector<IpAddress> peers_behind(PlaneId plane, const IpAddress& neighbour) const;
  GroupPlan group_plan() const;
  [[nodiscard]] Mbps line_rate(const PortPlan& p) const;
  HostInfo host_info();

  // A port's link, and the announcements that its coming up still owes (the first may be lost).
  struct Link {
    bool up = false;
    unsigned announcements = 0;
    Nanos announce_at = 0;
  };

  HostPlan plan_;
  std::vector<Link> links_;
  std::array<std::uint8_t, 256> port_of_plane_{};
  std::unique_ptr<Group> group_;
  std::vector<std::unique_ptr<NeighbourTable>> neighbours_;    // of port i
  std::map<std::uint32_t, std::vector<PlanePair>> planes_of_;  // installed connections
  std::vector<std::pair<PlaneId, IpAddress>> changed_;
  std::unique_ptr<ControlRole> control_;
  DropCounters drops_;
  Nanos now_ = 0, refresh_at_ = 0, links_at_ = 0;
};

}  // namespace metaroce
