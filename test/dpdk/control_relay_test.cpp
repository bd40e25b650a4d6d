// The relay of memif's control connections, between peers and drivers that this test plays.
#include "drivers/memif/control_relay.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <deque>

#include "base/rng.h"
#include "memif_peer.h"

namespace metaroce::drivers::memif {
namespace {

std::string name_of(const char* what) {
  return "mr_relay_" + std::to_string(getpid()) + "_" + what;
}

std::size_t open_descriptors() {
  DIR* d = opendir("/proc/self/fd");
  std::size_t n = 0;
  while (readdir(d) != nullptr) ++n;
  closedir(d);
  return n;
}

// A driver's listening socket. As EAL's interrupt thread does, it greets whoever connects.
class FakeDriver {
 public:
  FakeDriver() {
    Status s;
    socket = PrivateSocket::make(s);
    EXPECT_TRUE(s.ok()) << s.message;
    const SocketName address(socket->path());
    fd_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(bind(fd_.get(), address.get(), address.bytes()), 0);
    EXPECT_EQ(listen(fd_.get(), 1), 0);
    s = socket->adopt();
    EXPECT_TRUE(s.ok()) << s.message;
    EXPECT_NE(access(socket->path().c_str(), F_OK), 0);
    thread_ = std::thread([this] { run(); });
  }
  ~FakeDriver() {
    stop_ = true;
    thread_.join();
  }
  // The next connection.
  UniqueFd accept() {
    UniqueFd c;
    wait_for([&] {
      const std::lock_guard lock(mutex_);
      if (accepted_.empty()) return false;
      c = std::move(accepted_.front());
      accepted_.pop_front();
      return true;
    });
    return c;
  }
  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return accepted_.size();
  }

  std::shared_ptr<PrivateSocket> socket;

 private:
  void run() {
    for (; !stop_; usleep(200)) {
      UniqueFd c(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!c) continue;
      send(c.get(), hello());
      const std::lock_guard lock(mutex_);
      accepted_.push_back(std::move(c));
    }
  }

  UniqueFd fd_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::deque<UniqueFd> accepted_;
  std::thread thread_;
};

// A served port whose driver goes along with everything.
struct ServedPort {
  ServedPort(ControlRelay& r, FakeDriver& d, const std::string& name, std::uint32_t id) : relay(r) {
    const Status s = relay.serve(name, id, d.socket, link);
    EXPECT_TRUE(s.ok()) << s.message;
  }
  ~ServedPort() { EXPECT_TRUE(relay.leave(link)); }
  // The peer's next message arrives, and gets this answer.
  bool answer(MessageType expected, MessageType with) {
    return next(driver, got) && got.type() == expected && send(driver.get(), message(with));
  }
  bool answer_rest() {
    return answer(MessageType::kAddRegion, MessageType::kAck) &&
           answer(MessageType::kAddRing, MessageType::kAck) &&
           answer(MessageType::kAddRing, MessageType::kAck) &&
           answer(MessageType::kConnect, MessageType::kConnected);
  }
  bool reaches(LinkState s) {
    return wait_for([&] { return link.state() == s; });
  }

  ControlRelay& relay;
  ControlLink link{true, 1};
  UniqueFd driver;
  Message got;
};

// What join() of a FakeClient does, against the driver in the same thread.
bool join(FakeClient& c, ServedPort& p, std::uint32_t id) {
  bool ok = send(c.fd().get(), init(id)) && p.answer(MessageType::kInit, MessageType::kAck);
  Message m;
  ok = ok && next(c.fd(), m) && m.type() == MessageType::kAck;
  const auto step = [&](const Message& ask, MessageType expected, MessageType answer) {
    ok = ok && send(c.fd().get(), ask) && p.answer(expected, answer) && next(c.fd(), m) &&
         m.type() == answer;
  };
  step(c.region(), MessageType::kAddRegion, MessageType::kAck);
  ok = ok && static_cast<bool>(p.got.fd);  // the descriptor came along
  step(FakeClient::ring(true), MessageType::kAddRing, MessageType::kAck);
  step(FakeClient::ring(false), MessageType::kAddRing, MessageType::kAck);
  step(message(MessageType::kConnect), MessageType::kConnect, MessageType::kConnected);
  return ok && p.reaches(LinkState::kJoined);
}

}  // namespace

