// A fabric, its clock and a sink that keeps what came out.
#pragma once

#include <functional>
#include <vector>

#include "fabric/fabric.h"

namespace metaroce::fabric {

struct Rig {
  struct Out {
    Picos at;
    std::uint16_t host;
    Packet packet;
  };
  struct LostPacket {
    Picos at;
    Packet packet;
    Loss why;
  };

  explicit Rig(const FabricConfig& config, std::uint64_t seed = 1)
      : fabric(config, seed, queue, *this) {}

  // Sink
  void deliver(Picos now, std::uint16_t host, const Packet& p) {
    delivered.push_back({now, host, p});
    note(now, p, 1);
    if (on_deliver) on_deliver(p);
  }
  void lost(Picos now, const Packet& p, Loss why) {
    losses.push_back({now, p, why});
    note(now, p, 100 + static_cast<std::uint64_t>(why));
  }
  void nic_ready(Picos now, std::uint16_t host, std::uint8_t plane) {
    ++ready;
    trace = mix64(trace ^ static_cast<std::uint64_t>(now) ^ host ^ plane);
    if (on_ready) on_ready(host, plane);
  }

  void run(Picos limit = kNever - 1) {
    Event e;
    while (queue.pop(e, limit)) fabric.handle(e);
    if (limit != kNever - 1) queue.advance_to(limit);
  }
  // Sends at the present time.
  void send(std::uint16_t src, std::uint16_t dst, std::uint32_t bytes, std::uint32_t entropy = 0,
            bool control = false, std::uint8_t plane = 0) {
    Packet p;
    p.user = ++sent;
    p.bytes = bytes;
    p.entropy = entropy;
    p.src = src;
    p.dst = dst;
    p.plane = plane;
    p.control = control;
    p.ect = !control;
    fabric.send(p);
  }
  [[nodiscard]] bool conserved() const {
    const FabricTotals& t = fabric.totals();
    return t.sent == sent && t.delivered == delivered.size() && t.all_lost() == losses.size() &&
           t.sent + t.duplicated == t.delivered + t.all_lost() + fabric.packets_inside();
  }
  [[nodiscard]] std::size_t lost_as(Loss why) const {
    std::size_t n = 0;
    for (const LostPacket& l : losses) n += l.why == why ? 1 : 0;
    return n;
  }
  [[nodiscard]] std::uint32_t link(const char* name) const {
    return fabric.find_link(name).value_or(kNone);
  }
  void note(Picos now, const Packet& p, std::uint64_t what) {
    trace = mix64(trace ^ static_cast<std::uint64_t>(now) ^ p.user << 8 ^ what);
    trace = mix64(trace ^ (p.ce ? 2U : 0U) ^ (p.corrupt ? 4U : 0U));
  }

  EventQueue queue;
  std::vector<Out> delivered;
  std::vector<LostPacket> losses;
  std::uint64_t sent = 0, ready = 0, trace = 0;
  std::function<void(const Packet&)> on_deliver;
  std::function<void(std::uint16_t, std::uint8_t)> on_ready;
  Fabric<Rig> fabric;
};

inline constexpr Picos kMicro = 1'000'000;

// A single switch of 400 Gb/s ports (20 ps per byte) with 1 us links and nothing random.
inline FabricConfig plain(std::uint16_t hosts) {
  FabricConfig c;
  c.hosts = hosts;
  c.ecn = EcnMode::kOff;
  return c;
}

}  // namespace metaroce::fabric
