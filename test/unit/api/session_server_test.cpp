// The daemon's side against clients that die, overreach, talk nonsense or do not read.
#include "api/server/session_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <array>
#include <cstring>

#include "base/rng.h"
#include "raw_client.h"
#include "server_fixture.h"

namespace metaroce {
namespace {

using Kind = abi::RequestKind;

class Server : public ServerFixture {
 protected:
  // A raw, attached client.
  struct Raw {
    std::unique_ptr<SocketBackend> link;
    Incoming in;
    UniqueFd block;
  };
  Raw raw() {
    Raw r;
    UniqueFd fd = raw_connect(path);
    EXPECT_TRUE(fd);
    r.link = std::make_unique<SocketBackend>(std::move(fd));
    ask(r, raw_request(Kind::kAttach));
    EXPECT_EQ(status(r), ControlStatus::kOk);
    r.block = std::move(r.in.fds[0]);
    return r;
  }
  void ask(Raw& r, const abi::Request& q) {
    r.in = {};
    ASSERT_TRUE(r.link->send(q, kSecond));
    ASSERT_TRUE(pump_until([&] { return r.link->receive(r.in) || r.link->gone(); }));
    ASSERT_FALSE(r.link->gone());
  }
  static ControlStatus status(const Raw& r) { return static_cast<ControlStatus>(r.in.head.status); }
  std::uint32_t make_cq(Raw& r, std::uint32_t depth = 16) {
    auto q = raw_request(Kind::kCreateCq);
    q.depth = depth;
    ask(r, q);
    return status(r) == ControlStatus::kOk ? r.in.head.id : 0;
  }
};

TEST_F(Server, socket__mode_and_second_daemon) {
  options.mode = 0600;
  start();
  struct stat st {};
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_TRUE(S_ISSOCK(st.st_mode));
  EXPECT_EQ(st.st_mode & 07777, 0600U);
  std::string error;
  ServerOptions second = options;
  EXPECT_FALSE(SessionServer::create(second, {{"h", &fake}}, error));
  EXPECT_NE(error.find("another daemon serves"), std::string::npos) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos);
  ListenSocket claim;
  EXPECT_FALSE(claim.claim(path, error));
  EXPECT_TRUE(raw_connect(path));  // the first one still serves
}

TEST_F(Server, socket__claimed_before_it_is_opened) {
  std::string error;
  ListenSocket door, late;
  ASSERT_TRUE(door.claim(path, error)) << error;
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(late.claim(path, error));
  EXPECT_NE(error.find("another daemon serves"), std::string::npos) << error;
  server = SessionServer::create(options, {{"h", &fake}}, error, std::move(door));
  ASSERT_TRUE(server) << error;
  EXPECT_TRUE(raw_connect(path));
  EXPECT_FALSE(late.claim(path, error));
}

TEST_F(Server, socket__stale_file_is_replaced_foreign_file_is_not) {
  {
    // As a killed daemon leaves it: a socket file that nobody listens on.
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    std::memcpy(a.sun_path, path.data(), path.size());
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a), 0);
  }
  start();
  EXPECT_TRUE(raw_connect(path));
  server.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  UniqueFd file(::open(path.c_str(), O_CREAT | O_WRONLY, 0600));
  std::string error;
  EXPECT_FALSE(SessionServer::create(options, {{"h", &fake}}, error));
  EXPECT_NE(error.find("is no socket"), std::string::npos) << error;
  options.path = std::string(200, 'x');
  EXPECT_FALSE(SessionServer::create(options, {{"h", &fake}}, error));
  options.path = path + "2";
  options.group = "no-such-group";
  EXPECT_FALSE(SessionServer::create(options, {{"h", &fake}}, error));
  EXPECT_NE(error.find("no-such-group"), std::string::npos);
}

