// Control roles joined by a wire that loses, duplicates and reorders, in virtual time; worker
// groups are replaced by fakes that check the order of commands and answer them.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "transport/control_role.h"

namespace metaroce::test {

// RX and TX of one group: rings of `capacity` commands; an object may be added once, used while
// it exists, removed when nothing in it is left.
class FakeGroup final : public GroupPort {
 public:
  struct Side {
    std::deque<Command> commands;
    std::set<std::uint16_t> clients;
    std::set<std::uint32_t> regions, cqs, conns, open_conns;
    std::map<StreamHandle, std::uint32_t> streams;  // -> connection
    std::set<StreamHandle> stopped;
    [[nodiscard]] std::size_t objects() const {
      return clients.size() + regions.size() + cqs.size() + conns.size() + streams.size();
    }
  };
  Side rx, tx;
  std::deque<RxToControl> rx_out;
  std::deque<TxToControl> tx_out;
  std::map<StreamHandle, Command> tx_stops;     // last kStopStream of each stream
  std::map<StreamHandle, StreamParams> params;  // of each stream ever installed
  std::map<std::uint32_t, ConnParams> conn_params;
  std::vector<Command> peer_addresses;  // every kPeerAddress
  std::vector<Command> port_states;     // every kPortState
  std::size_t capacity = 4;
  bool drains = true;            // kDrainStream is answered at once
  std::set<CommandKind> refuse;  // answered with ok = false by RX
  std::uint32_t cum_spn = 1000;  // final of each stream by RX

  bool to_rx(const Command& c) override { return push(rx, c); }
  bool to_tx(const Command& c) override { return push(tx, c); }
  bool from_rx(RxToControl& out) override { return pop(rx_out, out); }
  bool from_tx(TxToControl& out) override { return pop(tx_out, out); }

  // Executes what waits in both rings; false when nothing did.
  bool run() {
    bool any = false;
    for (; !rx.commands.empty(); rx.commands.pop_front(), any = true) {
      RxToControl m;
      m.kind = RxToControlKind::kResult;
      m.result = execute(rx, rx.commands.front(), true);
      if (m.result.token != 0) rx_out.push_back(m);
    }
    for (; !tx.commands.empty(); tx.commands.pop_front(), any = true) {
      TxToControl m;
      m.kind = TxToControlKind::kResult;
      m.result = execute(tx, tx.commands.front(), false);
      if (m.result.token != 0) tx_out.push_back(m);
    }
    return any;
  }
  [[nodiscard]] bool busy() const {
    return !rx.commands.empty() || !tx.commands.empty() || !rx_out.empty() || !tx_out.empty();
  }
  [[nodiscard]] std::size_t objects() const { return rx.objects() + tx.objects(); }

 private:
  template <typename Q, typename T>
  static bool pop(Q& q, T& out) {
    if (q.empty()) return false;
    out = q.front();
    q.pop_front();
    return true;
  }
  bool push(Side& s, const Command& c) {
    if (s.commands.size() >= capacity) return false;
    s.commands.push_back(c);
    return true;
  }

