// A real SessionServer on a socket in a directory of its own, pumped by a thread or by the test.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "api/client/backend.h"
#include "api/server/session_server.h"
#include "fake_control.h"
#include "metaroce/metaroce.h"

namespace metaroce {

class ServerFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/metaroce-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    dir_ = name;
    options.path = path = dir_ + "/d.sock";
  }
  void TearDown() override {
    stop_thread();
    server.reset();
    std::filesystem::remove_all(dir_);
  }
  void start() {
    std::string error;
    server = SessionServer::create(options, {{"left", &fake}, {"right", &other}}, error);
    ASSERT_TRUE(server) << error;
  }
  void start_thread() {
    start();
    running_ = true;
    thread_ = std::thread([this] {
      while (running_) {
        {
          const std::lock_guard lock(guard);
          pass();
        }
        pollfd p{server->poll_fd(), POLLIN, 0};
        ::poll(&p, 1, 0);
        std::this_thread::yield();
      }
    });
  }
  void stop_thread() {
    running_ = false;
    if (thread_.joinable()) thread_.join();
  }
  void pass() {
    server->poll(monotonic_now());
    fake.pump(monotonic_now());
    other.pump(monotonic_now());
  }
  // Pumps until `f` holds, 20 s at most.
  template <typename F>
  bool pump_until(F f) {
    const Nanos end = monotonic_now() + 20 * kSecond;
    while (!f()) {
      if (monotonic_now() > end) return false;
      pass();
    }
    return true;
  }
  // The same with the thread running.
  template <typename F>
  bool wait_until(F f) {
    const Nanos end = monotonic_now() + 20 * kSecond;
    for (;;) {
      {
        const std::lock_guard lock(guard);
        if (f()) return true;
      }
      if (monotonic_now() > end) return false;
      std::this_thread::yield();
    }
  }
  bool at_base() { return server->counts() == SessionCounts{} && fake.objects() == 0; }
  metaroce_context* attach(const char* host = nullptr) {
    const metaroce_attach_attr a{path.c_str(), host, nullptr, 10000};
    metaroce_context* c = nullptr;
    EXPECT_EQ(metaroce_attach(&a, &c), 0) << metaroce_error();
    return c;
  }
  static std::size_t open_files() {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
    return n;
  }

  ServerOptions options;
  std::string path;
  FakeControl fake, other{1};
  std::unique_ptr<SessionServer> server;
  std::mutex guard;  // fake and server while the thread runs

 private:
  std::string dir_;
  std::thread thread_;
  std::atomic<bool> running_ = false;
};

// Two contexts with a stream between them.
struct JoinedPair {
  metaroce_context *a = nullptr, *b = nullptr;
  metaroce_cq *cq_a = nullptr, *cq_b = nullptr;
  metaroce_listener* listener = nullptr;
  metaroce_stream *sa = nullptr, *sb = nullptr;
  int user_a = 0, user_b = 0;

  void join(metaroce_context* x, metaroce_context* y, std::uint32_t depth = 16,
            std::uint32_t service = 7) {
    a = x;
    b = y;
    ASSERT_EQ(metaroce_cq_create(a, 64, &cq_a), 0) << metaroce_error();
    ASSERT_EQ(metaroce_cq_create(b, 64, &cq_b), 0) << metaroce_error();
    ASSERT_EQ(metaroce_listen(b, service, &listener), 0) << metaroce_error();
    metaroce_stream_attr at{};
    at.send_cq = at.recv_cq = cq_a;
    at.send_depth = at.recv_depth = depth;
    at.private_data = "hello";
    at.private_data_len = 5;
    at.user = &user_a;
    metaroce_stream_attr bt = at;
    bt.send_cq = bt.recv_cq = cq_b;
    bt.private_data = "welcome";
    bt.private_data_len = 7;
    bt.user = &user_b;
    int rc = -1;
    std::string why;
    std::thread acceptor([&] {
      rc = metaroce_accept(listener, &bt, 10000, &sb);
      if (rc != 0) why = metaroce_error();
    });
    const int c = metaroce_connect(a, "10.0.0.2", service, &at, 10000, &sa);
    EXPECT_EQ(c, 0) << metaroce_error();
    acceptor.join();
    ASSERT_EQ(rc, 0) << why;
    ASSERT_EQ(c, 0);
  }
};

// Polls until `n` completions are there, 20 s at most.
inline std::vector<metaroce_wc> poll_for(metaroce_cq* cq, std::size_t n) {
  std::vector<metaroce_wc> all;
  const Nanos end = monotonic_now() + 20 * kSecond;
  while (all.size() < n && monotonic_now() < end) {
    metaroce_wc wc[8];
    const int got = metaroce_poll(cq, 8, wc);
    if (got < 0) break;
    all.insert(all.end(), wc, wc + got);
    if (got == 0) std::this_thread::yield();
  }
  return all;
}

inline metaroce_wr request(std::uint8_t op, const metaroce_memory& m, std::uint32_t length,
                           std::uint64_t id, std::uint8_t flags = METAROCE_WR_SIGNALED) {
  metaroce_wr w{};
  w.wr_id = id;
  w.local = m.addr;
  w.lkey = m.lkey;
  w.length = length;
  w.op = op;
  w.flags = flags;
  return w;
}

}  // namespace metaroce
