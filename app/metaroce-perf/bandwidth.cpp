// Bandwidth: each sending end keeps its streams' queues full; acknowledged bytes count.
//
// Verified Writes carry the message number as immediate; the receiver checks the slot and gives
// credit back with an empty Send whose immediate is the number of messages checked so far (one in
// flight per stream, the newest count wins). The sender writes a slot again only below that count:
// without it a late message would overwrite what is being compared, and be reported as corrupt.
// Verified Sends need no credits: the receiver posts a buffer again only when it is checked.
// Plain Writes are not seen by the receiving program at all; it waits for kDone.
//
// The loop ends when both kVerified have passed. Invariant: per stream exactly the wanted number
// of messages is posted and completed (PostSchedule). A run without any completion or arrival for
// the session's grace is lost.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "metaroce-perf/round.h"
#include "metaroce-perf/schedule.h"

namespace metaroce::perf {
namespace {

using app::fail;
using app::now_ns;
using app::Status;

constexpr std::uint64_t kCreditId = UINT64_MAX;
constexpr unsigned kBatch = 32;

class BandwidthRun {
 public:
  BandwidthRun(Session& session, const Message& round)
      : s_(session),
        o_(session.options()),
        round_(round),
        verify_(round.verify != 0),
        write_(o_.verb == Verb::kWrite),
        credits_(verify_ && write_),
        layout_(round.size, o_.region, Metric::kBandwidth),
        wait_(o_.spin) {
    const std::uint64_t limit = !s_.sends()            ? 0
                                : round.iterations > 0 ? round.iterations
                                                       : PostSchedule::kUnlimited;
    const std::uint64_t slots = verify_ ? layout_.slots : PostSchedule::kUnlimited;
    for (std::uint32_t i = 0; i < o_.streams; ++i)
      streams_.push_back({PostSchedule(limit, o_.tx_depth, o_.cq_mod, slots), {}, 0, 0, 0, false});
  }

  Status run(RoundResult& result);

 private:
  struct Stream {
    PostSchedule schedule;
    std::vector<metaroce_wr> receives;  // to be posted again
    std::uint64_t next_receive = 0;     // messages arrived, in order
    std::uint64_t checked = 0;          // and checked
    std::uint64_t credit_given = 0;
    bool credit_in_flight = false;
  };

  Status post_first_receives();
  Status pass(bool& worked);
  Status complete(const metaroce_wc& wc);
  Status arrived(std::uint32_t index, const metaroce_wc& wc);
  Status check(std::uint32_t index, const std::uint8_t* data);
  Status post_messages(std::uint32_t index, bool& worked);
  Status give_credit(std::uint32_t index, bool idle);
  Status flush_receives();
  Status housekeeping(std::int64_t now);
  Status finish_when_done(std::int64_t now);
  metaroce_wr receive_request(std::uint32_t stream, std::uint64_t slot) const;
  bool all_sent() const;
  std::uint64_t total_sent() const;
  std::uint64_t total_received() const;

