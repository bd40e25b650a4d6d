// What a memif peer may say while both ends agree on regions and rings. The driver believes most
// of it: it indexes its queues by what ADD_RING counts, and maps any size. A message that does not
// fit ends the handshake before the driver sees it.
//  - The peer speaks only when asked (HELLO, ACK): one message in each direction at a time.
//  - Not looked at: descriptors within the rings. The other end of a memif is trusted with those.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "drivers/memif/control_message.h"

namespace metaroce::drivers::memif {

class Handshake {
 public:
  // `queues`: pairs of our port; the peer must bring as many.
  Handshake(bool server, std::uint16_t queues) : server_(server), queues_(queues) {}

  void begin() {
    regions_.clear();
    rings_ = {};
    said_ = false;
  }
  // Does this message of the peer fit here?
  [[nodiscard]] bool allows(const Message& m);
  // CONNECTED, from whichever end: afterwards the peer has nothing more to say.
  [[nodiscard]] static bool completes(const Message& m) {
    return m.type() == MessageType::kConnected;
  }

 private:
  bool add_region(const Message& m);
  bool add_ring(const Message& m);

  bool server_;
  std::uint16_t queues_;
  bool said_ = false;                     // the first message, INIT or HELLO, is through
  std::vector<std::uint64_t> regions_;    // bytes
  std::array<std::uint16_t, 2> rings_{};  // to us, from us
};

}  // namespace metaroce::drivers::memif
