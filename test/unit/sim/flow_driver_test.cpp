// The applications of all hosts, with completions by hand: no packet is sent.
#include "sim/flow_driver.h"

#include <gtest/gtest.h>

#include "small_scenario.h"

namespace metaroce::sim {
namespace {

class Rig {
 public:
  explicit Rig(Workload flows) : w_(std::move(flows)), s_(small_scenario(4)) {
    for (std::uint16_t h = 0; h < 4; ++h)
      hosts.push_back(std::make_unique<SimHost>(h, s_, HostSizes{}, net_, ledger.bytes(), 1));
  }

 private:
  Workload w_;
  Scenario s_;
  std::uint8_t memory_[1] = {};

 public:
  Ledger ledger{w_.flows, 4096};

 private:
  Network net_{s_.fabric, 1, 4, s_.host, ledger, memory_};

 public:
  std::vector<std::unique_ptr<SimHost>> hosts;
  FlowDriver driver{w_, ledger};
  std::vector<std::uint32_t> ready;

  void start(std::uint32_t f, Nanos now = 0) { driver.start(f, now, hosts); }
  // Everything of the flow arrives.
  void place(std::uint32_t f, Nanos now = 1) {
    const Flow& x = w_.flows[f];
    for (std::uint64_t at = 0; at < x.bytes; at += 4096) {
      const std::uint64_t offset = ledger.offset(f) + at;
      const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(4096, x.bytes - at));
      std::uint32_t of = 0;
      bool done = false;
      EXPECT_EQ(ledger.place(now, x.src, x.dst, offset, offset, n, of, done), Ledger::Fault::kNone);
      if (done) hosts[x.dst]->whole.push_back(f);
    }
  }
  void take(std::uint16_t host, Nanos now = 2) {
    ready.clear();
    driver.take(*hosts[host], now, hosts, ready);
  }
  void sent(std::uint32_t f, WorkStatus status = WorkStatus::kSuccess) {
    Completion c{};
    c.wr_id = f;
    c.status = static_cast<std::uint8_t>(status);
    hosts[w_.flows[f].src]->sent.push_back(c);
    take(w_.flows[f].src);
  }
  void received(std::uint32_t f, std::uint64_t ordinal) {
    Completion c{};
    c.wr_id = ordinal;
    c.imm = f;
    hosts[w_.flows[f].dst]->received.push_back(c);
    take(w_.flows[f].dst);
  }
};

using Ids = std::vector<std::uint32_t>;

TEST(FlowDriver, streams_by_pair_and_ordinal) {
  Flow second = flow(0, 1, 1);
  second.stream = 1;
  Rig r(workload(4, {flow(0, 1, 1), second, flow(1, 0, 1), flow(0, 1, 1)}));
  EXPECT_EQ(r.driver.streams().size(), 3U);
  EXPECT_EQ(r.driver.stream_of(0), r.driver.stream_of(3));
  EXPECT_NE(r.driver.stream_of(0), r.driver.stream_of(1));
  EXPECT_EQ(r.driver.streams()[r.driver.stream_of(0)].flows, 2U);
  EXPECT_EQ(r.driver.initial(), (Ids{0, 1, 2, 3}));
}

TEST(FlowDriver, dependency_at_the_sender) {
  Flow next = flow(1, 2, 1);
  next.dep = 0;
  Rig r(workload(4, {flow(0, 1, 5000), next}));
  EXPECT_EQ(r.driver.initial(), (Ids{0}));
  r.start(0, 7);
  r.place(0);
  r.take(1);
  EXPECT_TRUE(r.ready.empty());  // whole at the receiver, but not acknowledged
  EXPECT_EQ(r.driver.results()[0].receiver_done, 2);
  r.sent(0);
  EXPECT_EQ(r.ready, (Ids{1}));
  EXPECT_EQ(r.driver.results()[0].start, 7);
  EXPECT_EQ(r.driver.results()[0].sender_done, 2);
  EXPECT_EQ(r.driver.violation(), "");
}

TEST(FlowDriver, dependency_at_the_receiver_takes_an_immediate) {
  Flow next = flow(1, 2, 1), last = flow(2, 3, 1);
  next.dep = 0;
  last.dep = 0;
  last.dep2 = 1;
  next.dep_at_receiver = last.dep_at_receiver = true;
  Rig r(workload(4, {flow(0, 1, 5000), next, last}));
  EXPECT_EQ(r.driver.streams()[r.driver.stream_of(0)].with_immediate, 1U);
  EXPECT_EQ(r.driver.streams()[r.driver.stream_of(2)].with_immediate, 0U);
  r.start(0);
  r.place(0);
  r.received(0, 0);
  EXPECT_EQ(r.ready, (Ids{1}));
  r.sent(0);
  EXPECT_TRUE(r.ready.empty());
  r.start(1);
  r.place(1);
  r.received(1, 0);
  EXPECT_EQ(r.ready, (Ids{2}));  // both of its dependencies
  EXPECT_EQ(r.driver.violation(), "");
}

TEST(FlowDriver, window_opens_with_any_completion_of_its_list) {
  Workload w = workload(4, {flow(0, 1, 1), flow(0, 2, 1), flow(0, 3, 1), flow(0, 1, 1)});
  w.window = 2;
  w.window_lists = 1;
  for (Flow& f : w.flows) f.window_list = 0;
  Rig r(w);
  EXPECT_EQ(r.driver.initial(), (Ids{0, 1}));
  for (const std::uint32_t f : {0U, 1U}) r.start(f);
  EXPECT_EQ(r.driver.running(), 2U);
  r.place(1);
  r.sent(1);
  EXPECT_EQ(r.ready, (Ids{2}));
  r.start(2);
  r.place(0);
  r.sent(0);
  EXPECT_EQ(r.ready, (Ids{3}));
  r.start(3);
  for (const std::uint32_t f : {2U, 3U}) {
    r.place(f);
    r.sent(f);
    EXPECT_TRUE(r.ready.empty());
  }
  EXPECT_TRUE(r.driver.finished());
  EXPECT_EQ(r.driver.violation(), "");
}

TEST(FlowDriver, order_at_the_sender) {
  Rig r(workload(4, {flow(0, 1, 1), flow(0, 1, 1)}));
  r.start(0);
  r.start(1);
  r.place(0);
  r.place(1);
  r.sent(1);
  EXPECT_EQ(r.driver.violation(), "flow 2: requests of a stream complete out of order");
}

TEST(FlowDriver, order_at_the_receiver) {
  Flow third = flow(1, 2, 1);
  third.dep = 0;
  third.dep2 = 1;
  third.dep_at_receiver = true;
  Rig r(workload(4, {flow(0, 1, 1), flow(0, 1, 1), third}));
  r.start(0);
  r.start(1);
  r.place(0);
  r.place(1);
  r.received(1, 1);
  EXPECT_EQ(r.driver.violation(), "flow 2: receives of a stream complete out of order");
}

TEST(FlowDriver, completion_before_the_last_byte) {
  Rig r(workload(4, {flow(0, 1, 1)}));
  r.start(0);
  r.sent(0);
  EXPECT_EQ(r.driver.violation(), "flow 1: complete before its last byte was placed");
}

TEST(FlowDriver, a_completion_twice) {
  Rig r(workload(4, {flow(0, 1, 1), flow(0, 1, 1)}));
  r.start(0);
  r.start(1);
  r.place(0);
  r.sent(0);
  r.sent(0);
  EXPECT_NE(r.driver.violation(), "");
}

TEST(FlowDriver, errors_are_counted_and_start_nothing) {
  Flow next = flow(1, 2, 1);
  next.dep = 0;
  Rig r(workload(4, {flow(0, 1, 1), next}));
  r.start(0);
  r.sent(0, WorkStatus::kRetryExceeded);
  EXPECT_EQ(r.driver.failed(), 1U);
  EXPECT_TRUE(r.ready.empty());
  EXPECT_FALSE(r.driver.finished());
}

}  // namespace
}  // namespace metaroce::sim
