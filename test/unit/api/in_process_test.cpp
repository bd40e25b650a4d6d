// The same client library over a dataplane in this process.
#include "api/client/in_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "api/client/context.h"
#include "fake_control.h"

namespace metaroce {
namespace {

class InProcess : public ::testing::Test {
 protected:
  InProcess() {
    InProcessOptions o;
    o.progress = [this] {
      fake.pump(monotonic_now());
      return 0;
    };
    o.allocate = [this](std::size_t n) {
      ++allocated;
      void* p = std::aligned_alloc(4096, n);
      std::memset(p, 0, n);
      return p;
    };
    o.release = [this](void* p, std::size_t) {
      --allocated;
      std::free(p);
    };
    host = std::make_unique<InProcessHost>("h", fake, o);
  }
  std::unique_ptr<metaroce_context> attach() {
    std::string why;
    auto c = std::make_unique<metaroce_context>(host->open(why));
    EXPECT_EQ(c->attach(nullptr, monotonic_now() + kSecond), 0) << metaroce_error();
    return c;
  }
  FakeControl fake;
  int allocated = 0;
  std::unique_ptr<InProcessHost> host;
};

TEST_F(InProcess, stream_within_one_context) {
  {
    auto c = attach();
    metaroce_cq* cq = nullptr;
    ASSERT_EQ(metaroce_cq_create(c.get(), 8, &cq), 0) << metaroce_error();
    metaroce_memory m{};
    ASSERT_EQ(metaroce_memory_alloc(c.get(), 5000, METAROCE_ACCESS_REMOTE_WRITE, &m), 0);
    EXPECT_EQ(allocated, 1);  // rings come from ordinary memory
    EXPECT_EQ(host->counts().regions, 1U);
    metaroce_listener* l = nullptr;
    ASSERT_EQ(metaroce_listen(c.get(), 3, &l), 0);
    auto d = attach();
    metaroce_cq* cq2 = nullptr;
    ASSERT_EQ(metaroce_cq_create(d.get(), 8, &cq2), 0);
    // One thread cannot wait on both sides, so the request times out and accept() passes over it.
    metaroce_stream_attr at{};
    at.send_cq = at.recv_cq = cq2;
    metaroce_stream* s = nullptr;
    EXPECT_EQ(metaroce_connect(d.get(), "fd00::1", 3, &at, 5, &s), -ETIMEDOUT);
    at.send_cq = at.recv_cq = cq;
    EXPECT_EQ(metaroce_accept(l, &at, 5, &s), -ETIMEDOUT);
    EXPECT_EQ(metaroce_alive(c.get()), 1);
    EXPECT_EQ(metaroce_cq_arm(cq), 0);
    pollfd f{metaroce_cq_fd(cq), POLLIN, 0};
    EXPECT_EQ(::poll(&f, 1, 0), 0);
  }
  EXPECT_EQ(host->counts(), SessionCounts{});
  EXPECT_EQ(fake.objects(), 0U);
  EXPECT_EQ(allocated, 0);
}

TEST_F(InProcess, work_moves_by_polling) {
  auto a = attach(), b = attach();
  metaroce_cq *qa = nullptr, *qb = nullptr;
  ASSERT_EQ(metaroce_cq_create(a.get(), 8, &qa), 0);
  ASSERT_EQ(metaroce_cq_create(b.get(), 8, &qb), 0);
  metaroce_listener* l = nullptr;
  ASSERT_EQ(metaroce_listen(b.get(), 3, &l), 0);
  metaroce_stream *sa = nullptr, *sb = nullptr;
  int rc = -1;
  std::thread acceptor([&] {  // two contexts, two threads, one dataplane
    metaroce_stream_attr at{};
    at.send_cq = at.recv_cq = qb;
    rc = metaroce_accept(l, &at, 10000, &sb);
  });
  metaroce_stream_attr at{};
  at.send_cq = at.recv_cq = qa;
  EXPECT_EQ(metaroce_connect(a.get(), "10.0.0.1", 3, &at, 10000, &sa), 0) << metaroce_error();
  acceptor.join();
  ASSERT_EQ(rc, 0);
  metaroce_memory ma{}, mb{};
  ASSERT_EQ(metaroce_memory_alloc(a.get(), 64, 1, &ma), 0);
  ASSERT_EQ(metaroce_memory_alloc(b.get(), 64, METAROCE_ACCESS_REMOTE_WRITE, &mb), 0);
  *static_cast<char*>(ma.addr) = 'x';
  metaroce_wr w{};
  w.local = ma.addr;
  w.lkey = ma.lkey;
  w.length = 1;
  w.remote_addr = reinterpret_cast<std::uintptr_t>(mb.addr);
  w.rkey = mb.rkey;
  w.flags = METAROCE_WR_SIGNALED;
  ASSERT_EQ(metaroce_cq_arm(qa), 0);
  ASSERT_EQ(metaroce_post(sa, &w, 1), 1);
  ASSERT_EQ(metaroce_progress(a.get()), 0);
  pollfd f{metaroce_cq_fd(qa), POLLIN, 0};
  EXPECT_EQ(::poll(&f, 1, 0), 1);
  metaroce_wc wc{};
  ASSERT_EQ(metaroce_poll(qa, 1, &wc), 1);
  EXPECT_EQ(wc.status, METAROCE_SUCCESS);
  EXPECT_EQ(*static_cast<char*>(mb.addr), 'x');
  EXPECT_EQ(metaroce_close(sa, 0), 0);
  EXPECT_EQ(metaroce_close(sb, 0), 0);
}

TEST_F(InProcess, limit_of_clients) {
  std::string why;
  std::vector<std::unique_ptr<Backend>> all;
  for (int i = 0; i < 256; ++i) {
    all.push_back(host->open(why));
    ASSERT_TRUE(all.back());
  }
  EXPECT_FALSE(host->open(why));
  EXPECT_NE(why.find("limit"), std::string::npos);
}

}  // namespace
}  // namespace metaroce
