// Costs of the primitives that every packet pays for. Read medians and ratios; the machine is
// shared.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/bitmap.h"
#include "base/crc32c.h"
#include "base/ring.h"
#include "wire/packet.h"

namespace metaroce {
namespace {

void crc32c_bytes(benchmark::State& state) {
  const std::vector<std::uint8_t> v(static_cast<std::size_t>(state.range(0)), 0x5a);
  for (auto _ : state) benchmark::DoNotOptimize(crc32c(0, v.data(), v.size()));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(crc32c_bytes)->Arg(64)->Arg(1024)->Arg(4096)->Arg(8192);

// One thread, bursts: the cost without cache misses between cores.
void ring_burst(benchmark::State& state) {
  struct Entry {
    std::uint64_t words[8];
  };
  SpscRing<Entry> ring(1024);
  Entry e{};
  const auto burst = static_cast<std::uint32_t>(state.range(0));
  for (auto _ : state) {
    if (ring.producer().room(burst) < burst) state.SkipWithError("ring full");
    for (std::uint32_t i = 0; i < burst; ++i) ring.producer().stage(e);
    ring.producer().publish();
    for (std::uint32_t i = 0; i < burst; ++i) ring.pop(e);
    benchmark::DoNotOptimize(e);
  }
  state.SetItemsProcessed(state.iterations() * burst);
}
BENCHMARK(ring_burst)->Arg(1)->Arg(8)->Arg(32);

void sack_advance(benchmark::State& state) {
  SackVector v;
  for (auto _ : state) {
    v.set(200);
    v.advance(3);
    benchmark::DoNotOptimize(v.leading_ones());
  }
}
BENCHMARK(sack_advance);

void seq_window_in_order(benchmark::State& state) {
  std::vector<std::uint64_t> words(32);
  SeqWindow w{words};
  std::uint32_t seq = 0;
  for (auto _ : state) {
    w.set(seq);
    seq += w.take_run(seq);
  }
  benchmark::DoNotOptimize(seq);
}
BENCHMARK(seq_window_in_order);

void check_write_packet(benchmark::State& state) {
  std::vector<std::uint8_t> v(4096 + sizeof(wire::Write));
  v[0] = 0x11;
  v[16] = 0x01;
  for (auto _ : state)
    benchmark::DoNotOptimize(wire::check_packet(v.data(), static_cast<std::uint32_t>(v.size())));
}
BENCHMARK(check_write_packet);

}  // namespace
}  // namespace metaroce

BENCHMARK_MAIN();
