// What a workload is made of: messages between hosts and what each of them waits for. A generator
// makes the whole list before the run; the engine walks it and adds nothing.
//
// A flow is one message (an RDMA Write) on a stream of the connection between two hosts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace metaroce::sim {

inline constexpr std::uint32_t kNoFlow = UINT32_MAX;

struct Flow {
  std::uint32_t id = 0;  // equals its index in Workload::flows; files count from 1
  std::uint16_t src = 0, dst = 0;
  std::uint64_t bytes = 0;
  Nanos start = 0;  // not before this
  // Starts when all of these are complete as well: at their sender (last acknowledgment), or at
  // their receiver. Dependencies have smaller ids, so the list has no cycles by construction.
  std::uint32_t dep = kNoFlow, dep2 = kNoFlow;
  bool dep_at_receiver = false;
  // Flows of one windowed list: the k-th of it, in the order of ids and from 0, waits for the
  // (k - window)-th sender-side completion in that list, whichever flow that is.
  std::uint32_t window_list = kNoFlow;
  std::uint16_t stream = 0;  // ordinal of the stream between src and dst
  std::uint8_t tag = 0;      // group in reports; victims: 0 incast, 1 same leaf, 2 same NIC
};

struct Workload {
  std::vector<Flow> flows;
  std::uint32_t hosts = 0;
  std::uint32_t window = 0;        // of every windowed list; 0: there is none
  std::uint32_t window_lists = 0;  // window_list is [0, window_lists)
  std::string name;
};

}  // namespace metaroce::sim
