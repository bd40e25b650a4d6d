// One host of the transport tests: the three roles of one worker group over in-process rings,
// memory with a shadow that counts how often each byte was placed, completion rings. Connections
// and streams are installed by hand: the control role has its own tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "support/link.h"
#include "transport/congestion.h"
#include "transport/group_queues.h"
#include "transport/rx_role.h"
#include "transport/timer_role.h"
#include "transport/tx_role.h"

namespace metaroce::test {

using Queues = GroupQueues<SpscRing>;

class Host {
 public:
  struct Memory {
    std::vector<std::uint8_t> bytes, shadow;
    std::uint64_t va = 0;
    std::uint32_t key = 0;
  };

  struct RxIo {
    Host* h = nullptr;
    std::vector<std::uint8_t> buffer;
    std::uint8_t plane = 0;
    void learn(ConnIndex, unsigned, const RxPacket&) {}
    std::uint8_t* begin_reply(ConnIndex, unsigned plane_slot) {
      if (h->starve_replies) return nullptr;
      plane = static_cast<std::uint8_t>(plane_slot);
      buffer.assign(2048, 0xee);
      return buffer.data();
    }
    bool commit_reply(std::uint32_t n, std::uint16_t sport, std::uint16_t dport) {
      buffer.resize(n);
      h->out->send(h->now, Frame{buffer, sport, dport, plane, false});
      return true;
    }
    void place(std::uint8_t* to, const std::uint8_t* from, std::uint32_t n) {
      std::memcpy(to, from, n);
      h->count_placed(to, n);
    }
  };
  struct TxIo {
    Host* h = nullptr;
    std::vector<std::uint8_t> buffer;
    std::uint8_t plane = 0;
    std::vector<std::uint32_t> busy_works;
    bool open = false;         // between begin() and commit()
    std::uint32_t nested = 0;  // begin() within another packet: one would be lost
    bool install(const ConnParams&) { return true; }
    void uninstall(ConnIndex) {}
    std::uint32_t room = UINT32_MAX;  // packets that the port still takes; UINT32_MAX: any number
    bool ready(ConnIndex, unsigned) const { return room != 0; }
    std::uint8_t* begin(ConnIndex, unsigned plane_slot) {
      nested += open ? 1 : 0;
      open = true;
      plane = static_cast<std::uint8_t>(plane_slot);
      buffer.assign(256, 0);
      return buffer.data();
    }
    void commit(std::uint32_t header, const std::uint8_t* payload, std::uint32_t n,
                const std::uint8_t* trailer, std::uint16_t sport, std::uint16_t dport,
                std::uint32_t, bool control) {
      open = false;
      if (room != UINT32_MAX) --room;
      buffer.resize(header);
      if (n != 0) buffer.insert(buffer.end(), payload, payload + n);
      if (trailer != nullptr) buffer.insert(buffer.end(), trailer, trailer + wire::kCrcBytes);
      h->out->send(h->now, Frame{buffer, sport, dport, plane, false, control});
    }
    bool busy(std::uint32_t w) const {
      return std::find(busy_works.begin(), busy_works.end(), w) != busy_works.end();
    }
  };
  using Rx = RxRole<Queues, RxIo>;
  using Tx = TxRole<Queues, TxIo, EcnAimd>;

  Host(const TransportConfig& c, IpAddress address, const QueueSizes& sizes = {},
       const TxLimits& limits = {})
      : config(c),
        ip(address),
        queues(sizes),
        rx(config, queues, rx_io, RxLimits{.rings = 512, .mail = 512}),  // small, as below
        tx(config, limits, 256, queues, tx_io),
        timer(tx.timer_ids(), queues),
        tx_cq(4096),
        rx_cq(4096),
        sends(1024),
        receives(1024) {
    rx_io.h = tx_io.h = this;
    CqParams cq;
    cq.client = ClientId{1};
    cq.ring = tx_cq.producer();
    Command k;
    k.kind = CommandKind::kAddCq;
    k.cq = &cq;
    to_tx(k);
    cq.ring = rx_cq.producer();
    to_rx(k);
    ClientParams client{ClientId{1}, sends.consumer()};
    k.kind = CommandKind::kAddClient;
    k.client = &client;
    to_tx(k);
    client.submissions = receives.consumer();
    to_rx(k);
  }

