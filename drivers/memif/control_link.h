// One memif port's control connection: the driver's end and the peer's, with us between them.
//
//   kAway  --handshake done-->  kJoined  --peer closes, dies, or says anything-->  kGone
//   kAway  --handshake fails-->                                                    kGone
//   kGone  --hold()-->  kHeld  --restarted()-->  kAway
//
// Invariants:
//  - The driver never learns that its peer went: it would unmap the rings at once, from EAL's
//    interrupt thread. It is restarted by the port's owner, between hold() and restarted(), when no
//    lcore is inside its bursts.
//  - kGone and later: the driver is at rest. It has read all that we sent, EAL's interrupt thread
//  is
//    out of its handler, and nothing makes it enter again: stopping it races with nobody.
//  - Until kJoined no lcore polls the port, so that a handshake may fail as it likes.
//  - Our end to the driver is closed after the driver's: it sends without MSG_NOSIGNAL.
//  - One message is on its way in one direction at a time, as the protocol has it: nothing is
//    queued here, and after kJoined nothing reaches the driver.
// Rejected: to let the driver see an end of file and wait until it closes its descriptor. A child
// process that the application forked may have inherited that.
// state() is for any thread; all else is under the relay's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "drivers/memif/control_message.h"
#include "drivers/memif/handshake.h"

namespace metaroce::drivers::memif {

enum class LinkState : std::uint8_t { kAway, kJoined, kGone, kHeld };

class ControlLink {
 public:
  ControlLink(bool server, std::uint16_t queues) : server_(server), handshake_(server, queues) {}
  virtual ~ControlLink() = default;
  ControlLink(const ControlLink&) = delete;

  [[nodiscard]] LinkState state() const { return state_.load(std::memory_order_acquire); }

  // A server's: the driver was sent nothing yet, the peer said INIT.
  void join(UniqueFd driver, UniqueFd peer, const Message& init, Time now);
  [[nodiscard]] bool free() const { return state() == LinkState::kAway && !driver_ && !ending_; }
  virtual void watch(Watch& w) const;
  virtual void step(Time now);
  // Our end to the driver: close it when the driver has stopped.
  UniqueFd hold();
  void restarted() { set(LinkState::kAway); }
  // For good; the driver may be stopped when at_rest().
  virtual void leave();
  [[nodiscard]] bool at_rest() const { return !ending_; }

 protected:
  [[nodiscard]] bool ending() const { return ending_; }
  void connected(UniqueFd peer);  // a client's: HELLO comes next
  virtual void peer_was_lost(Time) {}

  UniqueFd driver_, peer_;

 private:
  enum class Turn : std::uint8_t { kPeer, kDriver };

  void from_driver(Time now);
  void from_peer(Time now);
  void to_driver(const Message& m, Time now);
  void lost(Time now);
  void settle();
  void set(LinkState s) { state_.store(s, std::memory_order_release); }

  static constexpr std::chrono::seconds kHandshakeLimit{5};
  static constexpr std::chrono::milliseconds kSettlePause{1};

  const bool server_;
  bool told_ = false;    // the driver got a message of this peer
  bool ending_ = false;  // not at rest yet
  std::optional<std::uint64_t> fence_;
  Turn turn_ = Turn::kPeer;
  Handshake handshake_;
  Time deadline_ = Time::max();  // of the handshake
  std::atomic<LinkState> state_{LinkState::kAway};
};

}  // namespace metaroce::drivers::memif
