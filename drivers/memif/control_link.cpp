#include "drivers/memif/control_link.h"

#include "drivers/memif/interrupt_fence.h"

namespace metaroce::drivers::memif {

void ControlLink::join(UniqueFd driver, UniqueFd peer, const Message& init, Time now) {
  driver_ = std::move(driver);
  connected(std::move(peer));
  if (handshake_.allows(init))
    to_driver(init, now);
  else
    lost(now);
}

void ControlLink::connected(UniqueFd peer) {
  peer_ = std::move(peer);
  handshake_.begin();
  turn_ = Turn::kPeer;
  told_ = false;
  // A server that is stopped says HELLO when it goes on. Giving it up before would be worse than
  // waiting: the driver of DPDK 22.11 does not survive a client that leaves so early.
  deadline_ = Time::max();
}

void ControlLink::watch(Watch& w) const {
  if (ending_) return w.at(std::chrono::steady_clock::now() + kSettlePause);
  if (!peer_) return;
  const bool joined = state() == LinkState::kJoined;
  w.on(driver_, turn_ == Turn::kDriver);
  w.on(peer_, turn_ == Turn::kPeer || joined);
  if (!joined) w.at(deadline_);
}

void ControlLink::step(Time now) {
  if (ending_) return settle();
  if (!driver_ || !peer_) return;
  if (state() == LinkState::kJoined) {
    pollfd p{peer_.get(), POLLIN | POLLRDHUP, 0};
    if (poll(&p, 1, 0) == 1 || hung_up(driver_.get())) lost(now);
  } else if (now >= deadline_) {
    lost(now);
  } else if (turn_ == Turn::kDriver) {
    from_driver(now);
    if (peer_ && hung_up(peer_.get())) lost(now);
  } else {
    from_peer(now);
    if (peer_ && hung_up(driver_.get())) lost(now);
  }
}

void ControlLink::from_driver(Time now) {
  Message m;
  const Received r = receive(driver_.get(), m);
  if (r == Received::kNothing) return;
  if (r == Received::kEnd) return lost(now);
  turn_ = Turn::kPeer;
  if (server_ && Handshake::completes(m)) set(LinkState::kJoined);
  if (!send(peer_.get(), m) || m.type() == MessageType::kDisconnect) lost(now);
}

void ControlLink::from_peer(Time now) {
  Message m;
  const Received r = receive(peer_.get(), m);
  if (r == Received::kNothing) return;
  if (r != Received::kMessage || !handshake_.allows(m)) return lost(now);
  to_driver(m, now);
}

void ControlLink::to_driver(const Message& m, Time now) {
  if (!told_) deadline_ = now + kHandshakeLimit;
  told_ = true;
  turn_ = Turn::kDriver;
  // Before the driver has it: it may be up before this returns.
  if (!server_ && Handshake::completes(m)) {
    set(LinkState::kJoined);
    turn_ = Turn::kPeer;
  }
  if (!send(driver_.get(), m)) lost(now);
}

// A client's driver that heard nothing of this peer yet can wait for the next one.
void ControlLink::lost(Time now) {
  peer_.reset();
  ending_ = server_ || told_;
  peer_was_lost(now);
}

void ControlLink::settle() {
  if (!all_read(driver_.get())) return;
  if (!fence_) {
    fence_ = InterruptFence::set();
  } else if (InterruptFence::passed(*fence_)) {
    fence_.reset();
    ending_ = false;
    set(LinkState::kGone);
  }
}

UniqueFd ControlLink::hold() {
  set(LinkState::kHeld);
  return std::move(driver_);
}

void ControlLink::leave() {
  peer_.reset();
  if (driver_) ending_ = true;
}

}  // namespace metaroce::drivers::memif
