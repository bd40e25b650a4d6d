// A mixed workload for World: Writes, Writes with immediate, Sends of random sizes on several
// streams from a to b, each message in a slot of its own. check() proves: every byte in its place,
// placed exactly once, nothing elsewhere, completions in post order, everything finished.
#pragma once

#include "support/world.h"

namespace metaroce::test {

class Workload {
 public:
  static constexpr std::uint32_t kSlot = 16384;

  Workload(World& world, std::uint32_t messages, std::uint32_t max_bytes = kSlot - 64)
      : w_(world),
        rng_(world.options.seed * 77),
        count_(messages),
        src_(world.a.add_memory(std::size_t{messages} * kSlot, (1 << 12) | 5, kAccessLocalWrite)),
        dst_(world.b.add_memory(std::size_t{messages} * kSlot, (2 << 12) | 9,
                                kAccessLocalWrite | kAccessRemoteWrite)) {
    for (auto& x : src_.bytes) x = static_cast<std::uint8_t>(rng_.next() | 1);
    for (std::uint32_t i = 0; i < messages; ++i) {
      Message m;
      m.stream = rng_.below(world.options.streams);
      m.op = static_cast<WorkOp>(rng_.below(4));
      m.length = rng_.below(8) == 0 ? rng_.below(3) : rng_.below(max_bytes);
      m.skew = rng_.below(64);
      messages_.push_back(m);
    }
  }

  // Posts what fits; call between steps.
  void feed() {
    while (posted_recv_ < count_) {
      const Message& m = messages_[posted_recv_];
      if (m.op != WorkOp::kWrite) {
        WorkRequest r{};
        r.wr_id = posted_recv_;
        r.stream = w_.handle(m.stream);
        r.local_addr = dst_.va + std::uint64_t{posted_recv_} * kSlot + m.skew;
        r.lkey = dst_.key;
        r.length = m.op == WorkOp::kWriteImm ? 0 : m.length + posted_recv_ % 2;
        if (!w_.b.receives.push(r)) break;
      }
      ++posted_recv_;
    }
    while (posted_ < count_) {
      const Message& m = messages_[posted_];
      WorkRequest r{};
      r.wr_id = posted_;
      r.stream = w_.handle(m.stream);
      r.op = static_cast<std::uint8_t>(m.op);
      r.flags = kWorkSignaled;
      r.local_addr = src_.va + std::uint64_t{posted_} * kSlot;
      r.lkey = src_.key;
      r.length = m.length;
      r.remote_addr = dst_.va + std::uint64_t{posted_} * kSlot + m.skew;
      r.rkey = dst_.key;
      r.imm = posted_ ^ 0xabcd1234U;
      if (!w_.a.sends.push(r)) break;
      ++posted_;
    }
  }
  [[nodiscard]] bool done() const { return w_.a.sent_completions.size() == count_; }
  bool run(Nanos limit) {
    return w_.run_until(
        [&] {
          feed();
          return done();
        },
        limit);
  }

  void check() {
    const std::string where = w_.replay();
    ASSERT_EQ(w_.a.sent_completions.size(), count_) << where;
    std::vector<std::int64_t> last(w_.options.streams, -1);
    for (const auto& c : w_.a.sent_completions) {
      ASSERT_EQ(c.status, 0) << where << " message " << c.wr_id;
      auto& l = last[messages_[c.wr_id].stream];
      ASSERT_LT(l, static_cast<std::int64_t>(c.wr_id)) << "completions out of order: " << where;
      l = static_cast<std::int64_t>(c.wr_id);
    }
    std::size_t receives = 0;
    for (const auto& m : messages_) receives += m.op != WorkOp::kWrite ? 1 : 0;
    ASSERT_EQ(w_.b.received_completions.size(), receives) << where;
    last.assign(w_.options.streams, -1);
    for (const auto& c : w_.b.received_completions) {
      const Message& m = messages_[c.wr_id];
      ASSERT_EQ(c.status, 0) << where;
      ASSERT_EQ(c.byte_len, m.length) << where;
      const bool imm = m.op == WorkOp::kWriteImm || m.op == WorkOp::kSendImm;
      ASSERT_EQ(c.flags, imm ? kCompletionImm : 0) << where;
      ASSERT_TRUE(!imm || c.imm == (static_cast<std::uint32_t>(c.wr_id) ^ 0xabcd1234U)) << where;
      ASSERT_LT(last[m.stream], static_cast<std::int64_t>(c.wr_id)) << where;
      last[m.stream] = static_cast<std::int64_t>(c.wr_id);
    }
    std::uint64_t total = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
      const Message& m = messages_[i];
      total += m.length;
      // The slot as it must look: the message at its skew, nothing around it; each byte once.
      std::vector<std::uint8_t> bytes(kSlot, 0), times(kSlot, 0);
      std::copy_n(src_.bytes.begin() + std::ptrdiff_t{i} * kSlot, m.length, bytes.begin() + m.skew);
      std::fill_n(times.begin() + m.skew, m.length, std::uint8_t{1});
      ASSERT_EQ(first_difference(dst_.bytes, i, bytes), -1) << "message " << i << ": " << where;
      if (w_.options.ordered)
        continue;  // the last 8 bytes are stored by the role itself, not counted
      ASSERT_EQ(first_difference(dst_.shadow, i, times), -1)
          << "placed not exactly once, message " << i << ": " << where;
    }
    ASSERT_TRUE(w_.options.ordered || w_.b.placed == total) << where;
    ASSERT_EQ(w_.a.tx.validate(), nullptr) << where;
  }

 private:
  static std::int64_t first_difference(const std::vector<std::uint8_t>& all, std::uint32_t slot,
                                       const std::vector<std::uint8_t>& want) {
    const auto from = all.begin() + std::ptrdiff_t{slot} * kSlot;
    if (std::equal(want.begin(), want.end(), from)) return -1;
    return std::mismatch(want.begin(), want.end(), from).first - want.begin();
  }
  struct Message {
    std::uint32_t stream = 0, length = 0, skew = 0;
    WorkOp op{};
  };
  World& w_;
  Rng rng_;
  std::uint32_t count_, posted_ = 0, posted_recv_ = 0;
  Host::Memory &src_, &dst_;
  std::vector<Message> messages_;
};

// Seeds of a randomised test: METAROCE_SEED replays one, METAROCE_SEEDS sets the number.
inline std::pair<std::uint64_t, std::uint64_t> seed_range(std::uint64_t count) {
  if (const char* one = std::getenv("METAROCE_SEED")) {
    const std::uint64_t s = std::strtoull(one, nullptr, 0);
    return {s, s + 1};
  }
  if (const char* n = std::getenv("METAROCE_SEEDS")) count = std::strtoull(n, nullptr, 0);
  return {1, 1 + count};
}

}  // namespace metaroce::test
