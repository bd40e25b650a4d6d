// A connection to the driver of a server port, made before a client needs it: what the driver says
// first (HELLO) is what a client is told before we know which port it wants.
// It is never closed before its HELLO is here: see private_socket.h.
#pragma once

#include <memory>

#include "drivers/memif/control_message.h"
#include "drivers/memif/private_socket.h"

namespace metaroce::drivers::memif {

class Reserve {
 public:
  explicit Reserve(std::shared_ptr<PrivateSocket> driver) : driver_(std::move(driver)) {}

  void watch(Watch& w) const;
  // `wanted`: a client could come. Else it is given up when that is possible.
  void step(bool wanted, Time now);
  [[nodiscard]] bool ready() const { return greeted_; }
  [[nodiscard]] bool closed() const { return !fd_; }
  // Of a ready one.
  [[nodiscard]] const Message& hello() const { return hello_; }
  UniqueFd take() {
    greeted_ = false;
    return std::move(fd_);
  }

 private:
  static constexpr std::chrono::milliseconds kPause{10};

  std::shared_ptr<PrivateSocket> driver_;
  UniqueFd fd_;
  bool wanted_ = true, greeted_ = false;
  Message hello_;
  Time retry_at_{};
};

}  // namespace metaroce::drivers::memif
