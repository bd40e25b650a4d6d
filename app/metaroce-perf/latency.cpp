// Latency: the client sends message n, the server answers with its message n, half of the round
// trip counts. write_lat polls the last byte of the slot, which the dataplane places after all
// other bytes of the message (METAROCE_STREAM_ORDERED_LAST); it carries 1 + n mod 255, so it never
// equals what the slot held before (layout.h). send_lat polls for the receive.
//
// Filling and checking lie outside the measured interval: the next message is filled before the
// wait, and an answer leaves before its question is checked. That is safe because the client
// writes slot n again only after answer n + 1, which the server sends after checking n.
#include <array>
#include <atomic>

#include "metaroce-perf/round.h"

namespace metaroce::perf {
namespace {

using app::fail;
using app::now_ns;
using app::Status;

class LatencyRun {
 public:
  LatencyRun(Session& session, const Message& round, LatencyHistogram& histogram)
      : s_(session),
        round_(round),
        histogram_(histogram),
        write_(session.options().verb == Verb::kWrite),
        verify_(round.verify != 0),
        layout_(round.size, session.options().region, Metric::kLatency),
        receive_slots_(write_ ? layout_.slots
                              : std::min<std::uint64_t>(session.options().rx_depth, layout_.slots)),
        wait_(session.options().spin) {}
  Status run(RoundResult& result);

 private:
  Status client();
  Status server();
  Status handshake();
  void fill(std::uint64_t number);
  Status check(std::uint64_t number);
  Status post(std::uint64_t number);
  // Until message `number` of the peer is here; `over` when the peer has announced its end.
  Status wait_for(std::uint64_t number, bool& over);
  Status wait_buffer(std::uint64_t number);
  Status take_completions();
  Status post_receive(std::uint64_t slot);
  Status lull(std::int64_t since);
  bool landed(std::uint64_t number) const;
  std::uint8_t* received(std::uint64_t number) const {
    return s_.recv_memory().data() + layout_.offset(0, number % receive_slots_);
  }
  static std::uint8_t marker(std::uint64_t number) {
    return static_cast<std::uint8_t>(1 + number % 255);
  }

