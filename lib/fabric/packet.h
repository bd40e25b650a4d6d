// What the fabric knows of a frame. Passed by value at its border, pooled inside.
#pragma once

#include <cstddef>
#include <cstdint>

namespace metaroce::fabric {

struct Packet {
  std::uint64_t user = 0;     // the owner's reference (buffer index, mbuf pointer)
  std::uint32_t bytes = 0;    // on the wire: Ethernet header to end of payload; what links charge
  std::uint32_t entropy = 0;  // hash input that the owner makes from the five-tuple
  std::uint16_t src = 0, dst = 0;  // hosts
  std::uint8_t plane = 0;
  bool control = false;  // strict-priority class: never waits behind data
  bool ect = false, ce = false;
  bool corrupt = false;  // set by a fault; the owner decides what that means
};

// Why a packet did not arrive.
enum class Loss : std::uint8_t {
  kQueueFull,    // data, at a switch's egress queue or its share of the buffer
  kControlFull,  // control, at its own (large) queue
  kNicFull,      // at the host's egress: sent without asking nic_room()
  kRandom,       // independent loss
  kBurst,        // Gilbert-Elliott
  kLinkDown,     // queued for, sent to or in flight on a link that is down
  kBlackhole,    // pair of hosts cut in this direction
  kCorrupt,      // broken frame check sequence, dropped by the next node (config.fcs_check)
  kNoRoute,      // no live link towards the destination (only when routing reacts)
  kInvalid,      // source, destination or plane that does not exist, or no length
  kHostFull,     // at the receive queue of a host that does not keep up: the sink's to report
};
inline constexpr std::size_t kLossKinds = 11;
const char* loss_name(Loss);

}  // namespace metaroce::fabric