TEST_F(Server, attach__version_name_and_silence) {
  options.limits.attach_timeout = kSecond;
  start();
  Raw r;
  r.link = std::make_unique<SocketBackend>(raw_connect(path));
  auto q = raw_request(Kind::kAttach);
  q.version = 9;
  ask(r, q);
  EXPECT_EQ(status(r), ControlStatus::kIncompatible);
  EXPECT_NE(std::string(r.in.head.text.data()).find("version 9"), std::string::npos);
  ASSERT_TRUE(pump_until([&] {
    r.link->receive(r.in);
    return r.link->gone();
  }));
  // Connected, but never attaches: let go when its time is over.
  SocketBackend silent(raw_connect(path));
  Nanos now = monotonic_now();
  server->poll(now);
  now += 2 * kSecond;
  server->poll(now);
  Incoming in;
  silent.receive(in);
  EXPECT_TRUE(silent.gone());
  EXPECT_EQ(server->counters().refused_attach, 2U);
}

TEST_F(Server, limits__each_is_refused_by_name) {
  options.limits.clients = 2;
  options.limits.memory_bytes = 8 << 20;
  options.limits.regions = 2;
  options.limits.cqs = 2;
  options.limits.cq_depth = 64;
  options.limits.streams = 1;
  options.limits.listeners = 1;
  start();
  Raw a = raw(), b = raw();
  SocketBackend third(raw_connect(path));
  Incoming in;
  EXPECT_TRUE(pump_until([&] {
    third.receive(in);
    return third.gone();
  }));
  EXPECT_EQ(server->counters().refused_clients, 1U);
  auto q = raw_request(Kind::kAlloc);
  q.length = 64 << 20;
  ask(a, q);
  EXPECT_EQ(status(a), ControlStatus::kLimit);
  q.length = UINT64_MAX;
  ask(a, q);
  EXPECT_EQ(status(a), ControlStatus::kLimit);
  q.length = 4096;
  for (const auto want : {ControlStatus::kOk, ControlStatus::kOk, ControlStatus::kLimit}) {
    ask(a, q);
    EXPECT_EQ(status(a), want);
  }
  EXPECT_EQ(make_cq(a, 65), 0U);
  EXPECT_EQ(make_cq(a, 0), 0U);
  const std::uint32_t cq = make_cq(a);
  EXPECT_NE(cq, 0U);
  EXPECT_NE(make_cq(a), 0U);
  EXPECT_EQ(make_cq(a), 0U);
  q = raw_request(Kind::kListen);
  q.service = 5;
  ask(b, q);
  EXPECT_EQ(status(b), ControlStatus::kOk);
  q.service = 6;
  ask(b, q);
  EXPECT_EQ(status(b), ControlStatus::kLimit);
  // The second stream of one client.
  q = raw_request(Kind::kConnect);
  q.service = 5;
  q.timeout_ns = 10 * kSecond;
  q.stream.send_cq = q.stream.recv_cq = cq;
  q.stream.send_depth = q.stream.recv_depth = 1;
  ASSERT_TRUE(a.link->send(q, kSecond));
  q.token = 2;
  ask(a, q);
  EXPECT_EQ(a.in.head.token, 2U);
  EXPECT_EQ(status(a), ControlStatus::kLimit);
}