TEST(ControlRelay, server__two_ids_on_one_socket) {
  const std::string name = name_of("two");
  const auto relay = ControlRelay::instance();
  ASSERT_NE(relay, nullptr);
  FakeDriver driver_one, driver_two;
  ServedPort one(*relay, driver_one, name, 1), two(*relay, driver_two, name, 2);
  FakeClient b(name), a(name);
  // The second port's client first; a third asks for a port that is not there.
  two.driver = driver_two.accept();
  ASSERT_TRUE(b.hello() && a.hello());
  ASSERT_TRUE(join(b, two, 2));
  one.driver = driver_one.accept();
  ASSERT_TRUE(join(a, one, 1));
  FakeClient c(name);
  ASSERT_TRUE(c.hello());
  ASSERT_TRUE(send(c.fd().get(), init(3)));
  EXPECT_TRUE(closed(c.fd()));
  EXPECT_EQ(driver_one.waiting() + driver_two.waiting(), 0U);
  EXPECT_EQ(one.link.state(), LinkState::kJoined);
  EXPECT_EQ(two.link.state(), LinkState::kJoined);
}

// A client that comes before its port: several ports of one process open one after the other.
TEST(ControlRelay, server__a_port_that_is_opened_late_is_waited_for) {
  const std::string name = name_of("late");
  const auto relay = ControlRelay::instance();
  FakeDriver driver_one, driver_two;
  ServedPort one(*relay, driver_one, name, 1);
  FakeClient c(name);
  ASSERT_TRUE(c.hello() && send(c.fd().get(), init(2)));
  usleep(20000);
  ServedPort two(*relay, driver_two, name, 2);
  two.driver = driver_two.accept();
  EXPECT_TRUE(two.answer(MessageType::kInit, MessageType::kAck));
  EXPECT_EQ(two.got.init_id(), 2U);
}

TEST(ControlRelay, server__driver_learns_of_a_death_when_the_owner_says_so) {
  const std::string name = name_of("gone");
  const auto relay = ControlRelay::instance();
  FakeDriver driver;
  ServedPort port(*relay, driver, name, 0);
  for (int round = 0; round < 3; ++round) {
    auto client = std::make_unique<FakeClient>(name);
    port.driver = driver.accept();
    ASSERT_TRUE(client->hello() && join(*client, port, 0)) << round;
    // Also one that takes its leave, or says anything else.
    if (round == 1) send(client->fd().get(), message(MessageType::kDisconnect));
    if (round == 2) send(client->fd().get(), init(0));
    if (round == 0) client.reset();
    ASSERT_TRUE(port.reaches(LinkState::kGone));
    // The next client waits meanwhile, and nothing has reached the driver.
    FakeClient after(name);
    ASSERT_TRUE(after.hello() && send(after.fd().get(), init(0)));
    usleep(20000);
    Message m;
    EXPECT_EQ(receive(port.driver.get(), m), Received::kNothing);
    EXPECT_EQ(driver.waiting(), 0U);
    // The owner stops the driver, whose last words nobody hears, and starts it again.
    UniqueFd ours = relay->hold(port.link);
    EXPECT_TRUE(send(port.driver.get(), message(MessageType::kDisconnect)));
    ours.reset();
    usleep(5000);
    EXPECT_EQ(driver.waiting(), 0U);
    relay->restarted(port.link);
    port.driver = driver.accept();
    ASSERT_TRUE(port.answer(MessageType::kInit, MessageType::kAck));
    // This one leaves before it is joined.
    shutdown(after.fd().get(), SHUT_RDWR);
    ASSERT_TRUE(port.reaches(LinkState::kGone));
    relay->hold(port.link);
    relay->restarted(port.link);
  }
}

