// Files close to good ones: each either loads, and then prints to a file that loads the same, or is
// refused in one printable line. Replay: the seed and the step are in the failure's trace.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/rng.h"
#include "config_text.h"

namespace metaroce::config {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : rng_(seed) {}

  std::string mutate(std::string text) {
    const std::uint32_t changes = 1 + rng_.below(4);
    for (std::uint32_t i = 0; i < changes; ++i) change(text);
    return text;
  }
  std::uint32_t below(std::uint32_t n) { return rng_.below(n); }

 private:
  void change(std::string& text) {
    static const std::vector<std::string> tokens = {
        ": ",          "- ",       "[",
        "]",           "{",        "}",
        "\n",          "  ",       "null",
        "~",           "&a ",      "*a",
        "!!str ",      "#",        "\"",
        "'",           "---\n",    "...\n",
        "|",           ">",        "0",
        "-1",          "4096",     "1e9",
        "true",        "hosts",    "ports",
        "\t",          "? ",       ",",
        "\xff",        "\xc3\xa9", "99999999999999999999",
        "%YAML 1.2\n", "<<: ",     std::string(1, '\0')};
    const std::size_t at = position(text);
    switch (rng_.below(6)) {
      case 0:
        text.insert(at, tokens[rng_.below(static_cast<std::uint32_t>(tokens.size()))]);
        break;
      case 1:
        text.erase(at, 1 + rng_.below(8));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(rng_.below(256));
        break;
      case 3: {  // a line twice, elsewhere
        const std::string line = line_at(text, at);
        text.insert(line_start(text, position(text)), line);
        break;
      }
      case 4:
        text.erase(line_start(text, at), line_at(text, at).size());
        break;
      default:
        text.resize(at);
        break;
    }
  }
  std::size_t position(const std::string& text) {
    return rng_.below(static_cast<std::uint32_t>(text.size()) + 1);
  }
  static std::size_t line_start(const std::string& text, std::size_t at) {
    if (at == 0) return 0;
    const auto found = text.rfind('\n', at - 1);
    return found == std::string::npos ? 0 : found + 1;
  }
  static std::string line_at(const std::string& text, std::size_t at) {
    const std::size_t start = line_start(text, at), end = text.find('\n', start);
    return text.substr(start, end == std::string::npos ? end : end + 1 - start);
  }

  Rng rng_;
};

TEST(Mutation, loads_or_is_refused_in_one_line) {
  constexpr std::uint64_t kSeed = 20240521;
  constexpr int kSteps = 10000;
  std::vector<std::string> seeds;
  for (const char* name : {"one_host", "two_hosts_a", "multiplane_nics", "af_packet", "ring"})
    seeds.push_back(slurp(std::string(METAROCE_CONFIG_DIR) + "/" + name + ".yaml"));
  seeds.push_back(print_config({}));
  Mutator mutator(kSeed);
  int loaded = 0, refused = 0;
  for (int step = 0; step < kSteps; ++step) {
    SCOPED_TRACE(step);
    const std::string text =
        mutator.mutate(seeds[mutator.below(static_cast<std::uint32_t>(seeds.size()))]);
    const auto result = load_text("f.yaml", text, test_options());
    if (!result.ok()) {
      ++refused;
      expect_one_line(result.error());
      ASSERT_LT(result.error().size(), 2000U) << result.error();
      continue;
    }
    ++loaded;
    const std::string printed = print_config(result.value());
    const auto again = load_text("f.yaml", printed, test_options());
    ASSERT_TRUE(again.ok()) << again.error() << "\n" << printed;
    ASSERT_EQ(print_config(again.value()), printed);
  }
  // Both branches are exercised.
  EXPECT_GT(loaded, kSteps / 20);
  EXPECT_GT(refused, kSteps / 4);
}

}  // namespace
}  // namespace metaroce::config