// SEC-08: nothing of another client can be named.
TEST_F(Server, foreign_ids_are_refused) {
  start();
  Raw a = raw(), b = raw();
  const std::uint32_t cq_a = make_cq(a);
  make_cq(b);
  make_cq(b);
  auto q = raw_request(Kind::kAlloc);
  q.length = 4096;
  ask(a, q);
  const std::uint32_t mem_a = a.in.head.id;
  q = raw_request(Kind::kRegister);
  q.id = mem_a + 5;
  q.va = 4096;
  ask(b, q);
  EXPECT_EQ(status(b), ControlStatus::kNoSuchObject);
  q.id = mem_a;
  q.va = UINT64_MAX - 100;
  ask(a, q);
  EXPECT_EQ(status(a), ControlStatus::kInvalid);
  q.va = 4096;
  ask(a, q);
  EXPECT_EQ(status(a), ControlStatus::kOk);
  ask(a, q);
  EXPECT_EQ(status(a), ControlStatus::kInUse);
  q = raw_request(Kind::kListen);
  q.service = 5;
  ask(a, q);
  q = raw_request(Kind::kUnlisten);
  q.service = 5;
  ask(b, q);
  EXPECT_EQ(status(b), ControlStatus::kNoSuchObject);
  // A connection request and a stream of a.
  q = raw_request(Kind::kConnect, 9);
  q.service = 5;
  q.timeout_ns = 10 * kSecond;
  q.stream.send_cq = q.stream.recv_cq = cq_a;
  q.stream.send_depth = q.stream.recv_depth = 1;
  ask(a, q);  // the event comes first
  ASSERT_EQ(a.in.head.kind, static_cast<std::uint16_t>(abi::MessageKind::kConnectRequest));
  q = raw_request(Kind::kAccept);
  q.request = a.in.head.request;
  q.stream.send_cq = q.stream.recv_cq = 1;
  q.stream.send_depth = q.stream.recv_depth = 1;
  ask(b, q);
  EXPECT_EQ(status(b), ControlStatus::kNoSuchObject);
  q.stream.send_cq = q.stream.recv_cq = cq_a;
  ask(a, q);
  ASSERT_EQ(status(a), ControlStatus::kOk);
  const auto handles = fake.stream_handles();
  ASSERT_EQ(handles.size(), 2U);
  for (const Kind k : {Kind::kClose, Kind::kStats}) {
    q = raw_request(k);
    q.id = handles[0];
    ask(b, q);
    EXPECT_EQ(status(b), ControlStatus::kNoSuchObject);
  }
  EXPECT_EQ(fake.stream_handles().size(), 2U);
  // Only own queues can be destroyed: a's number is another queue, or none, of b's.
  const auto cqs = server->counts().cqs;
  q = raw_request(Kind::kDestroyCq);
  q.id = 77;
  ask(b, q);
  EXPECT_EQ(status(b), ControlStatus::kNoSuchObject);
  EXPECT_EQ(server->counts().cqs, cqs);
}

TEST_F(Server, backlog__bounded_and_freed_by_answers) {
  options.limits.backlog = 2;
  start();
  Raw a = raw();
  const std::uint32_t cq = make_cq(a);
  auto q = raw_request(Kind::kListen);
  q.service = 5;
  ask(a, q);
  q = raw_request(Kind::kConnect);
  q.service = 5;
  q.timeout_ns = 60 * kSecond;
  q.stream.send_cq = q.stream.recv_cq = cq;
  q.stream.send_depth = q.stream.recv_depth = 1;
  unsigned shown = 0, refused = 0;
  std::uint64_t last = 0;
  for (q.token = 10; q.token < 14; ++q.token) {
    ask(a, q);
    if (a.in.head.token == 0) {
      ++shown;
      last = a.in.head.request;
    } else if (status(a) == ControlStatus::kRefused)
      ++refused;
  }
  EXPECT_EQ(shown, 2U);
  EXPECT_EQ(refused, 2U);
  q = raw_request(Kind::kReject);
  q.request = last;
  ask(a, q);  // the connect of that request ends
  EXPECT_EQ(status(a), ControlStatus::kRefused);
  EXPECT_EQ(server->counts().requests, 1U);
  q = raw_request(Kind::kUnlisten);
  q.service = 5;
  ASSERT_TRUE(a.link->send(q, kSecond));
  EXPECT_TRUE(
      pump_until([&] { return server->counts().requests == 0 && server->counts().streams == 0; }));
}

TEST_F(Server, client_that_does_not_read__is_cut_off) {
  options.limits.queued_messages = 8;
  options.limits.backlog = 100000;
  start();
  Raw lazy = raw(), busy = raw();
  auto q = raw_request(Kind::kListen);
  q.service = 5;
  ask(lazy, q);
  const std::uint32_t cq = make_cq(busy);
  q = raw_request(Kind::kConnect);
  q.service = 5;
  q.stream.send_cq = q.stream.recv_cq = cq;
  q.stream.send_depth = q.stream.recv_depth = 1;
  q.timeout_ns = 0;
  for (int i = 0; i < 2000 && server->counters().cut_slow == 0; ++i) ask(busy, q);
  EXPECT_EQ(server->counters().cut_slow, 1U);
  EXPECT_EQ(server->counts().sessions, 1U);
}