  Session& s_;
  const Options& o_;
  const Message& round_;
  bool verify_, write_, credits_, stopped_ = false;
  Layout layout_;
  app::IdleWait wait_;
  std::vector<Stream> streams_;
  std::int64_t start_ = 0, last_completion_ = 0, last_progress_ = 0;
};

metaroce_wr BandwidthRun::receive_request(std::uint32_t stream, std::uint64_t slot) const {
  metaroce_wr wr{};
  wr.wr_id = slot;
  if (write_ || round_.size == 0) return wr;  // immediates only
  wr.local = s_.recv_memory().data() + layout_.offset(stream, slot);
  wr.lkey = s_.recv_memory().lkey();
  wr.length = static_cast<std::uint32_t>(round_.size);
  return wr;
}

Status BandwidthRun::post_first_receives() {
  const bool wanted = write_ ? credits_ : s_.receives();
  if (!wanted) return {};
  const std::uint64_t count =
      verify_ && !write_ ? std::min<std::uint64_t>(o_.rx_depth, layout_.slots) : o_.rx_depth;
  for (std::uint32_t i = 0; i < o_.streams; ++i) {
    for (std::uint64_t n = 0; n < count; ++n)
      streams_[i].receives.push_back(receive_request(i, n % layout_.slots));
  }
  return flush_receives();
}

Status BandwidthRun::flush_receives() {
  for (std::uint32_t i = 0; i < o_.streams; ++i) {
    auto& r = streams_[i].receives;
    if (r.empty()) continue;
    if (Status st = s_.post_receives(i, r.data(), static_cast<std::uint32_t>(r.size())); !st.ok())
      return st;
    r.clear();
  }
  return {};
}

Status BandwidthRun::check(std::uint32_t index, const std::uint8_t* data) {
  Stream& stream = streams_[index];
  const std::uint64_t key =
      pattern_key(s_.seed(), s_.server() ? 0 : 1, round_.round, index, stream.checked);
  if (const auto bad = check_pattern(key, data, round_.size))
    return mismatch(index, stream.checked, *bad);
  ++stream.checked;
  return {};
}

Status BandwidthRun::arrived(std::uint32_t index, const metaroce_wc& wc) {
  Stream& stream = streams_[index];
  const bool credit = credits_ && wc.op == METAROCE_RECV;
  if (credit) {
    const std::uint64_t released = stream.schedule.released();
    const std::uint32_t ahead = wc.imm - static_cast<std::uint32_t>(released);
    stream.schedule.release(released + ahead);
  } else {
    const std::uint64_t number = stream.next_receive++;
    if (write_ && wc.imm != static_cast<std::uint32_t>(number))
      return fail(app::kExitMismatch,
                  fmt::format("message {} of stream {} arrived when {} was due", wc.imm, index,
                              static_cast<std::uint32_t>(number)));
    if (wc.byte_len != round_.size)
      return fail(app::kExitMismatch,
                  fmt::format("message {} of stream {} has {} bytes instead of {}", number, index,
                              wc.byte_len, round_.size));
    const std::uint64_t slot = write_ ? number : wc.wr_id;
    if (verify_)
      if (Status st = check(index, s_.recv_memory().data() + layout_.offset(index, slot)); !st.ok())
        return st;
  }
  stream.receives.push_back(receive_request(index, wc.wr_id));
  return {};
}

Status BandwidthRun::complete(const metaroce_wc& wc) {
  const auto index = s_.stream_of(wc.user);
  if (!index) return {};  // flushed from an earlier round
  Stream& stream = streams_[*index];
  if (wc.status != METAROCE_SUCCESS) {
    if (s_.verified_sent()) return {};  // the peer may close now
    // The opcode of a failed completion means nothing.
    return app::work_failure(wc.status, fmt::format("stream {}, request {}", *index, wc.wr_id));
  }
  if (wc.op >= METAROCE_RECV) return arrived(*index, wc);
  if (wc.wr_id == kCreditId) {
    stream.credit_in_flight = false;
    return {};
  }
  stream.schedule.complete(wc.wr_id);
  if (!credits_) stream.schedule.release(wc.wr_id + 1);
  last_completion_ = now_ns();
  return {};
}

Status BandwidthRun::post_messages(std::uint32_t index, bool& worked) {
  Stream& stream = streams_[index];
  std::array<metaroce_wr, kBatch> batch{};
  while (const std::uint64_t room = std::min<std::uint64_t>(kBatch, stream.schedule.room())) {
    for (std::uint64_t i = 0; i < room; ++i) {
      const std::uint64_t number = stream.schedule.posted() + i;
      const std::uint64_t offset = layout_.offset(index, number);
      std::uint8_t* local = s_.send_memory().data() + offset;
      if (verify_)
        fill_pattern(pattern_key(s_.seed(), s_.server() ? 1 : 0, round_.round, index, number),
                     local, round_.size);
      metaroce_wr& wr = batch[i];
      wr = {};
      wr.wr_id = number;
      wr.local = local;
      wr.lkey = s_.send_memory().lkey();
      wr.length = static_cast<std::uint32_t>(round_.size);
      wr.op = credits_ ? METAROCE_WRITE_IMM : write_ ? METAROCE_WRITE : METAROCE_SEND;
      wr.imm = static_cast<std::uint32_t>(number);
      if (write_) {
        wr.remote_addr = s_.remote_address() + offset;
        wr.rkey = s_.remote_rkey();
      }
      if (stream.schedule.signaled(i)) wr.flags = METAROCE_WR_SIGNALED;
    }
    if (start_ == 0) start_ = last_completion_ = now_ns();
    const int taken = metaroce_post(s_.stream(index), batch.data(), static_cast<int>(room));
    if (taken < 0) return app::api_failure(taken, fmt::format("cannot post to stream {}", index));
    stream.schedule.post(static_cast<std::uint64_t>(taken));
    worked = worked || taken > 0;
    if (static_cast<std::uint64_t>(taken) < room) break;
  }
  return {};
}

// A quarter of the slots at a time, and whatever there is when nothing else arrives.
Status BandwidthRun::give_credit(std::uint32_t index, bool idle) {
  Stream& stream = streams_[index];
  const std::uint64_t fresh = stream.checked - stream.credit_given;
  if (stream.credit_in_flight || fresh == 0) return {};
  if (!idle && fresh < std::max<std::uint64_t>(1, layout_.slots / 4)) return {};
  metaroce_wr wr{};
  wr.wr_id = kCreditId;
  wr.op = METAROCE_SEND_IMM;
  wr.imm = static_cast<std::uint32_t>(stream.checked);
  wr.flags = METAROCE_WR_SIGNALED;
  const int taken = metaroce_post(s_.stream(index), &wr, 1);
  if (taken < 0) return app::api_failure(taken, "cannot return a credit");
  if (taken == 1) {
    stream.credit_in_flight = true;
    stream.credit_given = stream.checked;
  }
  return {};
}

Status BandwidthRun::pass(bool& worked) {
  std::array<metaroce_wc, kBatch> wc;
  const int n = metaroce_poll(s_.cq(), kBatch, wc.data());
  if (n < 0) return app::api_failure(n, "cannot poll for completions");
  for (int i = 0; i < n; ++i)
    if (Status st = complete(wc[static_cast<std::size_t>(i)]); !st.ok()) return st;
  worked = n > 0;
  if (Status st = flush_receives(); !st.ok()) return st;
  for (std::uint32_t i = 0; i < o_.streams; ++i) {
    if (credits_)
      if (Status st = give_credit(i, n == 0); !st.ok()) return st;
    if (Status st = post_messages(i, worked); !st.ok()) return st;
  }
  return {};
}

bool BandwidthRun::all_sent() const {
  return std::all_of(streams_.begin(), streams_.end(), [this](const Stream& s) {
    return s.schedule.done() && (!credits_ || s.schedule.all_released());
  });
}
std::uint64_t BandwidthRun::total_sent() const {
  std::uint64_t n = 0;
  for (const Stream& s : streams_) n += s.schedule.completed();
  return n;
}
std::uint64_t BandwidthRun::total_received() const {
  std::uint64_t n = 0;
  for (const Stream& s : streams_) n += s.next_receive;
  return n;
}

Status BandwidthRun::finish_when_done(std::int64_t now) {
  if (!s_.done_sent() && all_sent() && (s_.sends() || s_.peer_done()))
    if (Status st = s_.send_done(total_sent(), total_sent() * round_.size,
                                 start_ ? last_completion_ - start_ : 0);
        !st.ok())
      return st;
  if (s_.verified_sent() || !s_.done_sent() || !s_.peer_done()) return {};
  const bool counted = s_.receives() && (!write_ || credits_);
  const bool credits_out =
      !credits_ || std::all_of(streams_.begin(), streams_.end(), [](const Stream& s) {
        return s.credit_given == s.checked && !s.credit_in_flight;
      });
  if ((counted && total_received() < s_.peer_done()->messages) || !credits_out) return {};
  if (counted && total_received() > s_.peer_done()->messages)
    return fail(app::kExitMismatch, fmt::format("{} messages arrived, the peer sent {}",
                                                total_received(), s_.peer_done()->messages));
  last_progress_ = now;
  return s_.send_verified();
}

Status BandwidthRun::housekeeping(std::int64_t now) {
  if (Status st = s_.service(); !st.ok()) return st;
  if (!s_.server() && round_.duration_s > 0 && start_ && !s_.stop_requested() &&
      static_cast<double>(now - start_) >= round_.duration_s * 1e9)
    if (Status st = s_.ask_to_stop(false); !st.ok()) return st;
  if (s_.stop_requested() && !stopped_) {
    stopped_ = true;
    for (Stream& s : streams_) s.schedule.stop();
  }
  // A side that only receives hears of the peer's troubles by its ticks; a sender by completions.
  const bool waiting = (s_.sends() && !s_.done_sent()) || s_.peer_done();
  if (waiting && now - last_progress_ > s_.grace_ns(round_.size))
    return fail(app::kExitPeerLost,
                fmt::format("no progress for {:.0f} s after {} messages sent and {} received",
                            static_cast<double>(now - last_progress_) / 1e9, total_sent(),
                            total_received()));
  return finish_when_done(now);
}

Status BandwidthRun::run(RoundResult& result) {
  result.size = round_.size;
  result.verified = verify_;
  last_progress_ = now_ns();
  if (Status st = post_first_receives(); !st.ok()) return st;
  Status status;
  bool progress = false;
  for (unsigned passes = 0; status.ok() && !s_.round_over(); ++passes) {
    bool worked = false;
    status = pass(worked);
    if (!status.ok()) break;
    progress = progress || worked;
    if (worked)
      wait_.busy();
    else
      wait_.idle();
    if (worked && passes % kBatch != 0) continue;
    const std::int64_t now = now_ns();
    if (std::exchange(progress, false)) last_progress_ = now;
    status = housekeeping(now);
    const bool passive = write_ && !credits_ && !s_.sends();
    if (status.ok() && passive && !s_.round_over()) s_.sleep_idle();
  }
  result.sent = {s_.sends(), total_sent(), total_sent() * round_.size,
                 start_ ? last_completion_ - start_ : 0};
  if (s_.receives() && s_.peer_done())
    result.received = {true, s_.peer_done()->messages, s_.peer_done()->bytes,
                       s_.peer_done()->elapsed_ns};
  return status;
}

}  // namespace

Status run_bandwidth(Session& session, const Message& round, RoundResult& result) {
  return BandwidthRun(session, round).run(result);
}

}  // namespace metaroce::perf
