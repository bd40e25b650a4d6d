#include <cstring>

#include "drivers/registry.h"
#include "eal_environment.h"

namespace {

// A memif port that echoes; ends by being killed, or after 30 seconds.
int memif_peer(bool server, const char* socket) {
  using namespace metaroce;
  EalConfig eal;
  eal.memory = MemoryMode::kNoHuge;
  eal.memory_mb = 64;
  PortConfig c;
  c.kind = PortKind::kMemif;
  c.name = "child";
  c.device = socket;
  c.memif_server = server;
  c.rx_descriptors = c.tx_descriptors = 128;
  std::unique_ptr<Port> p;
  if (!init_eal(eal).ok() || !open_port(c, p).ok() || !p->start().ok()) return 1;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < limit) {
    attend(*p);
    if (!p->running()) continue;
    rte_mbuf* m[8];
    const std::uint16_t n = rte_eth_rx_burst(p->id(), 0, m, 8);
    const std::uint16_t sent = n == 0 ? 0 : rte_eth_tx_burst(p->id(), 0, m, n);
    rte_pktmbuf_free_bulk(m + sent, n - sent);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--memif-server") == 0) return memif_peer(true, argv[2]);
  if (argc == 3 && std::strcmp(argv[1], "--memif-client") == 0) return memif_peer(false, argv[2]);
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new metaroce::EalEnvironment);
  return RUN_ALL_TESTS();
}
