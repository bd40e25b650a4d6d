// Fixed-size messages over Sends of one stream, with a completion queue of its own so that data
// never delays them. Bounded: kBuffers sends in flight, kBuffers receives posted; both programs
// send only on events of a person's scale, and a sender out of buffers waits for the peer within
// the limit of the call. One thread.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <type_traits>

#include "common/api.h"
#include "common/idle_wait.h"

namespace metaroce::app {

template <typename Message>
class MessageChannel {
 public:
  static_assert(std::is_trivially_copyable_v<Message>);
  static constexpr unsigned kBuffers = 16;

  // Everything that the stream's attributes need; before connect or accept.
  Status prepare(metaroce_context* ctx) {
    if (Status s = create_cq(ctx, 4 * kBuffers, cq_); !s.ok()) return s;
    return memory_.allocate(ctx, 2 * kBuffers * sizeof(Message), METAROCE_ACCESS_LOCAL_WRITE,
                            "control messages");
  }
  metaroce_stream_attr attr() const {
    metaroce_stream_attr a{};
    a.send_cq = a.recv_cq = cq_.get();
    a.send_depth = a.recv_depth = kBuffers;
    a.user = nullptr;
    return a;
  }
  Status open(StreamPtr stream) {
    stream_ = std::move(stream);
    for (unsigned i = 0; i < kBuffers; ++i)
      if (Status s = post_receive(i); !s.ok()) return s;
    return {};
  }

  Status send(const Message& message, int timeout_ms) {
    const std::int64_t deadline = now_ns() + timeout_ms * (kSecondNs / 1000);
    IdleWait wait(false);
    while (in_flight_ == kBuffers) {
      if (Status s = reap(); !s.ok()) return s;
      if (now_ns() > deadline) return fail(kExitPeerLost, "the peer takes no messages");
      wait.idle();
    }
    const unsigned slot = next_send_++ % kBuffers;
    std::memcpy(buffer(slot), &message, sizeof message);
    metaroce_wr wr{};
    wr.wr_id = slot;
    wr.local = buffer(slot);
    wr.lkey = memory_.lkey();
    wr.length = sizeof message;
    wr.op = METAROCE_SEND;
    wr.flags = METAROCE_WR_SIGNALED;
    const int taken = metaroce_post(stream_.get(), &wr, 1);
    if (taken < 0) return api_failure(taken, "cannot send a control message");
    if (taken == 0) return fail(kExitFailure, "cannot send a control message: queue is full");
    ++in_flight_;
    return {};
  }

  // The next message, if one has arrived. Never blocks.
  Status receive(std::optional<Message>& out) {
    out.reset();
    if (pending_) {
      out.swap(pending_);
      return {};
    }
    return take(out);
  }

  // All sends acknowledged. Errors count as done: after a good run the peer may close first.
  bool drained() {
    if (in_flight_ > 0 && !reap().ok()) in_flight_ = 0;
    return in_flight_ == 0;
  }

  // Sleeps until something may have arrived; for ends with nothing else to do.
  void sleep(int timeout_ms) {
    if (metaroce_cq_arm(cq_.get()) < 0) return;
    pollfd p{metaroce_cq_fd(cq_.get()), POLLIN, 0};
    if (::poll(&p, 1, timeout_ms) > 0) {
      std::uint64_t count = 0;
      if (::read(p.fd, &count, sizeof count) < 0) return;  // cleared by someone else: harmless
    }
  }

  void close(int timeout_ms) {
    if (stream_) metaroce_close(stream_.release(), timeout_ms);
  }
  metaroce_stream* stream() const { return stream_.get(); }

 private:
  // Sends that have completed, without taking more than one message out of the queue.
  Status reap() { return pending_ ? Status{} : take(pending_); }

  Status take(std::optional<Message>& out) {
    metaroce_wc wc{};
    int n = 0;
    while ((n = metaroce_poll(cq_.get(), 1, &wc)) == 1) {
      const bool receive_op = wc.op >= METAROCE_RECV;
      if (wc.status != METAROCE_SUCCESS) {
        if (!receive_op && in_flight_ > 0) --in_flight_;
        return work_failure(wc.status, "the peer is gone (control stream)");
      }
      if (!receive_op) {
        --in_flight_;
        continue;
      }
      const unsigned slot = static_cast<unsigned>(wc.wr_id) % kBuffers;
      if (wc.byte_len != sizeof(Message))
        return fail(kExitFailure, "the peer sent a control message of another length");
      Message& message = out.emplace();
      std::memcpy(&message, buffer(kBuffers + slot), sizeof message);
      return post_receive(slot);
    }
    if (n < 0) return api_failure(n, "cannot poll the control stream");
    return {};
  }
  Status post_receive(unsigned slot) {
    metaroce_wr wr{};
    wr.wr_id = slot;
    wr.local = buffer(kBuffers + slot);
    wr.lkey = memory_.lkey();
    wr.length = sizeof(Message);
    const int taken = metaroce_post_recv(stream_.get(), &wr, 1);
    return taken == 1 ? Status{} : api_failure(taken, "cannot post a receive for control messages");
  }
  std::uint8_t* buffer(unsigned i) const { return memory_.data() + i * sizeof(Message); }

  Memory memory_;
  CqPtr cq_;
  StreamPtr stream_;  // goes before its queue and its memory
  std::optional<Message> pending_;
  unsigned next_send_ = 0, in_flight_ = 0;
};

}  // namespace metaroce::app