// Asks and asks and never reads an answer: is not served, which costs the daemon nothing.
TEST_F(Server, client_that_only_asks__is_held_back) {
  start();
  Raw a = raw();
  auto q = raw_request(Kind::kCreateCq);
  q.depth = 0;
  unsigned sent = 0;
  for (int i = 0; i < 20000; ++i) {
    if (a.link->send(q, 0)) ++sent;
    server->poll(monotonic_now());
  }
  EXPECT_LT(sent, 20000U);
  EXPECT_EQ(server->counters().cut_slow, 0U);
  Raw b = raw();  // others are served
  EXPECT_NE(make_cq(b), 0U);
}

TEST_F(Server, fuzz__garbage_on_the_socket) {
  start();
  Rng rng(20240607);
  const std::size_t files = open_files();
  for (int round = 0; round < 150; ++round) {
    UniqueFd fd = raw_connect(path);
    ASSERT_TRUE(fd);
    if (rng.below(8) != 0) {
      const auto q = raw_request(Kind::kAttach);
      ::send(fd.get(), &q, sizeof q, MSG_NOSIGNAL);
    }
    for (int i = 0; i < 40; ++i) {
      std::array<std::uint8_t, 700> buf;
      for (auto& x : buf)
        x = static_cast<std::uint8_t>(rng.next() & (rng.below(2) != 0 ? 0xff : 3));
      std::size_t n = rng.below(700);
      if (rng.below(16) != 0) {
        // Well framed, wild inside.
        auto q = raw_request(static_cast<Kind>(1 + rng.below(15)), rng.below(3));
        const std::size_t skip = 16;
        std::memcpy(buf.data(), &q, rng.below(4) != 0 ? skip : 8);
        if (rng.below(2) != 0) std::memset(buf.data() + skip, 0, 8);
        n = sizeof q;
      }
      iovec iov{buf.data(), n};
      msghdr m{};
      m.msg_iov = &iov;
      m.msg_iovlen = 1;
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
      if (rng.below(4) == 0) {  // descriptors for the daemon: must not stay there
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        cmsghdr* c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        const int f = fd.get();
        std::memcpy(CMSG_DATA(c), &f, sizeof f);
      }
      ::sendmsg(fd.get(), &m, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (rng.below(4) == 0) pass();
      std::array<char, 4096> drain;
      while (rng.below(2) != 0 && ::recv(fd.get(), drain.data(), drain.size(), MSG_DONTWAIT) > 0) {
      }
    }
    pass();
  }
  EXPECT_TRUE(pump_until([&] { return at_base() && server->idle(); }));
  EXPECT_EQ(open_files(), files);
  EXPECT_GT(server->counters().cut_protocol, 20U);
  raw();  // still serves
}

TEST_F(Server, hostile_rings__corrupt_cursors_and_unknown_streams) {
  start();
  Raw a = raw();
  const std::uint32_t cap = a.in.head.capacity;
  std::string why;
  a.in.fds[0] = std::move(a.block);
  std::byte* block = a.link->map(a.in, why);
  ASSERT_TRUE(block) << why;
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    const auto lane = static_cast<abi::Lane>(rng.below(2));
    const auto p = abi::ring_at<WorkRequest>(block, cap, rng.below(2), lane);
    for (unsigned k = 0; k < sizeof(WorkRequest) / 8; ++k)
      reinterpret_cast<std::uint64_t*>(p.slots + rng.below(cap))[k] = rng.next();
    const auto v = static_cast<std::uint32_t>(rng.next());
    (rng.below(4) != 0 ? p.header->head : p.header->tail) =
        rng.below(2) != 0 ? v : p.header->tail + rng.below(64);
    std::memset(block, static_cast<int>(rng.below(256)), abi::kHeaderBytes);
    pass();
  }
  EXPECT_GT(fake.corrupt_rings, 0U);
  // Neither memory was touched nor another client disturbed.
  Raw b = raw();
  EXPECT_NE(make_cq(b), 0U);
  a.link->unmap(block, a.in.head.length);
  a.link.reset();
  EXPECT_TRUE(pump_until([&] { return server->counts().sessions == 1; }));
}

