// Cost of the fabric model: a saturated permutation across the leaves of ls64(), every packet on a
// route of its own, an acknowledgment per packet. "hops" are packets put on a link.
#include <benchmark/benchmark.h>

#include "fabric/fabric.h"

namespace metaroce::fabric {
namespace {

struct Load {
  Fabric<Load>* fabric = nullptr;
  std::uint32_t entropy = 0;
  void deliver(Picos, std::uint16_t host, const Packet& p) {
    if (p.control) return;
    Packet ack;
    ack.bytes = 110;
    ack.control = true;
    ack.src = host;
    ack.dst = p.src;
    ack.entropy = p.entropy;
    fabric->send(ack);
  }
  void lost(Picos, const Packet&, Loss) {}
  void nic_ready(Picos, std::uint16_t host, std::uint8_t plane) {
    while (fabric->nic_room(host, plane)) {
      Packet p;
      p.bytes = 4182;
      p.entropy = ++entropy;
      p.src = host;
      p.dst = static_cast<std::uint16_t>((host + 8) % 64);
      p.ect = true;
      fabric->send(p);
    }
    fabric->want_room(host, plane);
  }
};

void permutation(benchmark::State& state) {
  EventQueue queue;
  Load load;
  Fabric<Load> fabric(ls64(), 1, queue, load);
  load.fabric = &fabric;
  for (std::uint16_t h = 0; h < 64; ++h) fabric.want_room(h, 0);
  Event e{};
  for (auto _ : state) {
    for (int i = 0; i < 1000 && queue.pop(e, kNever - 1); ++i) fabric.handle(e);
  }
  std::uint64_t hops = 0;
  for (std::uint32_t l = 0; l < fabric.links(); ++l) hops += fabric.counters(l).packets;
  state.counters["hops"] =
      benchmark::Counter(static_cast<double>(hops), benchmark::Counter::kIsRate);
  state.SetItemsProcessed(state.iterations() * 1000);
}
BENCHMARK(permutation);

// One event in, one out, with `range` in the queue, spread over 2 us.
void event_queue(benchmark::State& state) {
  EventQueue queue;
  Rng rng(1);
  Event e{};
  for (std::int64_t i = 0; i < state.range(0); ++i) queue.schedule(rng.below(2'000'000), 16, 0);
  for (auto _ : state) {
    queue.pop(e, kNever - 1);
    queue.schedule(e.at + rng.below(2'000'000), 16, 0);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(event_queue)->Arg(100)->Arg(10'000)->Arg(1'000'000);

}  // namespace
}  // namespace metaroce::fabric

BENCHMARK_MAIN();
