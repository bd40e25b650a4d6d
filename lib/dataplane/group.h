// One worker group: the RX, TX and timer roles of the transport on DPDK, with their rings. Each
// role is run by one lcore; one lcore may run several (run to completion). rx_pass, tx_pass and
// timer_pass are called by their owners only; counters are read from other threads as they are.
#pragma once

#include <memory>
#include <vector>

#include "dataplane/clock.h"
#include "dataplane/rte_queue.h"
#include "dataplane/rx_io.h"
#include "dataplane/tx_io.h"
#include "transport/congestion.h"
#include "transport/group_queues.h"
#include "transport/timer_role.h"
#include "transport/tx_role.h"

namespace metaroce {

struct GroupPlan {
  std::vector<Port*> ports;                       // local port i
  std::vector<std::vector<IpAddress>> addresses;  // of port i
  std::array<std::uint8_t, 256> port_of_plane{};
  std::vector<std::uint8_t> planes;  // number of port i's plane
  std::vector<Mbps> line_rates;      // of port i
  std::uint16_t queue = 0;           // queue pair of every port
  std::uint16_t udp_port = 0;
  FaultPlan faults;
  int socket = SOCKET_ID_ANY;
};

class Group {
 public:
  using Queues = GroupQueues<RteQueue>;
  using Rx = RxRole<Queues, RxIo>;
  using Tx = TxRole<Queues, TxIo, EcnAimd>;
  static constexpr std::uint16_t kBurst = 32;

  Group(const TransportConfig& config, const GroupPlan& plan);

  // Packets received; 0 also tells the role that nothing better can be merged into its ACKs.
  std::uint32_t rx_pass(Nanos now);
  std::uint32_t tx_pass(Nanos now);  // packets sent
  void timer_pass(Nanos now) { timer_.poll(now); }

  Queues queues;
  PeerMacs macs;
  [[nodiscard]] OutQueue& out(std::size_t port) { return *outs_[port]; }
  [[nodiscard]] const Rx& rx() const { return rx_; }
  [[nodiscard]] const Tx& tx() const { return tx_; }
  [[nodiscard]] const TxIo& tx_io() const { return tx_io_; }
  [[nodiscard]] const FaultHook* faults() const { return faults_.get(); }

 private:
  static constexpr TxLimits limits() { return {}; }
  std::vector<OutQueue*> raw_outs() const;
  void receive(std::size_t port, rte_mbuf* m);
  void pass_to_control(std::size_t port, const std::uint8_t* frame, std::uint32_t n);

  GroupPlan plan_;
  std::unique_ptr<FaultHook> faults_;
  std::vector<std::unique_ptr<OutQueue>> outs_;
  RxIo rx_io_;
  TxIo tx_io_;
  Rx rx_;
  Tx tx_;
  TimerRole<Queues> timer_;
  std::vector<std::uint8_t> whole_;  // one chained frame in one piece
};

}  // namespace metaroce
