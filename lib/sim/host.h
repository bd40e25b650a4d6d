// One simulated host: the transport's own RX, TX and timer roles over in-process rings, one
// application, ports that hand frames to the fabric. Everything here runs in the world's thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/ring.h"
#include "base/rng.h"
#include "sim/network.h"
#include "transport/congestion.h"
#include "transport/group_queues.h"
#include "transport/rx_role.h"
#include "transport/timer_role.h"
#include "transport/tx_role.h"

namespace metaroce::sim {

using Queues = GroupQueues<SpscRing>;

// Local and remote key of the one region of each host.
inline constexpr std::uint32_t kRegionKey = (1U << 12) | 5;

class SimRxIo {
 public:
  SimRxIo(Network& net, std::uint16_t host) : net_(net), host_(host) {}
  void learn(ConnIndex, unsigned, const RxPacket&) {}
  std::uint8_t* begin_reply(ConnIndex c, unsigned plane_slot) {
    info_.plane = static_cast<std::uint8_t>(plane_slot);
    to_ = peers[c.v];
    return buffer_.data();
  }
  bool commit_reply(std::uint32_t n, std::uint16_t src_port, std::uint16_t dst_port) {
    info_.header_bytes = static_cast<std::uint16_t>(n);
    info_.src_port = src_port;
    info_.dst_port = dst_port;
    info_.src_host = host_;
    info_.control = true;
    net_.send(info_, buffer_.data(), to_);
    return true;
  }
  // No byte is copied: the ledger records where it would have gone.
  void place(const std::uint8_t* to, const std::uint8_t* from, std::uint32_t n) {
    (void)from;
    placed_to = static_cast<std::uint64_t>(to - net_.arena());
    placed_bytes = n;
  }

  std::vector<std::uint16_t> peers;  // by connection: the host at the other end
  // Of the packet that is being handled: set by place(), read by the host.
  std::uint64_t placed_to = 0;
  std::uint32_t placed_bytes = 0;

 private:
  Network& net_;
  std::uint16_t host_, to_ = 0;
  FrameInfo info_;
  std::array<std::uint8_t, FramePool::kMaxHeader> buffer_{};
};

class SimTxIo {
 public:
  SimTxIo(Network& net, std::uint16_t host, const std::vector<std::uint16_t>& peers)
      : net_(net), host_(host), peers_(peers) {}
  bool install(const ConnParams&) { return true; }
  void uninstall(ConnIndex) {}
  bool ready(ConnIndex, unsigned plane_slot) {
    return net_.ready(host_, static_cast<std::uint8_t>(plane_slot));
  }
  std::uint8_t* begin(ConnIndex c, unsigned plane_slot) {
    info_.plane = static_cast<std::uint8_t>(plane_slot);
    to_ = peers_[c.v];
    return buffer_.data();
  }
  void commit(std::uint32_t header, const std::uint8_t* payload, std::uint32_t n,
              const std::uint8_t* /*trailer*/, std::uint16_t src_port, std::uint16_t dst_port,
              std::uint32_t /*work*/, bool control) {
    info_.header_bytes = static_cast<std::uint16_t>(header);
    info_.payload = n != 0 && net_.in_arena(payload) ? payload : nullptr;
    info_.payload_bytes = n;
    info_.src_port = src_port;
    info_.dst_port = dst_port;
    info_.src_host = host_;
    info_.control = control;
    net_.send(info_, buffer_.data(), to_);
  }
  [[nodiscard]] bool busy(std::uint32_t) const { return false; }

 private:
  Network& net_;
  std::uint16_t host_, to_ = 0;
  const std::vector<std::uint16_t>& peers_;
  FrameInfo info_;
  std::array<std::uint8_t, FramePool::kMaxHeader> buffer_{};
};

// What a host needs room for: from the workload, so that memory follows the scenario.
struct HostSizes {
  std::uint32_t connections = 0, streams = 0, work_requests = 64, receives = 64, paths = 1;
  std::uint64_t packets = 0;  // of data that the host sends in all
};

class SimHost {
 public:
  using Rx = RxRole<Queues, SimRxIo>;
  using Tx = TxRole<Queues, SimTxIo, EcnAimd>;

  SimHost(std::uint16_t id, const Scenario& scenario, const HostSizes& sizes, Network& net,
          std::uint64_t region_bytes, std::uint32_t pd);

  // Installs objects as the control role does, at once.
  bool add_conn(const ConnParams& p, std::uint16_t peer);
  bool add_stream(const StreamParams& p);
  // Commands of any kind, result awaited.
  bool command_tx(Command k);
  bool command_rx(Command k);

  void post(const WorkRequest& w) { pending_.push_back(w); }
  void post_receive(const WorkRequest& w) { receives_.push(w); }

  // One pass over the roles. Placements and completions are appended to the lists below.
  void poll(Nanos now);
  // When to poll again although nothing arrives; kNever: no need.
  [[nodiscard]] Nanos next_poll(Nanos now);

  std::vector<Completion> sent, received;
  std::vector<std::uint32_t> whole;  // flows whose last byte was placed in this poll
  std::vector<TxToControl> events;
  // Everything that posting, sending and resending held is given back.
  [[nodiscard]] bool quiet() const { return pending_.empty() && tx_.quiet(); }
  // First broken rule of placement, or kNone.
  Ledger::Fault fault = Ledger::Fault::kNone;
  std::uint32_t fault_flow = 0;

  [[nodiscard]] std::uint16_t id() const { return id_; }
  [[nodiscard]] Mbps line_rate() const { return config_.line_rate; }
  [[nodiscard]] Tx& tx() { return tx_; }
  [[nodiscard]] Rx& rx() { return rx_; }
  [[nodiscard]] const Tx& tx() const { return tx_; }
  [[nodiscard]] const Rx& rx() const { return rx_; }

 private:
  void receive();
  void receive(const Arrival& a);
  void record(const FrameInfo& f);
  void transmit();
  void collect();

  const std::uint16_t id_;
  const TransportConfig config_;
  const HostModel model_;
  Canary canary_;
  Rng order_;
  Network& net_;
  Queues queues_;
  SimRxIo rx_io_;
  SimTxIo tx_io_;
  Rx rx_;
  Tx tx_;
  TimerRole<Queues> timer_;
  SpscRing<Completion> tx_cq_, rx_cq_;
  SpscRing<WorkRequest> sends_, receives_;
  std::deque<WorkRequest> pending_;  // does not fit into the submission ring
  std::vector<std::array<IpAddress, kMaxPlanes>> addresses_;  // by host
  MacAddress mac_;
  Nanos now_ = 0;
};

}  // namespace metaroce::sim

// Compiled once, in host.cpp.
extern template class metaroce::RxRole<metaroce::sim::Queues, metaroce::sim::SimRxIo>;
extern template class metaroce::TxRole<metaroce::sim::Queues, metaroce::sim::SimTxIo,
                                       metaroce::EcnAimd>;
