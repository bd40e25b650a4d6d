// A sender that is told: the yardstick of loss recovery under dependencies.
//
// Of a workload whose flows wait for each other, with the losses that a real run had: how soon
// could it be complete, if every host sent packets back to back at line rate whenever it has one,
// nothing ever waited in the fabric, and the sender learned of each loss exactly one round trip
// after it began to send the packet? A lost packet then goes out before all that waits. There are
// no windows, no acknowledgments that take bandwidth, no guesses.
//
// Fates come from a real run's list of losses (metaroce-sim run --losses): the nth transmission of
// a flow's packet dies here if it died there. What was never sent there arrives.
//
// Times of a packet are those of lib/sim/ideal.h: 64 bytes of headers, stored and forwarded over
// each link. Nothing of the engine or of the transport is used, and time is integer picoseconds.
// Rejected: queues at receivers; in a ring each host receives from one.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <unordered_set>
#include <vector>

#include "sim/flow.h"
#include "sim/ideal.h"

namespace metaroce::oracle {

using Picos = std::int64_t;

class Losses {
 public:
  // Flow and packet from 0, transmission from 1.
  void add(std::uint32_t flow, std::uint32_t packet, std::uint32_t transmission) {
    dead_.insert(key(flow, packet, transmission));
  }
  [[nodiscard]] bool contains(std::uint32_t flow, std::uint32_t packet,
                              std::uint32_t transmission) const {
    return dead_.contains(key(flow, packet, transmission));
  }
  [[nodiscard]] std::size_t size() const { return dead_.size(); }

 private:
  // 26 bits of flow (kMaxFlows), 22 of packet, 16 of transmission.
  static std::uint64_t key(std::uint32_t flow, std::uint32_t packet, std::uint32_t transmission) {
    return (std::uint64_t{flow} << 38) | (std::uint64_t{packet} << 16) | transmission;
  }
  std::unordered_set<std::uint64_t> dead_;  // asked, never walked
};

// Reads a file of `metaroce-sim run --losses` into `losses`. Returns what is wrong, or "".
std::string read_losses(std::istream& in, std::uint32_t mtu, const sim::Workload& workload,
                        Losses& losses);

struct Answer {
  std::vector<Picos> receiver_done, sender_done;  // by flow
  Picos last = 0;                                 // completion at a sender
  std::uint64_t sent = 0, lost = 0;               // packets
};

// Why the model does not fit the workload, or "".
std::string why_not(const sim::Workload& workload);
// `workload` passed why_not(); `fabric` gives rates, propagation and hops, `mtu` the payload of a
// packet.
Answer ask(const sim::Workload& workload, const sim::IdealFabric& fabric, std::uint32_t mtu,
           const Losses& losses);

}  // namespace metaroce::oracle
