// The reference for latency: a 64-byte frame to and fro over a memif pair, nothing else. Server:
// echoes until SIGTERM. Client: counts round trips and prints half of them as JSON.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "dataplane/clock.h"
#include "dataplane/eal.h"
#include "drivers/registry.h"

namespace metaroce {
namespace {

volatile std::sig_atomic_t g_stop = 0;

constexpr Nanos kLimit = 30 * kSecond;

struct Options {
  std::string socket = "raw-ping", memory = "no_huge";
  bool server = false;
  unsigned count = 100000;
};

int fail(const std::string& why) {
  fmt::print(stderr, "raw_ping: {}\n", why);
  return 1;
}

bool wait_for_peer(Port& port, const Clock& clock) {
  const Nanos end = clock.now() + kLimit;
  while (g_stop == 0 && clock.now() < end) {
    if (port.needs_reconnect()) {
      [[maybe_unused]] const Status s = port.reconnect();
    }
    if (port.running() && port.link().up) return true;
  }
  return false;
}

int serve(Port& port, const Clock& clock) {
  if (!wait_for_peer(port, clock)) return fail("no client within 30 s");
  while (g_stop == 0) {
    rte_mbuf* m[32];
    const std::uint16_t n = rte_eth_rx_burst(port.id(), 0, m, 32);
    if (n == 0) continue;
    const std::uint16_t sent = rte_eth_tx_burst(port.id(), 0, m, n);
    rte_pktmbuf_free_bulk(m + sent, static_cast<unsigned>(n - sent));
  }
  return 0;
}

int ping(Port& port, const Clock& clock, unsigned count) {
  if (!wait_for_peer(port, clock)) return fail("no server within 30 s");
  std::vector<Nanos> rtt;
  rtt.reserve(count);
  rte_mbuf* in[32];
  for (unsigned i = 0; i < count && g_stop == 0; ++i) {
    rte_mbuf* out = rte_pktmbuf_alloc(port.pools(0).small);
    if (out == nullptr) return fail("no mbuf");
    rte_pktmbuf_append(out, 64);
    const Nanos start = clock.now();
    if (rte_eth_tx_burst(port.id(), 0, &out, 1) != 1) {
      rte_pktmbuf_free(out);
      continue;
    }
    std::uint16_t n = 0;
    Nanos now = start;
    while (n == 0 && g_stop == 0 && (now = clock.now()) - start < kSecond)
      n = rte_eth_rx_burst(port.id(), 0, in, 32);
    if (n == 0) return fail("no answer within 1 s");
    rte_pktmbuf_free_bulk(in, n);
    rtt.push_back(now - start);
  }
  if (rtt.empty()) return fail("no round trips");
  std::sort(rtt.begin(), rtt.end());
  fmt::print("{{\"half_rtt_us\": {{\"min\": {:.3f}, \"p50\": {:.3f}}}, \"count\": {}}}\n",
             static_cast<double>(rtt.front()) / 2000,
             static_cast<double>(rtt[rtt.size() / 2]) / 2000, rtt.size());
  return 0;
}

int run(const Options& o) {
  EalConfig e;
  e.program = "raw_ping";
  e.memory = o.memory == "no_huge" ? MemoryMode::kNoHuge : MemoryMode::kInMemory;
  Status s = init_eal(e);
  if (!s.ok()) return fail(s.message);
  PortConfig c;
  c.name = "ping";
  c.kind = PortKind::kMemif;
  c.device = o.socket;
  c.memif_server = o.server;
  std::unique_ptr<Port> port;
  s = open_port(c, port);
  if (s.ok()) s = port->start();
  if (!s.ok()) return fail(s.message);
  const Clock clock;
  return o.server ? serve(*port, clock) : ping(*port, clock, o.count);
}

}  // namespace
}  // namespace metaroce

int main(int argc, char** argv) {
  metaroce::Options o;
  CLI::App app{"Raw 64-byte ping over memif, the reference for latency."};
  app.add_flag("--server", o.server, "Echo until SIGTERM");
  app.add_option("--socket", o.socket, "memif socket name");
  app.add_option("--memory", o.memory, "no_huge or in_memory")
      ->check(CLI::IsMember({"no_huge", "in_memory"}));
  app.add_option("--count", o.count, "Round trips")->check(CLI::Range(1U, 10000000U));
  CLI11_PARSE(app, argc, argv);
  for (const int sig : {SIGINT, SIGTERM}) std::signal(sig, [](int) { metaroce::g_stop = 1; });
  return metaroce::run(o);
}
