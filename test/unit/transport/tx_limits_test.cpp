// Every pool and queue at its smallest: slower, counted, and finished all the same.
#include "support/workload.h"

namespace metaroce::test {
namespace {

struct Tight {
  const char* name;
  std::function<void(WorldOptions&)> shrink;
};

const Tight kTight[] = {
    {"queues of one",
     [](WorldOptions& o) {
       o.queues = QueueSizes{1, 1, 64, 1, 1};
     }},
    {"queues of two",
     [](WorldOptions& o) {
       o.queues = QueueSizes{2, 2, 64, 2, 2};
     }},
    {"one block", [](WorldOptions& o) { o.limits.blocks = 1; }},
    {"two blocks", [](WorldOptions& o) { o.limits.blocks = 2; }},
    {"one resend node", [](WorldOptions& o) { o.limits.resend_nodes = 1; }},
    {"three resend nodes", [](WorldOptions& o) { o.limits.resend_nodes = 3; }},
    {"one work request", [](WorldOptions& o) { o.limits.work_requests = 1; }},
    {"depth one", [](WorldOptions& o) { o.send_depth = o.recv_depth = 1; }},
    {"window of 64", [](WorldOptions& o) { o.config.spn_window = 64; }},
    {"two packets in flight per path",
     [](WorldOptions& o) {
       o.config.max_window = 2 * 1024 * 4;
       o.config.initial_window = 1;
     }},
    {"all of it",
     [](WorldOptions& o) {
       o.queues = QueueSizes{1, 1, 64, 1, 1};
       o.limits = TxLimits{1, 1, 1};
       o.send_depth = o.recv_depth = 1;
       o.config.spn_window = 64;
     }},
};

// [MR-10.2.1] [MR-6.5.6]
TEST(Limits, smallest_pools_and_queues_finish_under_loss) {
  for (const Tight& t : kTight) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      SCOPED_TRACE(t.name);
      WorldOptions o;
      o.seed = seed;
      o.streams = 2;
      o.paths = 4;
      t.shrink(o);
      World w(o);
      w.check_invariants = true;
      w.ab.faults.loss_ppm = w.ba.faults.loss_ppm = seed % 3 == 0 ? 0 : 20000;
      w.ab.faults.path_skew = seed % 2 * kMicrosecond;
      Workload load(w, 40);
      ASSERT_TRUE(load.run(5 * kSecond)) << w.replay();
      load.check();
      w.run_for(100 * kMillisecond);
      EXPECT_TRUE(w.a.tx.quiet()) << w.replay();
    }
  }
}

}  // namespace
}  // namespace metaroce::test