// The driver is at rest when the owner hears of it: it has read what we sent.
TEST(ControlRelay, server__waits_for_a_driver_that_is_busy) {
  const std::string name = name_of("busy");
  const auto relay = ControlRelay::instance();
  FakeDriver driver;
  ServedPort port(*relay, driver, name, 0);
  auto client = std::make_unique<FakeClient>(name);
  port.driver = driver.accept();
  ASSERT_TRUE(client->hello() && send(client->fd().get(), init(0)));
  ASSERT_TRUE(wait_for([&] { return !port.link.free(); }));
  client.reset();
  usleep(20000);
  EXPECT_EQ(port.link.state(), LinkState::kAway);
  EXPECT_FALSE(port.link.at_rest());
  Message m;
  ASSERT_TRUE(next(port.driver, m));
  EXPECT_TRUE(port.reaches(LinkState::kGone));
}

// What a peer may not say reaches no driver.
TEST(ControlRelay, server__hostile_peers_are_shown_out) {
  const std::string name = name_of("bad");
  const auto relay = ControlRelay::instance();
  FakeDriver driver;
  ServedPort port(*relay, driver, name, 0);
  UniqueFd reserve = driver.accept();
  const std::size_t before = open_descriptors();
  Rng rng(1);
  std::vector<std::uint8_t> noise(4096);
  for (int i = 0; i < 300; ++i) {
    FakeClient c(name);
    if (!c.fd() || i % 5 == 0) continue;  // knocks and goes
    Message m;
    switch (i % 5) {
      case 1:  // a wrong size, also none
        ::send(c.fd().get(), noise.data(), rng.below(2) == 0 ? 0 : rng.below(4096), MSG_NOSIGNAL);
        break;
      case 2:  // a flood
        while (::send(c.fd().get(), noise.data(), Message::kBytes, MSG_NOSIGNAL | MSG_DONTWAIT) >
               0) {
        }
        break;
      case 3:
        send(c.fd().get(), message(MessageType::kConnect));
        break;
      case 4:  // a descriptor where none belongs
        m = message(MessageType::kAck);
        m.fd.reset(dup(0));
        send(c.fd().get(), m);
        break;
    }
    EXPECT_TRUE(closed(c.fd())) << i;
  }
  EXPECT_TRUE(wait_for([&] { return open_descriptors() <= before; }));
  Message m;
  EXPECT_EQ(receive(reserve.get(), m), Received::kNothing);
  EXPECT_EQ(driver.waiting(), 0U);
  FakeClient honest(name);
  port.driver = std::move(reserve);
  ASSERT_TRUE(honest.hello());
  EXPECT_TRUE(join(honest, port, 0));
}

// Many connections that stay silent: a bounded number is held, and they end.
TEST(ControlRelay, server__silent_peers_are_few_and_do_not_stay) {
  const std::string name = name_of("many");
  const auto relay = ControlRelay::instance();
  FakeDriver driver;
  ServedPort port(*relay, driver, name, 0);
  UniqueFd reserve = driver.accept();
  const std::size_t before = open_descriptors();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 100; ++i) {
    UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const SocketName address(name);
    if (connect(fd.get(), address.get(), address.bytes()) != 0) continue;  // the queue is full
    silent.push_back(std::move(fd));
  }
  EXPECT_LE(open_descriptors(), before + silent.size() + ServerSocket::kGuests);
  EXPECT_LE(silent.size(), 2 * ServerSocket::kGuests + 2);
  // One that means it gets its turn.
  UniqueFd fd;
  ASSERT_TRUE(wait_for([&] {
    usleep(1000);
    fd.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const SocketName address(name);
    return connect(fd.get(), address.get(), address.bytes()) == 0;
  }));
  Message m;
  ASSERT_TRUE(next(fd, m));
  EXPECT_EQ(m.type(), MessageType::kHello);
  port.driver = std::move(reserve);
}