  CommandResult execute(Side& s, const Command& c, bool is_rx) {
    CommandResult r;
    r.token = c.token;
    r.ok = true;
    if (is_rx && refuse.contains(c.kind)) {
      r.ok = false;
      return r;
    }
    switch (c.kind) {
      case CommandKind::kAddClient:
        r.ok = s.clients.insert(c.client->client.v).second;
        break;
      case CommandKind::kRemoveClient:
        r.ok = s.clients.erase(static_cast<std::uint16_t>(c.id)) == 1;
        break;
      case CommandKind::kAddRegion:
        r.ok = s.regions.insert(c.region->key).second;
        break;
      case CommandKind::kRemoveRegion:
        r.ok = s.regions.erase(c.id) == 1;
        break;
      case CommandKind::kAddCq:
        r.ok = s.cqs.insert(c.cq->cq).second;
        break;
      case CommandKind::kRemoveCq:
        remove_cq(s, c);
        break;
      case CommandKind::kAddConn:
        conn_params[c.conn->index.v] = *c.conn;
        EXPECT_TRUE(s.conns.insert(c.conn->index.v).second);
        break;
      case CommandKind::kOpenConn:
        EXPECT_TRUE(!is_rx && s.conns.contains(c.id));
        EXPECT_TRUE(s.open_conns.insert(c.id).second);
        break;
      case CommandKind::kRemoveConn:
        remove_conn(s, c);
        break;
      case CommandKind::kFailConn:
        EXPECT_TRUE(!is_rx && s.conns.contains(c.id));
        break;
      case CommandKind::kAddStream:
        params[c.stream->handle] = *c.stream;
        EXPECT_TRUE(s.conns.contains(c.stream->conn.v));
        EXPECT_TRUE(s.cqs.contains(c.stream->send_cq) && s.cqs.contains(c.stream->recv_cq));
        EXPECT_TRUE(s.clients.contains(c.stream->client.v));
        EXPECT_TRUE(s.streams.emplace(c.stream->handle, c.stream->conn.v).second);
        break;
      case CommandKind::kDrainStream:
        drain(s, c);
        break;
      case CommandKind::kStopStream:
        EXPECT_TRUE(s.streams.contains(c.id) && s.stopped.insert(c.id).second);
        if (is_rx)
          r.cum_spn = StreamSeq{cum_spn};
        else
          tx_stops[c.id] = c;
        break;
      case CommandKind::kRemoveStream:
        remove_stream(s, c, is_rx);
        break;
      case CommandKind::kPeerAddress:
        EXPECT_TRUE(!is_rx && s.conns.contains(c.id));
        peer_addresses.push_back(c);
        break;
      case CommandKind::kPortState:
        EXPECT_TRUE(!is_rx && s.conns.contains(c.id));
        port_states.push_back(c);
        break;
      case CommandKind::kChangePort:
        break;
    }
    return r;
  }
  void drain(Side& s, const Command& c) {
    EXPECT_TRUE(s.streams.contains(c.id) && !s.stopped.contains(c.id));
    if (!drains) return;
    TxToControl m;
    m.kind = TxToControlKind::kStreamDrained;
    m.id = c.id;
    tx_out.push_back(m);
  }
  void remove_cq(Side& s, const Command& c) {
    for (const auto& [h, conn] : s.streams) {
      const bool uses = params[h].send_cq == c.id || params[h].recv_cq == c.id;
      EXPECT_TRUE(!uses || s.stopped.contains(h)) << "queue removed under a running stream";
    }
    s.cqs.erase(c.id);
  }
  void remove_stream(Side& s, const Command& c, bool is_rx) {
    if (is_rx && refuse.contains(CommandKind::kAddStream)) return;
    const bool never_ran = refuse.contains(CommandKind::kAddStream);
    EXPECT_EQ(s.streams.erase(c.id), 1U);
    EXPECT_TRUE(s.stopped.erase(c.id) == 1 || never_ran);
  }
  void remove_conn(Side& s, const Command& c) {
    for (const auto& [h, conn] : s.streams)
      EXPECT_NE(conn, c.id) << "connection removed under a stream";
    s.conns.erase(c.id);
    s.open_conns.erase(c.id);
  }
};

struct Packet {
  PacketSource source;  // as the receiver sees it
  std::vector<std::uint8_t> bytes;
};

class Net;

struct Host final : ControlIo, StatsSource {
  Host(Net& net, HostInfo info, std::uint64_t seed);
  bool send(const PacketSource& to, std::span<const std::uint8_t> bytes) override;
  bool send_to(PlaneId, const IpAddress& local, const IpAddress& peer, std::uint16_t src_port,
               std::uint16_t dst_port, std::span<const std::uint8_t> bytes) override;
  std::set<std::uint8_t> no_way;  // planes on which no neighbour is known
  std::uint64_t secret_random() override { return random.next(); }
  bool conn_stats(std::uint32_t, ConnIndex, ConnStats& out) override {
    out.acked_bytes = 7;
    return true;
  }

  void deliver(const Packet& p, Nanos now);
  // Adds a client with one completion queue and returns once both exist; the queue's id.
  std::uint32_t add_client(std::uint16_t id);
  // Takes the first event that satisfies `match`; runs the net until then, at most `limit`.
  ControlEvent await(const std::function<bool(const ControlEvent&)>& match,
                     Nanos limit = 20 * kSecond);
  ControlEvent await_token(std::uint64_t token, Nanos limit = 20 * kSecond);
  ControlEvent await_kind(ControlEventKind kind, Nanos limit = 20 * kSecond);
  void drain_events();
  [[nodiscard]] bool busy() const {
    for (const auto& g : groups)
      if (g->busy()) return true;
    return false;
  }
  [[nodiscard]] std::size_t objects() const {
    std::size_t n = 0;
    for (const auto& g : groups) n += g->objects();
    return n;
  }

