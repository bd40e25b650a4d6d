// Peers of memif ports that end at any moment, while other threads are inside the port's bursts.
// Without the control relay the driver unmaps its rings under them.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "base/rng.h"
#include "drivers/registry.h"
#include "memif_peer.h"

namespace metaroce {
namespace {

// A port under two pollers, one that receives and one that sends, and their owner's protocol.
class PolledPort {
 public:
  PolledPort(bool server, const std::string& socket) {
    PortConfig c;
    c.kind = PortKind::kMemif;
    c.name = server ? "ds" : "dc";
    c.device = socket;
    c.memif_server = server;
    c.rx_descriptors = c.tx_descriptors = 64;
    Status s = open_port(c, port_);
    EXPECT_TRUE(s.ok()) << s.message;
    s = port_->start();
    EXPECT_TRUE(s.ok()) << s.message;
    rx_ = std::thread([this] { poll(0); });
    tx_ = std::thread([this] { poll(1); });
  }
  ~PolledPort() {
    stop_ = true;
    rx_.join();
    tx_.join();
  }
  // As Runtime::reconnect_ports() does it.
  void attend() {
    if (!port_->needs_reconnect()) return;
    pause_ = true;
    while (!paused_[0] || !paused_[1]) sched_yield();
    metaroce::attend(*port_);
    pause_ = false;
  }
  // Attends until `done`.
  template <typename F>
  bool until(F done) {
    return wait_for([&] {
      attend();
      usleep(100);
      return done();
    });
  }
  [[nodiscard]] bool up() const { return port_->link().up; }
  [[nodiscard]] std::uint64_t received() const { return received_; }

 private:
  void poll(int who) {
    while (!stop_) {
      if (pause_) {
        paused_[who] = true;
        while (pause_ && !stop_) sched_yield();
        paused_[who] = false;
        continue;
      }
      if (port_->running()) who == 0 ? receive() : transmit();
      sched_yield();
    }
  }
  void receive() {
    rte_mbuf* m[32];
    const std::uint16_t n = rte_eth_rx_burst(port_->id(), 0, m, 32);
    rte_pktmbuf_free_bulk(m, n);
    received_ += n;
  }
  void transmit() {
    rte_mbuf* m[32];
    std::uint16_t n = 0;
    while (n < 32 && (m[n] = rte_pktmbuf_alloc(port_->pools(0).small)) != nullptr)
      rte_pktmbuf_append(m[n++], 64);
    const std::uint16_t sent = rte_eth_tx_burst(port_->id(), 0, m, n);
    rte_pktmbuf_free_bulk(m + sent, n - sent);
  }

  std::unique_ptr<Port> port_;
  std::atomic<bool> pause_{false}, stop_{false}, paused_[2] = {false, false};
  std::atomic<std::uint64_t> received_{0};
  std::thread rx_, tx_;
};

std::string socket_name(const char* what) {
  return "mr_death_" + std::to_string(getpid()) + "_" + what;
}

// The peer is this binary again, and echoes.
pid_t start_peer(bool server, const std::string& socket) {
  const pid_t child = fork();
  if (child != 0) return child;
  execl("/proc/self/exe", "dpdk_ports_test", server ? "--memif-server" : "--memif-client",
        socket.c_str(), nullptr);
  _exit(127);
}

void kill_and_wait(pid_t child) {
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
}

void expect_survival(bool server, int kills) {
  const std::string socket = socket_name(server ? "s" : "c");
  PolledPort port(server, socket);
  Rng rng(server ? 1 : 2);
  for (int i = 0; i < kills; ++i) {
    const pid_t child = start_peer(!server, socket);
    ASSERT_GT(child, 0);
    const std::uint64_t before = port.received();
    const bool echoed = port.until([&] { return port.received() > before + 100; });
    usleep(static_cast<useconds_t>(rng.below(2000)));
    kill_and_wait(child);
    ASSERT_TRUE(echoed) << "round " << i;
    ASSERT_TRUE(port.until([&] { return !port.up(); })) << "round " << i;
  }
}

}  // namespace

TEST(MemifDeath, server__clients_are_killed) { expect_survival(true, 10); }
TEST(MemifDeath, client__servers_are_killed) { expect_survival(false, 10); }

// The same much faster: a client that is a few messages, not a process.
TEST(MemifDeath, server__clients_leave_at_once) {
  const std::string socket = socket_name("f");
  PolledPort port(true, socket);
  for (int i = 0; i < 200; ++i) {
    auto client = std::make_unique<drivers::memif::FakeClient>(socket);
    ASSERT_TRUE(client->join(0)) << "round " << i;
    if (i % 2 == 0) {
      ASSERT_TRUE(port.until([&] { return port.up(); })) << "round " << i;
    }
    client.reset();
    ASSERT_TRUE(port.until([&] { return !port.up(); })) << "round " << i;
  }
}

// The port goes in the moment in which its peer does: both want the driver to disconnect.
TEST(MemifDeath, both_ends__leave_in_the_same_moment) {
  for (int i = 0; i < 60; ++i) {
    const std::string socket = socket_name("b");
    auto port = std::make_unique<PolledPort>(true, socket);
    auto client = std::make_unique<drivers::memif::FakeClient>(socket);
    ASSERT_TRUE(client->join(0)) << "round " << i;
    ASSERT_TRUE(port->until([&] { return port->up(); })) << "round " << i;
    std::thread other([&] { client.reset(); });
    port.reset();
    other.join();
  }
}

}  // namespace metaroce
