// Runs one fuzz target without libFuzzer: the seeds, then mutations of them, the same ones in
// every run. METAROCE_FUZZ_RUNS sets their number, METAROCE_SEED another sequence,
// METAROCE_FUZZ_CORPUS a folder to write the seeds to (scripts/fuzz.sh).
//
// A property that does not hold aborts the process; the input is printed before, by the handler
// below, in a form that goes into seeds().
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/rng.h"
#include "support/seed.h"
#include "target.h"

namespace metaroce::fuzz {
namespace {

using Input = std::vector<std::uint8_t>;
constexpr std::size_t kMaxInputBytes = 4096;

const Input* g_current = nullptr;

extern "C" void print_input(int signal) {
  if (g_current != nullptr) {
    std::fprintf(stderr, "input, %zu bytes: {", g_current->size());
    for (const std::uint8_t b : *g_current) std::fprintf(stderr, "0x%02x, ", b);
    std::fprintf(stderr, "}\n");
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// On a heap copy of exactly its size, so that the address sanitizer sees one byte too many.
void run(const Input& input) {
  g_current = &input;
  const Input copy(input);  // its capacity is its size
  EXPECT_EQ(LLVMFuzzerTestOneInput(copy.data(), copy.size()), 0);
  g_current = nullptr;
}

// One of the usual mutations: bit, byte, interesting number, cut, repeat, splice with another.
void mutate(Input& v, const std::vector<Input>& all, Rng& rng) {
  const auto at = [&](std::size_t size) {
    return static_cast<std::ptrdiff_t>(rng.below(static_cast<std::uint32_t>(size) + 1));
  };
  if (v.empty()) v.push_back(0);
  const std::uint32_t i = rng.below(static_cast<std::uint32_t>(v.size()));
  switch (rng.below(7)) {
    case 0:
      v[i] ^= static_cast<std::uint8_t>(1U << rng.below(8));
      break;
    case 1:
      v[i] = static_cast<std::uint8_t>(rng.next());
      break;
    case 2: {
      constexpr std::uint32_t kNumbers[] = {0,      1,      0x7f,       0xff,
                                            0x7fff, 0xffff, 0x7fffffff, 0xffffffff};
      const std::uint32_t n = kNumbers[rng.below(8)], width = 1U << rng.below(3);
      for (std::uint32_t k = 0; k < width && i + k < v.size(); ++k)
        v[i + k] = static_cast<std::uint8_t>(n >> (8 * (width - 1 - k)));
      break;
    }
    case 3:
      v.resize(rng.below(static_cast<std::uint32_t>(v.size())));
      break;
    case 4:
      v.insert(v.begin() + at(v.size()), 1 + rng.below(16), v[i]);
      break;
    case 5:
      v.erase(v.begin() + i);
      break;
    default: {
      const Input& other = all[rng.below(static_cast<std::uint32_t>(all.size()))];
      v.resize(static_cast<std::size_t>(at(v.size())));
      v.insert(v.end(), other.begin() + at(other.size()), other.end());
    }
  }
  if (v.size() > kMaxInputBytes) v.resize(kMaxInputBytes);
}

// Seeds as files, where libFuzzer starts.
void write_corpus(const std::string& dir, const std::vector<Input>& all) {
  int n = 0;
  for (const Input& input : all) {
    std::ofstream f(dir + "/seed-" + std::to_string(n++), std::ios::binary);
    for (const std::uint8_t b : input) f.put(static_cast<char>(b));
    ASSERT_TRUE(f.good()) << dir;
  }
}

TEST(Fuzz, seeds) {
  std::signal(SIGABRT, print_input);
  std::signal(SIGSEGV, print_input);
  const auto all = seeds();
  ASSERT_FALSE(all.empty());
  if (const char* dir = std::getenv("METAROCE_FUZZ_CORPUS")) write_corpus(dir, all);
  run({});
  for (const Input& input : all) run(input);
}

TEST(Fuzz, mutations) {
  std::signal(SIGABRT, print_input);
  std::signal(SIGSEGV, print_input);
  const test::Seed seed(1);
  SCOPED_TRACE(seed.replay());
  Rng rng(seed.value());
  const char* text = std::getenv("METAROCE_FUZZ_RUNS");
  const std::uint64_t runs = text != nullptr ? std::strtoull(text, nullptr, 0) : 20000;
  const auto all = seeds();
  for (std::uint64_t n = 0; n < runs; ++n) {
    Input v = all[rng.below(static_cast<std::uint32_t>(all.size()))];
    for (std::uint32_t k = 1 + rng.below(4); k > 0; --k) mutate(v, all, rng);
    run(v);
  }
}

}  // namespace
}  // namespace metaroce::fuzz
