// Words of metaroce-ctl's command line as the text of a fault.
#include <gtest/gtest.h>

#include "metaroce-ctl/exchange.h"
#include "metaroce-ctl/fault_words.h"

namespace metaroce::ctl {
namespace {

std::string good(const std::vector<std::string>& words) {
  std::string out;
  EXPECT_EQ(fault_text(words, out), "");
  return out;
}

TEST(FaultWords, are_recognised_by_their_form) {
  EXPECT_EQ(good({"down", "plane", "2"}), "{kind: down, plane: 2}");
  EXPECT_EQ(good({"loss", "1%"}), "{kind: loss, probability: 1%}");
  EXPECT_EQ(good({"loss", "host3", "0.01%", "plane", "0"}),
            "{kind: loss, target: \"host3\", probability: 0.01%, plane: 0}");
  EXPECT_EQ(good({"rate", "10Gb/s", "switch0->host1"}),
            "{kind: rate, rate: 10Gb/s, target: \"switch0->host1\"}");
  EXPECT_EQ(good({"reorder", "5%", "20us"}), "{kind: reorder, probability: 5%, delay: 20us}");
  EXPECT_EQ(good({"stall", "host0", "off"}), "{kind: stall, target: \"host0\", on: false}");
  EXPECT_EQ(good({"jitter", "1ms", "keep_order=true", "traffic=all"}),
            "{kind: jitter, delay: 1ms, keep_order: true, traffic: all}");
}

TEST(FaultWords, refuses_what_says_two_things_or_would_be_other_yaml) {
  std::string out;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {""},
                                             {"down", "plane"},
                                             {"down", "host0", "host1"},
                                             {"loss", "1%", "2%"},
                                             {"loss", "1%}, {kind: down"},
                                             {"down", "host0\"}"},
                                             {"loss", "probability="},
                                             {"loss", "=1%"},
                                             {"loss", "kind=down"},
                                             {"do wn"}})
    EXPECT_NE(fault_text(words, out), "") << out;
}

TEST(Exchange, says_what_to_do_when_nobody_answers) {
  std::string answer, error;
  EXPECT_FALSE(exchange("/nonexistent/metaroced.sock.fabric", "show", 100, answer, error));
  EXPECT_NE(error.find("start metaroced"), std::string::npos) << error;
  EXPECT_FALSE(exchange(std::string(200, 'x'), "show", 100, answer, error));
  EXPECT_NE(error.find("not a socket's path"), std::string::npos) << error;
}

}  // namespace
}  // namespace metaroce::ctl
