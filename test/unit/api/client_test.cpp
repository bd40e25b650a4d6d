// The client library against the real server: attach, memory, queues, streams, work, statistics.
#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>

#include "api/client/context.h"
#include "server_fixture.h"

namespace metaroce {
namespace {

class Client : public ServerFixture {
 protected:
  void SetUp() override {
    ServerFixture::SetUp();
    start_thread();
  }
};

TEST_F(Client, attach__picks_host) {
  metaroce_context* l = attach();
  metaroce_context* r = attach("right");
  ASSERT_TRUE(l && r);
  EXPECT_EQ(l->groups.size(), 2U);  // fake
  EXPECT_EQ(r->groups.size(), 1U);  // other
  EXPECT_EQ(metaroce_alive(l), 1);
  EXPECT_EQ(metaroce_progress(l), 0);
  const metaroce_attach_attr bad{path.c_str(), "middle", nullptr, 1000};
  metaroce_context* c = nullptr;
  EXPECT_EQ(metaroce_attach(&bad, &c), -ENOENT);
  EXPECT_NE(std::string(metaroce_error()).find("left, right"), std::string::npos);
  metaroce_detach(l);
  metaroce_detach(r);
  metaroce_detach(nullptr);
  EXPECT_TRUE(wait_until([&] { return at_base() && other.objects() == 0; }));
}

TEST_F(Client, memory__shared_and_counted) {
  metaroce_context* c = attach();
  metaroce_memory m{};
  ASSERT_EQ(metaroce_memory_alloc(c, 10000, METAROCE_ACCESS_REMOTE_WRITE, &m), 0);
  EXPECT_EQ(m.length, 10000U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(m.addr) % 4096, 0U);
  EXPECT_NE(m.lkey, 0U);
  EXPECT_EQ(m.lkey, m.rkey);
  for (std::size_t i = 0; i < m.length; ++i) ASSERT_EQ(static_cast<char*>(m.addr)[i], 0);
  EXPECT_TRUE(wait_until([&] { return server->counts().regions == 1; }));
  metaroce_memory elsewhere = m;
  elsewhere.addr = &m;
  EXPECT_EQ(metaroce_memory_free(c, &elsewhere), -EINVAL);
  EXPECT_EQ(metaroce_memory_free(c, &m), 0);
  EXPECT_EQ(metaroce_memory_free(c, &m), -EINVAL);
  EXPECT_EQ(metaroce_memory_alloc(c, 0, 0, &m), -EINVAL);
  EXPECT_EQ(metaroce_memory_alloc(c, 4096, 0x100, &m), -EINVAL);
  EXPECT_EQ(server->counts().regions, 0U);
  metaroce_detach(c);
}

TEST_F(Client, stream__send_write_and_private_data) {
  JoinedPair p;
  p.join(attach(), attach());
  if (HasFatalFailure()) return;
  char text[16] = {};
  EXPECT_EQ(metaroce_stream_private_data(p.sb, text, sizeof text), 5);
  EXPECT_STREQ(text, "hello");
  EXPECT_EQ(metaroce_stream_private_data(p.sa, text, 3), 7);
  metaroce_memory ma{}, mb{};
  ASSERT_EQ(metaroce_memory_alloc(p.a, 8192, METAROCE_ACCESS_LOCAL_WRITE, &ma), 0);
  ASSERT_EQ(metaroce_memory_alloc(p.b, 8192, METAROCE_ACCESS_REMOTE_WRITE, &mb), 0);
  std::strcpy(static_cast<char*>(ma.addr), "payload");

  metaroce_wr recv = request(0, mb, 100, 11);
  ASSERT_EQ(metaroce_post_recv(p.sb, &recv, 1), 1);
  metaroce_wr send = request(METAROCE_SEND_IMM, ma, 8, 22);
  send.imm = 0xabcd1234;
  ASSERT_EQ(metaroce_post(p.sa, &send, 1), 1);
  const auto wa = poll_for(p.cq_a, 1), wb = poll_for(p.cq_b, 1);
  ASSERT_EQ(wa.size(), 1U);
  ASSERT_EQ(wb.size(), 1U);
  EXPECT_EQ(wa[0].wr_id, 22U);
  EXPECT_EQ(wa[0].user, &p.user_a);
  EXPECT_EQ(wa[0].status, METAROCE_SUCCESS);
  EXPECT_EQ(wa[0].op, METAROCE_SEND_IMM);
  EXPECT_EQ(wb[0].wr_id, 11U);
  EXPECT_EQ(wb[0].user, &p.user_b);
  EXPECT_EQ(wb[0].op, METAROCE_RECV);
  EXPECT_EQ(wb[0].byte_len, 8U);
  EXPECT_EQ(wb[0].flags, METAROCE_WC_IMM);
  EXPECT_EQ(wb[0].imm, 0xabcd1234U);
  EXPECT_STREQ(static_cast<char*>(mb.addr), "payload");

  metaroce_wr write = request(METAROCE_WRITE, ma, 8, 33);
  write.remote_addr = reinterpret_cast<std::uintptr_t>(mb.addr) + 4096;
  write.rkey = mb.rkey;
  ASSERT_EQ(metaroce_post(p.sa, &write, 1), 1);
  ASSERT_EQ(poll_for(p.cq_a, 1).size(), 1U);
  EXPECT_STREQ(static_cast<char*>(mb.addr) + 4096, "payload");

  EXPECT_EQ(metaroce_cq_destroy(p.cq_a), -EBUSY);
  EXPECT_EQ(metaroce_close(p.sa, 100), 0);
  metaroce_event e{};
  ASSERT_TRUE(wait_until(
      [&] { return metaroce_next_event(p.b, &e) == 0 && e.kind == METAROCE_EVENT_STREAM_CLOSED; }));
  EXPECT_EQ(e.user, &p.user_b);
  metaroce_wr late = request(METAROCE_SEND, mb, 8, 44);
  EXPECT_EQ(metaroce_post(p.sb, &late, 1), -ENOTCONN);
  EXPECT_EQ(metaroce_close(p.sb, 0), 0);
  EXPECT_EQ(metaroce_cq_destroy(p.cq_a), 0);
  EXPECT_EQ(metaroce_listener_close(p.listener), 0);
  EXPECT_EQ(metaroce_memory_free(p.a, &ma), 0);
  metaroce_detach(p.a);
  metaroce_detach(p.b);
  EXPECT_TRUE(wait_until([&] { return at_base(); }));
}

// As verbs: what is unsignaled counts until a later signaled one completes.
TEST_F(Client, post__depth_and_unsignaled) {
  JoinedPair p;
  p.join(attach(), attach(), 8);
  if (HasFatalFailure()) return;
  metaroce_memory m{};
  ASSERT_EQ(metaroce_memory_alloc(p.a, 4096, 1, &m), 0);
  metaroce_memory mb{};
  ASSERT_EQ(metaroce_memory_alloc(p.b, 4096, METAROCE_ACCESS_REMOTE_WRITE, &mb), 0);
  std::vector<metaroce_wr> w(10, request(METAROCE_WRITE, m, 8, 5, 0));
  for (auto& x : w) {
    x.remote_addr = reinterpret_cast<std::uintptr_t>(mb.addr);
    x.rkey = mb.rkey;
  }
  w[6].flags = METAROCE_WR_SIGNALED;
  w[6].wr_id = 66;
  EXPECT_EQ(metaroce_post(p.sa, w.data(), 10), 8);
  EXPECT_EQ(metaroce_post(p.sa, w.data(), 1), 0);
  const auto got = poll_for(p.cq_a, 1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].wr_id, 66U);
  EXPECT_EQ(metaroce_post(p.sa, w.data(), 10), 7);  // the last of the first batch still counts
  metaroce_wr bad = w[0];
  const auto more = poll_for(p.cq_a, 1);
  ASSERT_EQ(more.size(), 1U);
  bad.op = METAROCE_RECV;
  EXPECT_EQ(metaroce_post(p.sa, &bad, 1), -EINVAL);
  bad.op = METAROCE_WRITE;
  bad.length = 0x80000001U;
  EXPECT_EQ(metaroce_post(p.sa, &bad, 1), -EINVAL);
  EXPECT_EQ(metaroce_post(p.sa, nullptr, 1), -EINVAL);
  EXPECT_EQ(metaroce_post(p.sa, nullptr, 0), 0);
  metaroce_detach(p.a);
  metaroce_detach(p.b);
}

// PT-02: more completions than one poll takes, then arm and wait.
TEST_F(Client, arm__queue_that_holds_completions_fires) {
  JoinedPair p;
  p.join(attach(), attach(), 32);
  if (HasFatalFailure()) return;
  metaroce_memory m{}, mb{};
  ASSERT_EQ(metaroce_memory_alloc(p.a, 4096, 1, &m), 0);
  ASSERT_EQ(metaroce_memory_alloc(p.b, 4096, 1, &mb), 0);
  const int fd = metaroce_cq_fd(p.cq_b);
  const auto readable = [&](int ms) {
    pollfd f{fd, POLLIN, 0};
    return ::poll(&f, 1, ms) == 1;
  };
  const auto clear = [&] {
    std::uint64_t v = 0;
    return ::read(fd, &v, sizeof v);
  };
  std::vector<metaroce_wr> recvs(17, request(0, mb, 64, 1)),
      sends(17, request(METAROCE_SEND, m, 8, 2));
  ASSERT_EQ(metaroce_post_recv(p.sb, recvs.data(), 17), 17);
  ASSERT_EQ(metaroce_post(p.sa, sends.data(), 17), 17);
  ASSERT_EQ(poll_for(p.cq_a, 17).size(), 17U);  // all are in cq_b now
  metaroce_wc wc[16];
  ASSERT_EQ(metaroce_poll(p.cq_b, 16, wc), 16);
  EXPECT_FALSE(readable(0));  // never armed
  ASSERT_EQ(metaroce_cq_arm(p.cq_b), 0);
  EXPECT_TRUE(readable(10000));
  EXPECT_EQ(clear(), 8);
  EXPECT_FALSE(readable(0));
  ASSERT_EQ(metaroce_poll(p.cq_b, 16, wc), 1);
  // Armed and empty: silent until the next completion; one wake-up for several.
  ASSERT_EQ(metaroce_cq_arm(p.cq_b), 0);
  EXPECT_FALSE(readable(20));
  ASSERT_EQ(metaroce_post_recv(p.sb, recvs.data(), 3), 3);
  ASSERT_EQ(metaroce_post(p.sa, sends.data(), 3), 3);
  EXPECT_TRUE(readable(10000));
  ASSERT_EQ(poll_for(p.cq_b, 3).size(), 3U);
  // The unread wake-up of before does not survive the next arm.
  ASSERT_EQ(metaroce_cq_arm(p.cq_b), 0);
  EXPECT_FALSE(readable(20));
  metaroce_detach(p.a);
  metaroce_detach(p.b);
}

TEST_F(Client, connect__refused_and_timeouts) {
  metaroce_context* c = attach();
  metaroce_cq* cq = nullptr;
  ASSERT_EQ(metaroce_cq_create(c, 1, &cq), 0);
  metaroce_stream_attr at{};
  at.send_cq = at.recv_cq = cq;
  metaroce_stream* s = nullptr;
  EXPECT_EQ(metaroce_connect(c, "10.0.0.2", 9, &at, 1000, &s), -ECONNREFUSED);
  EXPECT_EQ(metaroce_connect(c, "localhost", 9, &at, 1000, &s), -EINVAL);
  EXPECT_NE(std::string(metaroce_error()).find("localhost"), std::string::npos);
  EXPECT_EQ(metaroce_connect(c, "10.0.0.2", 0, &at, 1000, &s), -EINVAL);
  metaroce_listener *l = nullptr, *l2 = nullptr;
  ASSERT_EQ(metaroce_listen(c, 9, &l), 0);
  EXPECT_EQ(metaroce_listen(c, 9, &l2), -EADDRINUSE);
  EXPECT_EQ(metaroce_accept(l, &at, 0, &s), -ETIMEDOUT);
  EXPECT_EQ(metaroce_accept(l, &at, 20, &s), -ETIMEDOUT);
  // Nobody accepts; then what is left is stale, and accept() must not give it out.
  EXPECT_EQ(metaroce_connect(c, "10.0.0.2", 9, &at, 30, &s), -ETIMEDOUT);
  EXPECT_EQ(metaroce_accept(l, &at, 20, &s), -ETIMEDOUT);
  EXPECT_EQ(metaroce_alive(c), 1);
  EXPECT_EQ(metaroce_listener_close(l), 0);
  metaroce_detach(c);
}

TEST_F(Client, stats__paged) {
  JoinedPair p;
  p.join(attach(), attach());
  if (HasFatalFailure()) return;
  metaroce_conn_stats cs{};
  ASSERT_EQ(metaroce_get_conn_stats(p.sa, &cs), 0);
  EXPECT_STREQ(cs.peer, "10.0.0.2");
  EXPECT_EQ(cs.paths, 40U);
  EXPECT_EQ(cs.tx_packets, 77U);
  metaroce_path_stats ps[50] = {};
  EXPECT_EQ(metaroce_get_path_stats(p.sa, ps, 50), 40);
  EXPECT_EQ(ps[39].path, 39);
  EXPECT_EQ(ps[39].tx_packets, 1039U);
  EXPECT_EQ(ps[40].tx_packets, 0U);
  EXPECT_EQ(metaroce_get_path_stats(p.sa, ps, 3), 40);
  EXPECT_EQ(metaroce_move_path(p.sa, 7, 50007), 0);
  EXPECT_EQ(metaroce_move_path(p.sa, 40, 0), -ENOENT);
  metaroce_detach(p.a);
  metaroce_detach(p.b);
}

TEST_F(Client, memory__cannot_be_shrunk) {
  metaroce_context* c = attach();
  // As a hostile client: ask for memory by hand and try to take it away again.
  abi::Request r = c->request(abi::RequestKind::kAlloc);
  r.length = 8192;
  Incoming in;
  ASSERT_EQ(c->call(r, kSecond, in), 0);
  ASSERT_TRUE(in.fds[0]);
  EXPECT_NE(ftruncate(in.fds[0].get(), 0), 0);
  EXPECT_NE(fcntl(in.fds[0].get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_EQ(fcntl(in.fds[0].get(), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  metaroce_detach(c);
}

TEST(WorkQueue, matches_by_ordinal) {
  WorkQueue q(3);
  EXPECT_EQ(q.room(), 3U);
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(q.add({7, 0}), i);
  EXPECT_EQ(q.room(), 0U);
  WorkQueue::Entry e{};
  EXPECT_FALSE(q.complete(3, e));
  EXPECT_TRUE(q.complete(1, e));
  EXPECT_EQ(q.outstanding(), 1U);
  EXPECT_FALSE(q.complete(1, e));  // twice
  EXPECT_FALSE(q.complete(UINT64_MAX, e));
  EXPECT_TRUE(q.take_first(e));
  EXPECT_FALSE(q.take_first(e));
}

}  // namespace
}  // namespace metaroce