  Net& net;
  Rng random;
  std::vector<std::unique_ptr<FakeGroup>> groups;
  std::deque<ControlEvent> events;
  std::uint64_t next_token = 1;
  std::unique_ptr<ControlRole> role;
};

class Net {
 public:
  explicit Net(std::uint64_t seed) : random(seed) {}

  Host& add(std::uint8_t n, TransportConfig config = {}, unsigned planes = 2,
            std::uint32_t groups = 1) {
    HostInfo info;
    for (unsigned i = 0; i < planes; ++i)
      info.planes.push_back({PlaneId{static_cast<std::uint8_t>(i)}, address(n, i)});
    info.groups = groups;
    info.instance = {random.next(), random.next()};
    info.config = config;
    hosts.push_back(std::make_unique<Host>(*this, info, random.next()));
    return *hosts.back();
  }
  static IpAddress address(std::uint8_t n, unsigned plane) {
    return IpAddress::v4(10, static_cast<std::uint8_t>(plane), 0, n);
  }
  void attach(const IpAddress& a, Host* h) { by_address[a.b] = h; }

  void transmit(Packet p) {
    ++sent;
    if (on_send) on_send(p);
    if (random.chance_ppm(loss_ppm)) return;
    if (random.chance_ppm(duplicate_ppm)) schedule(p);
    schedule(std::move(p));
  }
  void schedule(Packet p) {
    const Nanos jitter = jitter_max == 0 ? 0 : random.below(static_cast<std::uint32_t>(jitter_max));
    queue.emplace(now + 10 * kMicrosecond + jitter, std::move(p));
  }

  // Moves to the next instant at which something happens, not beyond `until`.
  void step(Nanos until) {
    Nanos next = until;
    if (!queue.empty()) next = std::min(next, queue.begin()->first);
    for (const auto& h : hosts) {
      if (h->busy())
        next = now;
      else
        next = std::min(next, std::max(now, h->role->next_deadline()));
    }
    now = std::max(now, next);
    while (!queue.empty() && queue.begin()->first <= now) {
      const Packet p = std::move(queue.begin()->second);
      queue.erase(queue.begin());
      const auto it = by_address.find(p.source.dst.b);
      if (it != by_address.end() && it->second != nullptr) it->second->deliver(p, now);
    }
    for (const auto& h : hosts) {
      for (const auto& g : h->groups) g->run();
      h->role->poll(now);
      if (++steps % 16 == 0) {
        ASSERT_TRUE(h->role->validate());
      }  // looks at every slot
      for (ControlEvent e; h->role->next_event(e);) h->events.push_back(e);
    }
  }
  void run(Nanos duration) {
    const Nanos until = now + duration;
    while (now < until && !::testing::Test::HasFatalFailure()) step(until);
  }
  void remove(Host& h) {
    for (auto& [a, owner] : by_address)
      if (owner == &h) owner = nullptr;
    std::erase_if(hosts, [&](const auto& p) { return p.get() == &h; });
  }

