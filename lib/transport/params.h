// What the control role hands to the RX and TX roles when a connection, stream, region, queue or
// client comes into being. Control-owned and immutable from the command until its `done` event;
// the roles copy what they keep.
#pragma once

#include <array>
#include <cstdint>

#include "base/ring.h"
#include "base/serial.h"
#include "transport/address.h"
#include "transport/config.h"
#include "transport/work.h"

namespace metaroce {

struct ConnParams {
  ConnIndex index;
  std::uint32_t own_dcid = 0;   // index 24 | generation 8; RX checks it
  std::uint32_t peer_dcid = 0;  // TX and ACKs send it
  std::uint16_t peer_port = 0;  // UDP destination port of the peer's worker group
  std::uint16_t own_port = 0;
  std::uint16_t n_paths = 0;  // paths [0, n); path p runs on planes[p % n_planes]
  std::uint16_t n_planes = 0;
  std::array<PlanePair, kMaxPlanes> planes{};
  std::uint64_t own_pseq_seed = 0, peer_pseq_seed = 0;  // see initial_pseq()
  std::uint64_t entropy_seed = 0;                       // source ports of the paths
  std::uint32_t payload_mtu = 0;
  Mbps line_rate = 0;  // min(own, peer's)
  Nanos handshake_rtt = 0;
  bool crc = false;
  bool verified = false;  // full-size probes of all paths were answered before: tests, simulation
};

// Initial pseq of a path, derived by both ends from the 64-bit seed in the handshake (a list of
// 256 numbers would not fit into a control packet).
PathSeq initial_pseq(std::uint64_t seed, PathId path);

// Index in ConnParams::planes of the plane of each path, [0, 256): path modulo planes, as a table
// that all connections share, so that no packet divides. 1 <= planes <= kMaxPlanes.
const std::uint8_t* plane_slot_table(unsigned planes);

struct StreamParams {
  ConnIndex conn;
  std::uint16_t own_number = 0;   // what the peer writes into its packets
  std::uint16_t peer_number = 0;  // what we write into ours
  StreamHandle handle = 0;
  ClientId client;
  std::uint32_t pd = 0;  // protection domain: regions reachable through this stream
  StreamSeq own_initial_spn, peer_initial_spn;
  std::uint32_t send_window = 0;  // packets the peer accepts beyond its cumulative spn
  std::uint32_t recv_window = 0;
  RecvNumber peer_rqn_limit;  // receives that the peer had posted at open
  std::uint32_t send_depth = 0, recv_depth = 0;
  std::uint32_t send_cq = 0, recv_cq = 0;
  bool ordered_last = false;  // ORD on the last packet of each Write
};

// A registered region. The application's address `va` is at `host` in this process.
struct RegionParams {
  std::uint32_t key = 0;  // lkey and rkey: index 20 | random 12... see memory_table.h
  ClientId client;
  std::uint32_t pd = 0;
  std::uint64_t va = 0;
  std::uint8_t* host = nullptr;
  std::uint64_t length = 0;
  std::uint32_t access = 0;
};

// One completion queue as one role sees it: the role's own SP/SC ring, plus the means to wake a
// sleeping application. `armed` lies in memory that the client writes.
struct CqParams {
  std::uint32_t cq = 0;
  ClientId client;
  RingProducer<Completion> ring;
  std::atomic<std::uint32_t>* armed = nullptr;
  int event_fd = -1;
};

// One client as one role sees it: its submission ring for this role (TX: sends, RX: receives).
struct ClientParams {
  ClientId client;
  RingConsumer<WorkRequest> submissions;
};

}  // namespace metaroce
