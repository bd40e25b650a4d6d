// The daemon ends, orderly or not: every client learns it, in bounded time (DM-04).
#include <signal.h>
#include <sys/wait.h>

#include "server_fixture.h"

namespace metaroce {
namespace {

class DaemonDeath : public ServerFixture {
 protected:
  // A daemon of its own process, so that it can be killed.
  void fork_daemon() {
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ != 0) return;
    start();
    fake.hold_work = true;
    for (;;) pass();
  }
  void kill_daemon(int signal) {
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
  }
  void TearDown() override {
    if (pid_ > 0) kill(pid_, SIGKILL);
    ServerFixture::TearDown();
  }
  pid_t pid_ = -1;
};

void post_some(JoinedPair& p) {
  metaroce_memory m{};
  ASSERT_EQ(metaroce_memory_alloc(p.a, 4096, 1, &m), 0);
  metaroce_wr w[3] = {request(METAROCE_WRITE, m, 8, 1), request(METAROCE_WRITE, m, 8, 2, 0),
                      request(METAROCE_SEND, m, 8, 3)};
  ASSERT_EQ(metaroce_post(p.sa, w, 3), 3);
  metaroce_wr r[2] = {request(0, m, 8, 4), request(0, m, 8, 5)};
  ASSERT_EQ(metaroce_post_recv(p.sa, r, 2), 2);
}

void expect_flushed(JoinedPair& p) {
  const auto wc = poll_for(p.cq_a, 5);
  ASSERT_EQ(wc.size(), 5U);
  for (std::uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(wc[i].wr_id, i + 1);
    EXPECT_EQ(wc[i].status, METAROCE_FLUSHED);
    EXPECT_EQ(wc[i].user, &p.user_a);
    EXPECT_EQ(wc[i].op, i == 2 ? METAROCE_SEND : i > 2 ? METAROCE_RECV : METAROCE_WRITE);
  }
  metaroce_wc more;
  EXPECT_EQ(metaroce_poll(p.cq_a, 1, &more), 0);
  EXPECT_EQ(metaroce_alive(p.a), 0);
  metaroce_event e{};
  EXPECT_EQ(metaroce_next_event(p.a, &e), 0);
  EXPECT_EQ(e.kind, METAROCE_EVENT_DATAPLANE_GONE);
  EXPECT_EQ(metaroce_next_event(p.a, &e), 0);
  EXPECT_EQ(e.kind, METAROCE_EVENT_NONE);
  // Every call ends at once and says why.
  metaroce_stream* s = nullptr;
  metaroce_stream_attr at{};
  at.send_cq = at.recv_cq = p.cq_a;
  EXPECT_EQ(metaroce_connect(p.a, "10.0.0.2", 1, &at, 60000, &s), -ECONNRESET);
  EXPECT_NE(std::string(metaroce_error()).find("attach again"), std::string::npos);
  EXPECT_EQ(metaroce_cq_arm(p.cq_a), -ECONNRESET);
  metaroce_memory m{};
  EXPECT_EQ(metaroce_memory_alloc(p.a, 4096, 0, &m), -ECONNRESET);
  metaroce_wr w{};
  EXPECT_EQ(metaroce_post(p.sa, &w, 1), -ECONNRESET);
  EXPECT_EQ(metaroce_close(p.sa, 60000), -ECONNRESET);
}

TEST_F(DaemonDeath, killed__work_is_flushed_and_sleepers_wake) {
  fork_daemon();
  JoinedPair p;
  p.join(attach(), attach());
  if (HasFatalFailure()) return;
  post_some(p);
  ASSERT_EQ(metaroce_cq_arm(p.cq_a), 0);
  pollfd f{metaroce_cq_fd(p.cq_a), POLLIN, 0};
  EXPECT_EQ(::poll(&f, 1, 0), 0);
  kill_daemon(SIGKILL);
  f.revents = 0;
  EXPECT_EQ(::poll(&f, 1, 10000), 1);  // hang-up
  expect_flushed(p);
  metaroce_detach(p.a);
  metaroce_detach(p.b);
  // Attach again to the next daemon, on the socket that the dead one left behind.
  fork_daemon();
  metaroce_context* c = attach();
  ASSERT_TRUE(c);
  EXPECT_EQ(metaroce_alive(c), 1);
  metaroce_detach(c);
}

TEST_F(DaemonDeath, stopped__orderly) {
  start_thread();
  fake.hold_work = true;
  JoinedPair p;
  p.join(attach(), attach());
  if (HasFatalFailure()) return;
  post_some(p);
  {
    const std::lock_guard lock(guard);
    server->stop();
  }
  EXPECT_TRUE(wait_until([&] { return server->idle() && at_base(); }));
  expect_flushed(p);
  metaroce_detach(p.a);
  metaroce_detach(p.b);
}

TEST_F(DaemonDeath, killed__blocked_calls_return) {
  fork_daemon();
  metaroce_context *a = attach(), *b = attach();
  ASSERT_TRUE(a && b);
  metaroce_cq* cq[2] = {};
  ASSERT_EQ(metaroce_cq_create(a, 4, &cq[0]), 0);
  ASSERT_EQ(metaroce_cq_create(b, 4, &cq[1]), 0);
  metaroce_listener *l = nullptr, *idle = nullptr;
  ASSERT_EQ(metaroce_listen(b, 5, &l), 0);
  ASSERT_EQ(metaroce_listen(a, 6, &idle), 0);
  int accept_rc = 0, connect_rc = 0;
  const auto attr = [&](int i) {
    metaroce_stream_attr at{};
    at.send_cq = at.recv_cq = cq[i];
    return at;
  };
  std::thread accepter([&] {
    const auto at = attr(0);
    metaroce_stream* s = nullptr;
    accept_rc = metaroce_accept(idle, &at, 60000, &s);
  });
  std::thread connecter([&] {
    const auto at = attr(1);
    metaroce_stream* s = nullptr;
    connect_rc = metaroce_connect(b, "10.0.0.2", 5, &at, 60000, &s);  // nobody accepts
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kill_daemon(SIGKILL);
  accepter.join();
  connecter.join();
  EXPECT_EQ(accept_rc, -ECONNRESET);
  EXPECT_EQ(connect_rc, -ECONNRESET);
  metaroce_detach(a);
  metaroce_detach(b);
}

TEST_F(DaemonDeath, early_attach__waits_for_the_daemon) {
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    start_thread();
  });
  metaroce_context* c = attach();
  late.join();
  EXPECT_TRUE(c);
  metaroce_detach(c);
  metaroce_attach_attr a{"/nonexistent/d.sock", nullptr, nullptr, 10};
  EXPECT_EQ(metaroce_attach(&a, &c), -ENOENT);
  EXPECT_NE(std::string(metaroce_error()).find("start metaroced"), std::string::npos);
  a.config_file = "x.yaml";
  EXPECT_EQ(metaroce_attach(&a, &c), -EINVAL);
}

}  // namespace
}  // namespace metaroce
