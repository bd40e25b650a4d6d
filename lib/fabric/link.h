// An egress port with the cable behind it, the pool of packets that its queues are made of, and
// what a switch knows.
//
// A port serialises one packet at a time. Its two queues (data, control) are intrusive lists over
// the pool. `pending` says that a start event is in the event queue: an idle port starts a packet
// at once without one, a busy port has exactly one while anything that may leave waits.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "fabric/event_queue.h"
#include "fabric/packet.h"

namespace metaroce::fabric {

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

// One cache line per packet.
struct alignas(64) PoolPacket {
  Packet packet;
  std::uint32_t next = kNone;     // in a queue or in the free list
  std::uint32_t ingress = kNone;  // link through which it came into this node
  std::uint16_t epoch = 0;        // Link::epoch when it was put on the wire
};
static_assert(sizeof(PoolPacket) == 64);

// Packets by index; grows by doubling, so references do not survive take().
class PacketPool {
 public:
  std::uint32_t take(const Packet& packet) {
    if (free_ == kNone) grow();
    const std::uint32_t id = free_;
    free_ = packets_[id].next;
    packets_[id].packet = packet;
    packets_[id].ingress = kNone;
    ++used_;
    return id;
  }
  void release(std::uint32_t id) {
    packets_[id].next = free_;
    free_ = id;
    --used_;
  }
  PoolPacket& operator[](std::uint32_t id) { return packets_[id]; }
  [[nodiscard]] std::uint32_t used() const { return used_; }

 private:
  void grow();
  std::vector<PoolPacket> packets_;
  std::uint32_t free_ = kNone, used_ = 0;
};

struct PacketList {
  std::uint32_t head = kNone, tail = kNone;
  std::uint32_t packets = 0, bytes = 0;
  [[nodiscard]] bool empty() const { return head == kNone; }
  void push(PacketPool& pool, std::uint32_t id) {
    PoolPacket& p = pool[id];
    p.next = kNone;
    if (head == kNone) {
      head = id;
    } else {
      pool[tail].next = id;
    }
    tail = id;
    ++packets;
    bytes += p.packet.bytes;
  }
  std::uint32_t pop(PacketPool& pool) {
    const std::uint32_t id = head;
    const PoolPacket& p = pool[id];
    head = p.next;
    --packets;
    bytes -= p.packet.bytes;
    return id;
  }
};

// Why a port does not send.
inline constexpr std::uint8_t kDown = 1;     // cut
inline constexpr std::uint8_t kStalled = 2;  // the host behind it takes nothing
inline constexpr std::uint8_t kPaused = 4;   // PFC: data only

// What makes a port more than a rate, a delay and a queue; none of it costs a plain port more than
// one test.
inline constexpr std::uint8_t kNic = 1;         // host's egress: room to tell of
inline constexpr std::uint8_t kToHost = 2;      // last link
inline constexpr std::uint8_t kFaulty = 4;      // FaultSet on this link
inline constexpr std::uint8_t kMarks = 8;       // ECN
inline constexpr std::uint8_t kWanted = 16;     // nic_ready() is owed
inline constexpr std::uint8_t kChecksFcs = 32;  // node at the end drops corrupt frames

// Picoseconds per byte in fixed point: exact for every rate that divides 8 Tb/s, else to nearest.
inline constexpr unsigned kByteTimeShift = 20;
constexpr std::uint64_t byte_time(std::uint64_t rate_mbps) {
  return ((std::uint64_t{8'000'000} << kByteTimeShift) + rate_mbps / 2) / rate_mbps;
}

struct alignas(64) Link {
  Picos busy_until = 0;
  std::uint64_t byte_time = 0;
  Picos flight = 0;         // propagation, and latency of the switch at the end
  std::uint32_t to = 0;     // kToHost: host, else switch (of all planes)
  std::uint16_t epoch = 0;  // counts cuts: what was sent in an earlier one is lost
  std::uint8_t blocked = 0;
  std::uint8_t traits = 0;
  bool pending = false;
  PacketList data, control;
  std::uint32_t data_limit_bytes = 0;
  std::uint32_t from = kNone;  // switch (of all planes); kNone: a host
  // Counters
  std::uint64_t bytes = 0, packets = 0;
  Picos busy = 0;
  std::uint64_t ce_marks = 0;
  std::uint32_t max_queue_bytes = 0;
};

struct Switch {
  std::uint64_t seed = 0;
  std::uint32_t first_host = 0, host_count = 0;
  std::uint64_t child_reciprocal = 0;  // ceil(2^32 / hosts per child): exact for 16-bit hosts
  std::uint32_t down = 0, up = 0, up_count = 0;  // links of all planes
  std::uint32_t buffered_bytes = 0;              // shared buffer
};

// What ECMP at a switch makes of a flow.
inline std::uint64_t flow_hash(const Switch& s, const Packet& p) {
  const std::uint64_t flow = p.entropy | std::uint64_t{p.src} << 32 | std::uint64_t{p.dst} << 48;
  return mix64(flow ^ s.seed);
}

}  // namespace metaroce::fabric
