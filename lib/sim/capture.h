// Frames of a simulated run as a port would hand them to the daemon: Ethernet, IPv4 and UDP with
// right checksums in front of the real header, payload bytes behind it. So a capture replays into
// the daemon's receive path.
//
// No payload exists in a run; what is written is a function of where the bytes belong, so that
// whoever replays a capture can tell from a byte whether it went to the right place.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/units.h"
#include "sim/frame_pool.h"
#include "wire/address.h"

namespace metaroce::sim {

// Of host h on plane p: 10.p.(h / 256).(h % 256), and 02:00:00:p:(h / 256):(h % 256).
IpAddress host_address(std::uint16_t host, std::uint8_t plane);
MacAddress host_mac(std::uint16_t host, std::uint8_t plane);

// The byte at `offset` of the address space that all hosts share.
constexpr std::uint8_t pattern_byte(std::uint64_t offset) {
  return static_cast<std::uint8_t>(mix64(offset / 8) >> (offset % 8 * 8));
}

class Capture {
 public:
  using Hook = std::function<void(Nanos at, std::uint16_t host, std::uint8_t plane,
                                  std::span<const std::uint8_t> frame)>;
  // `origin` is subtracted from times; `arena` is where offset 0 lies.
  Capture(Hook hook, Nanos origin, const std::uint8_t* arena, std::uint8_t control_dscp,
          std::uint8_t data_dscp)
      : hook_(std::move(hook)),
        origin_(origin),
        arena_(arena),
        control_dscp_(control_dscp),
        data_dscp_(data_dscp) {}

  // A frame that reaches `host`, marked CE by the fabric or not.
  void frame(Nanos at, std::uint16_t host, bool ce, const FrameInfo& info,
             const std::uint8_t* header);

 private:
  Hook hook_;
  Nanos origin_;
  const std::uint8_t* arena_;
  std::uint8_t control_dscp_, data_dscp_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace metaroce::sim