TEST(ControlRelay, client__waits_for_its_server_and_is_told_when_it_goes) {
  const std::string name = name_of("client"), door = name_of("door");
  const auto relay = ControlRelay::instance();
  ClientLink link(name, 1);
  ASSERT_TRUE(link.open_door(door).ok());
  relay->dial(link);
  UniqueFd driver = knock(door);
  ASSERT_TRUE(driver);
  // Others are shown out: an abstract name is open to all.
  const pid_t other = fork();
  if (other == 0) {
    const UniqueFd stranger = knock(door);
    _exit(stranger && closed(stranger) ? 0 : 1);
  }
  int status = 0;
  waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const SocketName address(name);
  ASSERT_EQ(bind(listener.get(), address.get(), address.bytes()), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  Message m;
  const auto passes = [&](const UniqueFd& from, const Message& what, const UniqueFd& to) {
    return send(from.get(), what) && next(to, m) && m.type() == what.type();
  };
  for (int round = 0; round < 2; ++round) {
    UniqueFd server(accept(listener.get(), nullptr, nullptr));
    ASSERT_TRUE(passes(server, hello(), driver));
    ASSERT_TRUE(passes(driver, init(0), server));
    if (round == 0) {  // refused
      ASSERT_TRUE(send(server.get(), message(MessageType::kDisconnect)));
    } else {
      ASSERT_TRUE(passes(server, message(MessageType::kAck), driver));
      ASSERT_TRUE(passes(driver, message(MessageType::kConnect), server));
      ASSERT_TRUE(passes(server, message(MessageType::kConnected), driver));
      EXPECT_EQ(link.state(), LinkState::kJoined);
      server.reset();
    }
    ASSERT_TRUE(wait_for([&] { return link.state() == LinkState::kGone; }));
    EXPECT_EQ(receive(driver.get(), m), Received::kNothing);
    relay->hold(link);
    driver = knock(door);
    relay->restarted(link);
  }
  EXPECT_TRUE(relay->leave(link));
}

TEST(Handshake, server__regions_and_rings_have_to_fit) {
  FakeClient c("mr_nobody");
  const auto fresh = [](std::uint16_t queues) {
    Handshake h(true, queues);
    h.begin();
    EXPECT_TRUE(h.allows(init(0)));
    return h;
  };
  Handshake h(true, 1);
  EXPECT_FALSE(h.allows(message(MessageType::kAck)));
  EXPECT_FALSE(h.allows(message(MessageType::kDisconnect)));
  h = fresh(1);
  EXPECT_FALSE(h.allows(init(0)));
  EXPECT_FALSE(h.allows(FakeClient::ring(true)));  // no region yet
  EXPECT_FALSE(h.allows(message(MessageType::kConnect)));
  const auto refused = [&](Message m, std::size_t offset, std::uint16_t value) {
    put(m, offset, value);
    return !h.allows(m);
  };
  EXPECT_TRUE(refused(c.region(), 2, 1));                    // index
  EXPECT_TRUE(refused(c.region(), 10, 1));                   // longer than its file
  EXPECT_FALSE(h.allows(message(MessageType::kAddRegion)));  // no descriptor
  EXPECT_TRUE(h.allows(c.region()));
  EXPECT_TRUE(refused(FakeClient::ring(true), 4, 1));        // index
  EXPECT_TRUE(refused(FakeClient::ring(true), 6, 1));        // region
  EXPECT_TRUE(refused(FakeClient::ring(true), 10, 0xffff));  // offset
  EXPECT_TRUE(refused(FakeClient::ring(true), 12, 15));      // size
  EXPECT_TRUE(h.allows(FakeClient::ring(true)));
  EXPECT_FALSE(h.allows(FakeClient::ring(true)));  // twice
  EXPECT_FALSE(h.allows(message(MessageType::kConnect)));
  EXPECT_TRUE(h.allows(FakeClient::ring(false)));
  EXPECT_TRUE(h.allows(message(MessageType::kConnect)));
  h = fresh(2);  // fewer queue pairs than ours
  EXPECT_TRUE(h.allows(c.region()) && h.allows(FakeClient::ring(true)) &&
              h.allows(FakeClient::ring(false)));
  EXPECT_FALSE(h.allows(message(MessageType::kConnect)));
}

}  // namespace metaroce::drivers::memif