  Session& s_;
  const Message& round_;
  LatencyHistogram& histogram_;
  bool write_, verify_;
  Layout layout_;
  std::uint64_t receive_slots_;  // receives are used in order, hence message n in n mod this
  app::IdleWait wait_;
  std::uint64_t posted_ = 0, completed_ = 0, received_ = 0;
  unsigned empty_ = 0;
  std::int64_t start_ = 0, end_ = 0;
};

void LatencyRun::fill(std::uint64_t number) {
  std::uint8_t* data = s_.send_memory().data() + layout_.offset(0, number);
  if (verify_)
    fill_pattern(pattern_key(s_.seed(), s_.server() ? 1 : 0, round_.round, 0, number), data,
                 round_.size);
  if (write_) data[round_.size - 1] = marker(number);
}

Status LatencyRun::check(std::uint64_t number) {
  if (!verify_) return {};
  const std::uint64_t length = write_ ? round_.size - 1 : round_.size;
  const std::uint64_t key = pattern_key(s_.seed(), s_.server() ? 0 : 1, round_.round, 0, number);
  if (const auto bad = check_pattern(key, received(number), length))
    return mismatch(0, number, *bad);
  return {};
}

Status LatencyRun::post(std::uint64_t number) {
  const std::uint64_t offset = layout_.offset(0, number);
  metaroce_wr wr{};
  wr.wr_id = number;
  wr.local = s_.send_memory().data() + offset;
  wr.lkey = s_.send_memory().lkey();
  wr.length = static_cast<std::uint32_t>(round_.size);
  wr.op = write_ ? METAROCE_WRITE : METAROCE_SEND;
  wr.flags = METAROCE_WR_SIGNALED;
  if (write_) {
    wr.remote_addr = s_.remote_address() + offset;
    wr.rkey = s_.remote_rkey();
  }
  const int taken = metaroce_post(s_.stream(0), &wr, 1);
  if (taken < 0) return app::api_failure(taken, "cannot post");
  if (taken == 0) return fail(app::kExitFailure, "cannot post: the queue is full");
  ++posted_;
  return {};
}

Status LatencyRun::post_receive(std::uint64_t slot) {
  metaroce_wr wr{};
  wr.wr_id = slot;
  wr.local = round_.size ? s_.recv_memory().data() + layout_.offset(0, slot) : nullptr;
  wr.lkey = s_.recv_memory().lkey();
  wr.length = static_cast<std::uint32_t>(round_.size);
  return s_.post_receives(0, &wr, 1);
}

Status LatencyRun::take_completions() {
  std::array<metaroce_wc, 8> wc;
  const int n = metaroce_poll(s_.cq(), static_cast<int>(wc.size()), wc.data());
  if (n < 0) return app::api_failure(n, "cannot poll for completions");
  for (int i = 0; i < n; ++i) {
    const metaroce_wc& c = wc[static_cast<std::size_t>(i)];
    if (!s_.stream_of(c.user) || (c.status != METAROCE_SUCCESS && s_.verified_sent())) continue;
    if (c.status != METAROCE_SUCCESS)
      return app::work_failure(c.status, fmt::format("request {}", c.wr_id));
    if (c.op < METAROCE_RECV) {
      completed_ = c.wr_id + 1;
      continue;
    }
    if (c.byte_len != round_.size)
      return fail(app::kExitMismatch, fmt::format("message {} has {} bytes instead of {}",
                                                  received_, c.byte_len, round_.size));
    ++received_;
  }
  return {};
}

bool LatencyRun::landed(std::uint64_t number) const {
  if (!write_) return received_ > number;
  // Acquire: the bytes before the marker are read after it.
  return std::atomic_ref<std::uint8_t>(received(number)[round_.size - 1])
             .load(std::memory_order_acquire) == marker(number);
}

Status LatencyRun::lull(std::int64_t since) {
  wait_.idle();
  if (++empty_ % 256 != 0) return {};
  if (Status st = s_.service(); !st.ok()) return st;
  if (now_ns() - since > s_.grace_ns(round_.size))
    return fail(app::kExitPeerLost, fmt::format("no answer to message {} in {:.0f} s", posted_,
                                                static_cast<double>(now_ns() - since) / 1e9));
  return {};
}

Status LatencyRun::wait_for(std::uint64_t number, bool& over) {
  const std::int64_t since = now_ns();
  over = false;
  while (!landed(number)) {
    if (Status st = take_completions(); !st.ok()) return st;
    if (landed(number)) break;
    if (Status st = lull(since); !st.ok()) return st;
    over = s_.peer_done() && s_.peer_done()->messages <= number;
    if (over) return {};
  }
  wait_.busy();
  return {};
}

// The slot's previous message must be acknowledged before its bytes change.
Status LatencyRun::wait_buffer(std::uint64_t number) {
  const std::int64_t since = now_ns();
  while (completed_ + layout_.slots <= number) {
    const std::uint64_t before = completed_;
    if (Status st = take_completions(); !st.ok()) return st;
    if (completed_ == before)
      if (Status st = lull(since); !st.ok()) return st;
  }
  return {};
}

Status LatencyRun::client() {
  fill(0);
  const std::uint64_t limit = round_.iterations ? round_.iterations : UINT64_MAX;
  start_ = end_ = now_ns();
  for (std::uint64_t n = 0; n < limit && !s_.stop_requested(); ++n) {
    bool over = false;
    const std::int64_t sent = now_ns();
    if (Status st = post(n); !st.ok()) return st;
    if (Status st = wait_for(n, over); !st.ok()) return st;
    if (over) return fail(app::kExitFailure, "the server ended before the client");
    end_ = now_ns();
    histogram_.add(static_cast<std::uint64_t>(end_ - sent) / 2);
    if (Status st = check(n); !st.ok()) return st;
    if (!write_)
      if (Status st = post_receive(n % receive_slots_); !st.ok()) return st;
    if (n % 64 == 0)
      if (Status st = s_.service(); !st.ok()) return st;
    if (round_.duration_s > 0 && static_cast<double>(end_ - start_) >= round_.duration_s * 1e9)
      break;
    if (Status st = wait_buffer(n + 1); !st.ok()) return st;
    fill(n + 1);
  }
  return {};
}

Status LatencyRun::server() {
  fill(0);
  for (std::uint64_t n = 0;; ++n) {
    bool over = false;
    if (Status st = wait_for(n, over); !st.ok() || over) return st;
    if (start_ == 0) start_ = now_ns();
    if (Status st = post(n); !st.ok()) return st;
    end_ = now_ns();
    if (Status st = check(n); !st.ok()) return st;
    if (!write_)
      if (Status st = post_receive(n % receive_slots_); !st.ok()) return st;
    if (n % 64 == 0)
      if (Status st = s_.service(); !st.ok()) return st;
    if (Status st = wait_buffer(n + 1); !st.ok()) return st;
    fill(n + 1);
  }
}

Status LatencyRun::handshake() {
  const std::int64_t since = now_ns();
  while (completed_ < posted_) {
    if (Status st = take_completions(); !st.ok()) return st;
    if (completed_ < posted_)
      if (Status st = lull(since); !st.ok()) return st;
  }
  if (Status st = s_.send_done(posted_, posted_ * round_.size, end_ - start_); !st.ok()) return st;
  while (!s_.round_over()) {
    if (Status st = s_.service(); !st.ok()) return st;
    if (s_.peer_done() && !s_.verified_sent())
      if (Status st = s_.send_verified(); !st.ok()) return st;
    if (!s_.round_over()) s_.sleep_idle();
    if (now_ns() - since > s_.grace_ns(0))
      return fail(app::kExitPeerLost, "the peer does not confirm the end of the run");
  }
  return {};
}

Status LatencyRun::run(RoundResult& result) {
  result.size = round_.size;
  result.verified = verify_;
  if (!write_) {
    for (std::uint64_t i = 0; i < receive_slots_; ++i)
      if (Status st = post_receive(i); !st.ok()) return st;
  }
  Status status = s_.server() ? server() : client();
  if (status.ok()) status = handshake();
  result.sent = {true, completed_, completed_ * round_.size, end_ - start_};
  result.received = {true, posted_, posted_ * round_.size, end_ - start_};
  return status;
}

}  // namespace

Status run_latency(Session& session, const Message& round, RoundResult& result) {
  return LatencyRun(session, round, result.latency).run(result);
}

}  // namespace metaroce::perf
