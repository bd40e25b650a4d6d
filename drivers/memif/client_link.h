// A client's control connection. Its driver connects to our door, and waits there for as long as it
// takes to find the server: nobody tells when a server begins to listen, it has to be tried.
#pragma once

#include <string>

#include "dataplane/status.h"
#include "drivers/memif/control_link.h"

namespace metaroce::drivers::memif {

class ClientLink final : public ControlLink {
 public:
  ClientLink(std::string server, std::uint16_t queues)
      : ControlLink(false, queues), server_(std::move(server)) {}
  // `name`: of an abstract socket, for our own driver only.
  Status open_door(const std::string& name);

  void watch(Watch& w) const override;
  void step(Time now) override;
  void leave() override;

 private:
  void admit();
  void dial(Time now);
  void peer_was_lost(Time now) override { retry_at_ = now + pause(); }
  std::chrono::milliseconds pause();
  [[nodiscard]] bool wants_server() const {
    return driver_ && !peer_ && !ending() && state() == LinkState::kAway;
  }

  static constexpr int kAdmissions = 16;  // in one go
  static constexpr std::chrono::milliseconds kFirstPause{5}, kLongestPause{100};

  std::string server_;
  UniqueFd door_;
  std::chrono::milliseconds pause_ = kFirstPause;
  Time retry_at_{};
};

}  // namespace metaroce::drivers::memif