  // Runs a command to its result.
  CommandResult to_rx(Command k) {
    k.token = 7;
    queues.control_to_rx.push(k);
    rx.begin_burst(now);
    rx.end_burst(true, true);
    RxToControl e;
    while (queues.rx_to_control.pop(e))
      if (e.kind == RxToControlKind::kResult) return e.result;
    return CommandResult{0, false, {}};
  }
  CommandResult to_tx(Command k) {
    k.token = 7;
    queues.control_to_tx.push(k);
    tx.poll(now, 0);
    TxToControl e;
    CommandResult r{0, false, {}};
    while (queues.tx_to_control.pop(e)) {
      if (e.kind == TxToControlKind::kResult)
        r = e.result;
      else
        events.push_back(e);
    }
    return r;
  }

  Memory& add_memory(std::size_t bytes, std::uint32_t key, std::uint32_t access) {
    auto m = std::make_unique<Memory>();
    m->bytes.assign(bytes, 0);
    m->shadow.assign(bytes, 0);
    m->va = 0x700000000000ULL + (std::uint64_t{key} << 20);
    m->key = key;
    RegionParams r{key, ClientId{1}, 1, m->va, m->bytes.data(), bytes, access};
    Command k;
    k.kind = CommandKind::kAddRegion;
    k.region = &r;
    to_rx(k);
    to_tx(k);
    memories.push_back(std::move(m));
    return *memories.back();
  }
  void count_placed(const std::uint8_t* to, std::uint32_t n) {
    for (auto& m : memories) {
      if (to < m->bytes.data() || to >= m->bytes.data() + m->bytes.size()) continue;
      const auto at = static_cast<std::size_t>(to - m->bytes.data());
      for (std::size_t i = at; i < at + n; ++i) ++m->shadow[i];
      placed += n;
    }
  }

  void deliver(const Frame& f, const IpAddress& from) {
    RxPacket p;
    p.data = f.bytes.data();
    p.length = static_cast<std::uint32_t>(f.bytes.size());
    p.port = PlaneId{f.plane};
    p.ce = f.ce;
    p.src_ip = from.b.data();
    p.dst_ip = ip.b.data();
    p.src_mac = mac.b.data();
    p.src_port = f.src_port;
    p.dst_port = f.dst_port;
    rx.on_packet(p);
  }
  // One pass over the roles, as a run-to-completion lcore makes it.
  void pass(Nanos t, Link& in, const IpAddress& from) {
    now = t;
    rx.begin_burst(t);
    Frame f;
    unsigned n = 0;
    while (n < 32 && in.receive(t, f)) {
      deliver(f, from);
      ++n;
    }
    rx.take_receives();
    rx.end_burst(n < 32, leaves && n < 32);
    tx.poll(t);
    timer.poll(t);
    TxToControl e;
    while (queues.tx_to_control.pop(e)) events.push_back(e);
    RxToControl r;
    while (queues.rx_to_control.pop(r)) {
    }
    Completion c;
    while (tx_cq.pop(c)) sent_completions.push_back(c);
    while (rx_cq.pop(c)) received_completions.push_back(c);
  }

  TransportConfig config;
  IpAddress ip;
  MacAddress mac;
  Nanos now = 0;
  bool starve_replies = false;
  bool leaves = true;  // says what it owes at the end of each pass, as a loop that yields its core
  Link* out = nullptr;
  Queues queues;
  RxIo rx_io;
  TxIo tx_io;
  Rx rx;
  Tx tx;
  TimerRole<Queues> timer;
  SpscRing<Completion> tx_cq, rx_cq;
  SpscRing<WorkRequest> sends, receives;
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<TxToControl> events;
  std::vector<Completion> sent_completions, received_completions;
  std::uint64_t placed = 0;
};

}  // namespace metaroce::test

// Compiled once, optimised, in host.cpp.
extern template class metaroce::RxRole<metaroce::test::Queues, metaroce::test::Host::RxIo>;
extern template class metaroce::TxRole<metaroce::test::Queues, metaroce::test::Host::TxIo,
                                       metaroce::EcnAimd>;
