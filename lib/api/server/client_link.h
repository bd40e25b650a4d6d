// The socket of one client: whole messages in and out, never blocking.
//
// While messages wait because the client does not read, its requests are not read either: replies
// cannot pile up. What still can are events, bounded by the session's streams and backlog; more
// than `queued_messages` ends the link. Descriptors that a client sends are never received: the
// kernel drops them. Control thread.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>

#include "api/abi.h"
#include "api/server/session.h"

namespace metaroce {

enum class LinkEnd : std::uint8_t {
  kNone,
  kGone,      // the client closed or died
  kProtocol,  // a message that no library of ours sends
  kSlow,      // does not read its messages
  kRefused,   // attach failed, or never came
  kStopped,   // the daemon stops
};

class ClientLink final : public MessageSink {
 public:
  ClientLink(UniqueFd fd, const ucred& peer, Nanos attach_deadline, std::uint32_t queue_limit)
      : fd_(std::move(fd)),
        peer_(peer),
        attach_deadline_(attach_deadline),
        queue_limit_(queue_limit) {}

  // Next request; false when there is none now or the link has ended.
  bool receive(abi::Request& out);
  void deliver(OutMessage&& m) override;
  void flush();
  void end(LinkEnd why) {
    if (end_ == LinkEnd::kNone) end_ = why;
  }

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const ucred& peer() const { return peer_; }
  [[nodiscard]] LinkEnd ended() const { return end_; }
  [[nodiscard]] bool queued() const { return !queue_.empty(); }
  [[nodiscard]] Nanos attach_deadline() const { return attach_deadline_; }
  [[nodiscard]] std::uint32_t interest() const;  // epoll events

  Session* session = nullptr;    // the server's: owned by HostSessions
  std::uint32_t registered = 0;  // the server's: epoll events asked for

 private:
  enum class Sent { kDone, kLater, kFailed };
  Sent send_now(const OutMessage& m);

  UniqueFd fd_;
  ucred peer_;
  Nanos attach_deadline_;
  std::uint32_t queue_limit_;
  LinkEnd end_ = LinkEnd::kNone;
  std::deque<OutMessage> queue_;
};

}  // namespace metaroce
