#include "sim/ledger.h"

#include <gtest/gtest.h>

#include "small_scenario.h"

namespace metaroce::sim {
namespace {

using Fault = Ledger::Fault;

// Pages of 4,096 bytes: flow 0 owns 0-1, flow 1 (empty) owns 2, flow 2 owns 3.
class LedgerTest : public ::testing::Test {
 protected:
  Workload w = workload(4, {flow(0, 1, 5000), flow(2, 3, 0), flow(1, 0, 4096)});
  Ledger ledger{w.flows, 4096};
  std::uint32_t of = 0;
  bool done = false;
  Fault place(std::uint16_t src, std::uint16_t dst, std::uint64_t offset, std::uint32_t n) {
    return ledger.place(10, src, dst, offset, offset, n, of, done);
  }
};

TEST_F(LedgerTest, layout) {
  EXPECT_EQ(ledger.bytes(), 4U * 4096);
  EXPECT_EQ(ledger.offset(0), 0U);
  EXPECT_EQ(ledger.offset(1), 2U * 4096);
  EXPECT_EQ(ledger.offset(2), 3U * 4096);
  EXPECT_EQ(ledger.pages(0), 2U);
  EXPECT_EQ(ledger.pages(1), 0U);
  EXPECT_EQ(ledger.left(0), 2U);
}

TEST_F(LedgerTest, done_with_the_last_byte_in_any_order) {
  EXPECT_EQ(place(0, 1, 4096, 904), Fault::kNone);
  EXPECT_FALSE(done);
  EXPECT_EQ(place(0, 1, 0, 4096), Fault::kNone);
  EXPECT_TRUE(done);
  EXPECT_EQ(of, 0U);
  EXPECT_EQ(ledger.left(0), 0U);
  EXPECT_EQ(ledger.left(2), 1U);
}

TEST_F(LedgerTest, every_fault) {
  EXPECT_EQ(place(0, 1, 4 * 4096, 4096), Fault::kOutside);
  EXPECT_EQ(place(0, 1, UINT64_MAX, 1), Fault::kOutside);
  EXPECT_EQ(place(0, 2, 0, 4096), Fault::kForeign);  // at another host
  EXPECT_EQ(place(2, 1, 0, 4096), Fault::kForeign);  // from another host
  EXPECT_EQ(place(0, 1, 3 * 4096, 4096), Fault::kForeign);
  EXPECT_EQ(ledger.place(10, 0, 1, 4096, 0, 4096, of, done), Fault::kMoved);
  EXPECT_EQ(place(0, 1, 1, 4096), Fault::kPartial);      // across a border
  EXPECT_EQ(place(0, 1, 0, 4095), Fault::kPartial);      // too short
  EXPECT_EQ(place(0, 1, 4096, 4096), Fault::kPartial);   // behind the message's end
  EXPECT_EQ(place(2, 3, 2 * 4096, 1), Fault::kPartial);  // an empty flow has no byte
  EXPECT_EQ(ledger.left(0), 2U);                         // nothing of that counted
  EXPECT_EQ(place(0, 1, 0, 4096), Fault::kNone);
  EXPECT_EQ(place(0, 1, 0, 4096), Fault::kTwice);
  EXPECT_EQ(ledger.left(0), 1U);
}

TEST_F(LedgerTest, every_fault_has_its_own_sentence) {
  std::vector<std::string> texts;
  for (unsigned i = 0; i <= static_cast<unsigned>(Fault::kTwice); ++i)
    texts.emplace_back(Ledger::text(static_cast<Fault>(i)));
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::unique(texts.begin(), texts.end()), texts.end());
  EXPECT_NE(texts.front(), "");
}

TEST_F(LedgerTest, recovery_runs_from_the_first_loss_to_the_placement) {
  ledger.lost(100, 0);
  ledger.lost(5000, 0);         // the resent one too
  ledger.lost(100, 4096);       // never placed: not in the histogram
  ledger.lost(100, 40 * 4096);  // no flow's
  EXPECT_EQ(ledger.place(10100, 0, 1, 0, 0, 4096, of, done), Fault::kNone);
  EXPECT_EQ(ledger.recovery().count(), 1U);
  EXPECT_NEAR(static_cast<double>(ledger.recovery().permille(500)), 10000, 10000.0 / 128);
  ledger.lost(20000, 0);  // a spurious copy of what is there
  EXPECT_EQ(place(0, 1, 0, 4096), Fault::kTwice);
  EXPECT_EQ(ledger.recovery().count(), 1U);
}

TEST_F(LedgerTest, resent_packets_by_flow) {
  ledger.resent(0);
  ledger.resent(4096);
  ledger.resent(3 * 4096);
  ledger.resent(99 * 4096);
  EXPECT_EQ(ledger.resent_of(0), 2U);
  EXPECT_EQ(ledger.resent_of(1), 0U);
  EXPECT_EQ(ledger.resent_of(2), 1U);
}

TEST(Ledger, pages_that_are_no_power_of_two) {
  const Workload w = workload(2, {flow(0, 1, 1500), flow(0, 1, 1501)});
  Ledger ledger(w.flows, 1500);
  std::uint32_t of = 0;
  bool done = false;
  EXPECT_EQ(ledger.place(0, 0, 1, 3000, 3000, 1, of, done), Fault::kNone);
  EXPECT_EQ(of, 1U);
  EXPECT_EQ(ledger.place(0, 0, 1, 1500, 1500, 1500, of, done), Fault::kNone);
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace metaroce::sim
