// One program, one embedded dataplane, two of its hosts over an emulated fabric that loses packets:
// data arrives whole over every plane, and the process ends cleanly.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "metaroce/metaroce.h"

namespace {

constexpr int kPatienceMs = 60'000, kPlanes = 4;
constexpr std::uint32_t kService = 77, kBytes = 4U << 20;

std::string write_config(const std::string& stem) {
  std::string text = "eal: {memory: no_huge, memory_size: 384MiB, file_prefix: mr-" +
                     std::to_string(getpid()) + "}\ncontrol: {socket: " + stem +
                     ".sock}\nfabric: {planes: 4, host_rate: 10Gb/s, host_propagation: 5us, "
                     "nic_queue_packets: 64, queue: 1MiB, loss: 1%}\nhosts:\n";
  for (const auto& [name, number] : {std::pair{"a", 1}, std::pair{"b", 2}}) {
    text += std::string("  - name: ") + name + "\n    ports:\n";
    for (int p = 0; p < kPlanes; ++p)
      text += "      - {kind: fabric, plane: " + std::to_string(p) + ", address: 10.0." +
              std::to_string(p) + "." + std::to_string(number) + "/24}\n";
  }
  const std::string path = stem + ".yaml";
  std::ofstream(path) << text;
  return path;
}

struct End {
  metaroce_context* ctx = nullptr;
  metaroce_cq* cq = nullptr;
  metaroce_memory memory{};
  metaroce_stream* stream = nullptr;

  void attach(const std::string& config, const char* host) {
    metaroce_attach_attr a{};
    a.host = host;
    a.config_file = config.c_str();
    ASSERT_EQ(metaroce_attach(&a, &ctx), 0) << metaroce_error();
    ASSERT_EQ(metaroce_cq_create(ctx, 256, &cq), 0) << metaroce_error();
    ASSERT_EQ(metaroce_memory_alloc(
                  ctx, kBytes, METAROCE_ACCESS_LOCAL_WRITE | METAROCE_ACCESS_REMOTE_WRITE, &memory),
              0)
        << metaroce_error();
  }
  [[nodiscard]] metaroce_stream_attr stream_attr() const {
    metaroce_stream_attr s{};
    s.send_cq = s.recv_cq = cq;
    return s;
  }
};

TEST(EmbeddedFabric, two_hosts_of_one_process_exchange_data) {
  char folder[] = "/tmp/mr-embedded-fabric-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string stem = std::string(folder) + "/f", config = write_config(stem);
  End a, b;
  a.attach(config, "a");
  b.attach(config, "b");
  ASSERT_FALSE(HasFatalFailure());
  metaroce_listener* listener = nullptr;
  ASSERT_EQ(metaroce_listen(b.ctx, kService, &listener), 0) << metaroce_error();
  std::thread accepting([&] {
    const metaroce_stream_attr s = b.stream_attr();
    EXPECT_EQ(metaroce_accept(listener, &s, kPatienceMs, &b.stream), 0) << metaroce_error();
  });
  const metaroce_stream_attr s = a.stream_attr();
  EXPECT_EQ(metaroce_connect(a.ctx, "10.0.0.2", kService, &s, kPatienceMs, &a.stream), 0)
      << metaroce_error();
  accepting.join();
  ASSERT_FALSE(HasFailure());

  auto* from = static_cast<std::uint8_t*>(a.memory.addr);
  for (std::uint32_t i = 0; i < kBytes; ++i)
    from[i] = static_cast<std::uint8_t>(i * 131 + (i >> 8) * 7 + (i >> 16));
  metaroce_wr w{};
  w.local = from;
  w.lkey = a.memory.lkey;
  w.length = kBytes;
  w.remote_addr = reinterpret_cast<std::uint64_t>(b.memory.addr);
  w.rkey = b.memory.rkey;
  w.op = METAROCE_WRITE;
  w.flags = METAROCE_WR_SIGNALED;
  ASSERT_EQ(metaroce_post(a.stream, &w, 1), 1) << metaroce_error();
  metaroce_wc done{};
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  int n = 0;
  while ((n = metaroce_poll(a.cq, 1, &done)) == 0 && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  ASSERT_EQ(n, 1);
  EXPECT_EQ(done.status, METAROCE_SUCCESS) << metaroce_status_str(done.status);
  EXPECT_EQ(std::memcmp(b.memory.addr, from, kBytes), 0);

  std::vector<metaroce_path_stats> paths(256);
  const int count = metaroce_get_path_stats(a.stream, paths.data(), 256);
  ASSERT_GT(count, 0) << metaroce_error();
  std::set<int> planes;
  std::uint64_t resent = 0;
  for (int i = 0; i < count; ++i) {
    if (paths[i].tx_packets != 0) planes.insert(paths[i].plane);
    resent += paths[i].rtx_packets;
  }
  EXPECT_EQ(planes.size(), std::size_t{kPlanes});
  EXPECT_GT(resent, 0U);  // of 1,024 packets 10 are expected to be lost
  metaroce_close(a.stream, kPatienceMs);
  metaroce_detach(a.ctx);
  metaroce_detach(b.ctx);
  for (const char* end : {".yaml", ".sock.fabric", ".sock.fabric.lock"})
    unlink((stem + end).c_str());
  rmdir(folder);
}

}  // namespace
