// Receive side of one connection. rx-owned.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "transport/events.h"
#include "transport/params.h"
#include "transport/rx_path.h"

namespace metaroce {

struct RxConnCounters {
  std::uint64_t packets = 0, bytes = 0, out_of_order = 0, duplicates = 0, drops = 0;
};
struct RxPathCounters {
  std::uint64_t packets = 0, bytes = 0, out_of_order = 0;
};

struct RxConn {
  bool used = false;
  bool alive = false;        // a valid packet was seen
  bool ack_queued = false;   // in the role's list of connections that owe an ACK
  bool mail_queued = false;  // in the role's list of connections with mail for TX
  bool last_ce = false;
  bool urgent = false;        // do not wait for more packets [MR-7.1.1]
  std::uint32_t pending = 0;  // packets since the last ACK
  Nanos owed_since = 0;       // the oldest of them came
  ConnParams params;
  std::vector<RxPath> paths;
  std::vector<RxPathCounters> path_counters;
  std::vector<std::uint16_t> peer_source_ports;  // of the last packet of each path: answers use it
  std::uint8_t reply_path = 0;                   // path of the last packet
  std::array<std::uint64_t, 4> ack_paths{};      // paths whose block belongs into the next ACK
  std::array<std::uint64_t, 4> mail_paths{};     // paths with unsent mail
  // Where in the role's pool that is: the newest acknowledgment of the path, for TX.
  std::vector<std::uint16_t> mail;
  std::vector<std::uint32_t> stream_slots;  // own number -> slot in the role's stream table
  std::vector<std::uint32_t> ack_streams;   // slots whose block belongs into the next ACK
  std::uint32_t streams = 0;  // ack_streams has room for all: no allocation per packet
  std::uint32_t held = 0;     // ordered packets held, all streams
  RxConnCounters counters;

  static constexpr std::uint32_t kNoSlot = 0xffffffff;

  void start(const ConnParams& p) {
    *this = RxConn{};
    used = true;
    params = p;
    paths.resize(p.n_paths);
    path_counters.resize(p.n_paths);
    peer_source_ports.resize(p.n_paths);
    mail.resize(p.n_paths);
    for (unsigned i = 0; i < p.n_paths; ++i)
      paths[i].start(initial_pseq(p.peer_pseq_seed, PathId{static_cast<std::uint8_t>(i)}));
    plane_slots = plane_slot_table(p.n_planes);
  }
  [[nodiscard]] std::uint32_t slot_of(std::uint16_t number) const {
    return number < stream_slots.size() ? stream_slots[number] : kNoSlot;
  }
  // Index of a path's plane in params.planes: one table look-up instead of a division.
  [[nodiscard]] unsigned plane_slot(std::uint8_t path) const { return plane_slots[path]; }
  const std::uint8_t* plane_slots = nullptr;
  std::array<std::uint8_t, kMaxPlanes> plane_ports{};  // local port of each plane
  static void mark(std::array<std::uint64_t, 4>& set, std::uint8_t path) {
    set[path / 64] |= std::uint64_t{1} << (path % 64);
  }
  static constexpr std::uint32_t kMaxAckStreams = 32;
};

}  // namespace metaroce