// The wake-up pipe cannot be used against a worker: it never blocks and never raises SIGPIPE.
TEST_F(Server, hostile_wake__never_blocks_the_writer) {
  start();
  Raw a = raw();
  const std::uint32_t cq = make_cq(a);
  UniqueFd wake = std::move(a.in.fds[1]);
  ASSERT_TRUE(wake);
  fcntl(wake.get(), F_SETFL, 0);
  auto q = raw_request(Kind::kKickCq, 0);
  q.id = cq;
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(a.link->send(q, kSecond));
    pass();
  }
  wake.reset();
  ASSERT_TRUE(a.link->send(q, kSecond));
  EXPECT_NE(make_cq(a), 0U);
}

TEST_F(Server, remove_client__memory_stays_until_its_event) {
  start();
  fake.hold_remove = true;
  Raw a = raw();
  auto q = raw_request(Kind::kAlloc);
  q.length = 1 << 20;
  ask(a, q);
  a.link.reset();
  for (int i = 0; i < 100; ++i) pass();
  EXPECT_EQ(server->counts().sessions, 1U);
  EXPECT_EQ(server->counts().regions, 1U);
  fake.release_held();
  EXPECT_TRUE(pump_until([&] { return server->idle(); }));
  EXPECT_EQ(server->counts(), SessionCounts{});
}

TEST_F(Server, descriptors_exhausted__no_spin_and_recovery) {
  start();
  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  UniqueFd one = raw_connect(path), two = raw_connect(path);
  const rlimit low{256, old.rlim_max};
  setrlimit(RLIMIT_NOFILE, &low);
  std::vector<UniqueFd> fill;
  while (fill.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC))) {
  }
  for (int i = 0; i < 4; ++i) server->poll(monotonic_now());
  setrlimit(RLIMIT_NOFILE, &old);
  fill.clear();
  EXPECT_EQ(server->counters().no_descriptor, 2U);
  pollfd p{server->poll_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 0), 0);
  raw();
}

// What a client does until it is killed.
[[noreturn]] void busy_client(const std::string& path, std::uint32_t service) {
  close_range(3, ~0U, 0);
  const metaroce_attach_attr a{path.c_str(), nullptr, nullptr, 10000};
  for (;;) {
    metaroce_context* c = nullptr;
    if (metaroce_attach(&a, &c) != 0) continue;
    metaroce_cq* cq = nullptr;
    metaroce_memory m{};
    metaroce_listener* l = nullptr;
    metaroce_stream* s = nullptr;
    metaroce_cq_create(c, 16, &cq);
    metaroce_memory_alloc(c, 1 << 16, METAROCE_ACCESS_REMOTE_WRITE, &m);
    if (cq != nullptr) {
      metaroce_stream_attr at{};
      at.send_cq = at.recv_cq = cq;
      metaroce_listen(c, service, &l);
      metaroce_connect(c, "10.0.0.2", service + 1, &at, 1, &s);
      if (s == nullptr && l != nullptr) metaroce_accept(l, &at, 1, &s);
      if (s != nullptr) {
        metaroce_wr w = request(METAROCE_WRITE, m, 64, 1);
        for (int i = 0; i < 100; ++i) metaroce_post(s, &w, 1);
        metaroce_wc wc;
        metaroce_poll(cq, 1, &wc);
        metaroce_close(s, 1);
      }
    }
    if (m.addr != nullptr) metaroce_memory_free(c, &m);
    metaroce_detach(c);
  }
}

TEST_F(Server, killed_clients__everything_returns_to_base) {
  start();
  Rng rng(77);
  const std::size_t files = open_files();
  const std::uint64_t attached = server->counters().attached;
  for (int round = 0; round < 50; ++round) {
    std::array<pid_t, 2> pids;
    for (std::uint32_t i = 0; i < 2; ++i) {
      pids[i] = fork();
      ASSERT_GE(pids[i], 0);
      if (pids[i] == 0) busy_client(path, 10 + i);
    }
    const Nanos end = monotonic_now() + static_cast<Nanos>(rng.below(20000)) * kMicrosecond;
    while (monotonic_now() < end) pass();
    for (const pid_t p : pids) kill(p, SIGKILL);
    for (const pid_t p : pids) waitpid(p, nullptr, 0);
  }
  EXPECT_TRUE(pump_until([&] { return at_base() && server->idle(); }));
  EXPECT_EQ(open_files(), files);
  EXPECT_GT(server->counters().attached, attached + 20);
}

}  // namespace
}  // namespace metaroce