  Rng random;
  Nanos now = kSecond;
  std::vector<std::unique_ptr<Host>> hosts;
  std::map<std::array<std::uint8_t, 16>, Host*> by_address;
  std::multimap<Nanos, Packet> queue;
  std::uint32_t loss_ppm = 0, duplicate_ppm = 0;
  Nanos jitter_max = 0;
  std::uint64_t sent = 0, steps = 0;
  std::function<void(const Packet&)> on_send;
};

inline Host::Host(Net& n, HostInfo info, std::uint64_t seed) : net(n), random(seed) {
  std::vector<GroupPort*> ports;
  for (std::uint32_t i = 0; i < info.groups; ++i) {
    groups.push_back(std::make_unique<FakeGroup>());
    ports.push_back(groups.back().get());
  }
  role = std::make_unique<ControlRole>(info, *this, ports, this);
  for (const HostPlane& p : info.planes) net.attach(p.address, this);
  role->poll(net.now);
}

inline bool Host::send(const PacketSource& to, std::span<const std::uint8_t> bytes) {
  return send_to(PlaneId{0}, to.dst, to.src, to.dst_port, to.src_port, bytes);
}
inline bool Host::send_to(PlaneId plane, const IpAddress& local, const IpAddress& peer,
                          std::uint16_t src_port, std::uint16_t dst_port,
                          std::span<const std::uint8_t> bytes) {
  if (no_way.contains(plane.v)) return false;
  Packet p;
  p.source.plane = plane;
  p.source.src = local;
  p.source.dst = peer;
  p.source.src_port = src_port;
  p.source.dst_port = dst_port;
  p.bytes.assign(bytes.begin(), bytes.end());
  net.transmit(std::move(p));
  return true;
}
inline void Host::deliver(const Packet& p, Nanos now) {
  const unsigned group = p.source.dst_port - wire::kDefaultBasePort;
  if (group >= groups.size() || p.bytes.size() > wire::kMaxCtrlBytes) return;
  RxToControl m;
  m.kind = RxToControlKind::kCtrlPacket;
  m.length = static_cast<std::uint16_t>(p.bytes.size());
  m.received_at = now;
  m.source = p.source;
  std::copy(p.bytes.begin(), p.bytes.end(), m.bytes.begin());
  groups[group]->rx_out.push_back(m);
}
inline ControlEvent Host::await(const std::function<bool(const ControlEvent&)>& match,
                                Nanos limit) {
  const Nanos until = net.now + limit;
  for (;;) {
    for (auto it = events.begin(); it != events.end(); ++it) {
      if (!match(*it)) continue;
      ControlEvent e = *it;
      events.erase(it);
      return e;
    }
    if (net.now >= until || ::testing::Test::HasFatalFailure()) break;
    net.step(until);
  }
  ADD_FAILURE() << "no such event within the limit";
  return {};
}
inline ControlEvent Host::await_token(std::uint64_t token, Nanos limit) {
  return await([&](const ControlEvent& e) { return e.token == token; }, limit);
}
inline ControlEvent Host::await_kind(ControlEventKind kind, Nanos limit) {
  return await([&](const ControlEvent& e) { return e.kind == kind; }, limit);
}
inline void Host::drain_events() { events.clear(); }
inline std::uint32_t Host::add_client(std::uint16_t id) {
  std::uint64_t token = next_token++;
  role->add_client(token, ClientId{id}, std::vector<GroupRings>(groups.size()));
  EXPECT_EQ(await_token(token).status, ControlStatus::kOk);
  token = next_token++;
  role->add_cq(token, ClientId{id}, std::vector<CqRings>(groups.size()), nullptr, -1);
  const ControlEvent e = await_token(token);
  EXPECT_EQ(e.status, ControlStatus::kOk);
  return e.id;
}

inline StreamAttr attr_of(std::uint32_t cq, const std::string& data = "") {
  StreamAttr a;
  a.send_cq = a.recv_cq = cq;
  a.private_data.length = static_cast<std::uint32_t>(data.size());
  std::copy(data.begin(), data.end(), a.private_data.bytes.begin());
  return a;
}
inline std::string text(const PrivateData& d) {
  return {d.bytes.begin(), d.bytes.begin() + d.length};
}

// Two hosts with one client each; host b listens on service 7.
struct Pair {
  static constexpr ClientId kClient{1};
  Net net;
  Host *a, *b;
  std::uint32_t cq_a, cq_b;

  explicit Pair(std::uint64_t seed, TransportConfig config = {}, unsigned planes = 2,
                std::uint32_t groups_a = 1, std::uint32_t groups_b = 1)
      : net(seed),
        a(&net.add(1, config, planes, groups_a)),
        b(&net.add(2, config, planes, groups_b)),
        cq_a(a->add_client(1)),
        cq_b(b->add_client(1)) {
    b->role->listen(b->next_token, kClient, 7);
    EXPECT_EQ(b->await_token(b->next_token++).status, ControlStatus::kOk);
  }
  std::uint64_t connect(Nanos timeout = 10 * kSecond, unsigned plane = 0,
                        const std::string& data = "hello") {
    a->role->connect(a->next_token, kClient, Net::address(2, plane), 7, attr_of(cq_a, data),
                     net.now + timeout);
    return a->next_token++;
  }
  std::uint64_t accept(const ControlEvent& request, const std::string& data = "welcome") {
    b->role->accept(b->next_token, kClient, request.request, attr_of(cq_b, data));
    return b->next_token++;
  }
  struct Ends {
    ControlEvent a, b;
  };
  Ends open() {
    const std::uint64_t t = connect();
    const std::uint64_t u = accept(b->await_kind(ControlEventKind::kConnectRequest));
    Ends e;
    e.b = b->await_token(u);
    e.a = a->await_token(t);
    EXPECT_EQ(e.a.status, ControlStatus::kOk) << e.a.message;
    EXPECT_EQ(e.b.status, ControlStatus::kOk) << e.b.message;
    return e;
  }
};

}  // namespace metaroce::test
