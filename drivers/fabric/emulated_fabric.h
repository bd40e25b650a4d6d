// The fabric that joins the ports of kind `fabric` of this process: lib/fabric's model driven by
// the real clock, with mbufs for packets.
//
// A port is two rings. pass() carries the model's clock to now (which delivers, loses and starts
// what is due), then takes frames from the ports, as many as their NIC queues have room for: what
// has none stays in the ring, so that a port pushes back like a real one. A frame crosses as a
// pointer. It is copied only for a duplicate, for all but the last receiver of a group address, and
// where it must be changed but lies in memory that is not its own (an application's payload).
//
// Frames are forwarded by MAC address, learned from what hosts send, as a switch does; unknown
// addresses are flooded within the plane. The model sees host numbers.
//
// Bounds: frames of one port inside (`port_packets`; what a port's own pools allow for), rings,
// the pool of copies. Beyond each a frame is dropped and counted by name. The model's clock counts
// picoseconds in 63 bits: after 100 days of one run it stands still, and so does the traffic.
//
// Threads: pass() belongs to one lcore (or, in inline progress, to the thread of all roles);
// attach(), detach(), post(), take_result() and watch_links() to the control thread, the first two
// only while nobody is in pass(). Counters are read from other threads as they are.
//
// Rejected: a lock around the model for live changes (a poller that waits for an administrator);
// catching up on time lost to the scheduler by sending at past times (the hosts lost it as well).
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <rte_mbuf.h>
#include <rte_ring.h>

#include "dataplane/status.h"
#include "fabric/fabric.h"

namespace metaroce {

struct EmulatedFabricPlan {
  fabric::FabricConfig model;  // time line included
  std::uint64_t seed = 1;
  std::uint32_t port_packets = 1024;
  std::uint32_t frame_room = 0;  // longest frame
  std::uint8_t control_dscp = 0;
};

// Why the owner of the model drops a frame; the model's own reasons are fabric::Loss.
enum class FabricDrop : std::uint8_t {
  kRunt,         // no Ethernet header
  kNobody,       // no other port is in the plane
  kInsideLimit,  // the port has `port_packets` inside
  kRxRingFull,   // the receiving host does not poll
  kNoBuffer,     // pool of copies
};
inline constexpr std::size_t kFabricDrops = 5;
const char* fabric_drop_name(FabricDrop);

class EmulatedFabric {
 public:
  // One per process, found by its ports through current(). EAL runs.
  static Status create(const EmulatedFabricPlan& plan, std::unique_ptr<EmulatedFabric>& out);
  static EmulatedFabric* current();
  ~EmulatedFabric();
  EmulatedFabric(const EmulatedFabric&) = delete;
  EmulatedFabric& operator=(const EmulatedFabric&) = delete;

  struct Rings {
    rte_ring *to_host = nullptr, *from_host = nullptr;
  };
  // Gives a port its place; `slots` per ring.
  Status attach(std::uint16_t host, std::uint8_t plane, unsigned slots, Rings& out);
  // The ethdev port, whose link follows that of the place.
  void set_device(std::uint16_t host, std::uint8_t plane, std::uint16_t device);
  // Frees every frame inside and in rings: its pools are about to go.
  void detach(std::uint16_t host, std::uint8_t plane);

  // Frames moved, in or out.
  unsigned pass(Nanos now);

  // Faults that happen together, between two passes. False while an earlier batch waits.
  bool post(std::vector<fabric::Fault> faults);
  // True once the batch has been looked at; `error` says why none of it was applied, or is empty.
  bool take_result(std::string& error);
  void watch_links();

  [[nodiscard]] const fabric::FabricState& state() const { return *model_; }
  [[nodiscard]] std::uint32_t port_packets() const { return plan_.port_packets; }
  [[nodiscard]] const std::array<std::uint64_t, kFabricDrops>& drops() const { return drops_; }
  [[nodiscard]] bool attached(std::uint16_t host, std::uint8_t plane) const {
    return port_at(host, plane) != nullptr;
  }
  [[nodiscard]] Nanos running_ns() const { return clock_.now() / fabric::kPicosPerNano; }

  // The model's sink.
  void deliver(fabric::Picos now, std::uint16_t host, const fabric::Packet& packet);
  void lost(fabric::Picos now, const fabric::Packet& packet, fabric::Loss why);
  void nic_ready(fabric::Picos, std::uint16_t, std::uint8_t) {}
  std::uint64_t duplicate(const fabric::Packet& packet);

 private:
  static constexpr std::uint16_t kBurst = 32;
  static constexpr unsigned kCopies = 1024;
  static constexpr std::uint64_t kNoSlot = ~std::uint64_t{0};
  static constexpr std::uint32_t kNoFree = ~std::uint32_t{0};

  struct Port {
    Rings rings;
    std::uint16_t host = 0, device = 0;
    std::uint8_t plane = 0;
    bool attached = false, has_device = false;
    std::uint32_t inside = 0;  // frames that it sent, copies included
    std::uint16_t taken = 0, next = 0;
    std::array<rte_mbuf*, kBurst> stash{};  // [next, taken): dequeued, no room yet
  };
  struct Slot {  // of a frame inside
    rte_mbuf* frame = nullptr;
    std::uint32_t port = 0;
    std::uint32_t next_free = 0;
  };

  explicit EmulatedFabric(const EmulatedFabricPlan& plan);
  Status make_pool();
  void run_until(fabric::Picos t);
  void apply_posted();
  unsigned take_from(Port& port);
  void forward(Port& from, rte_mbuf* frame);
  void flood(Port& from, rte_mbuf* frame, const fabric::Packet& packet);
  void send(Port& from, rte_mbuf* frame, fabric::Packet packet);
  std::uint64_t take_slot(Port& from, rte_mbuf* frame);
  rte_mbuf* release_slot(std::uint64_t slot);
  rte_mbuf* copy(const rte_mbuf* frame);
  rte_mbuf* writable(rte_mbuf* frame, std::uint32_t upto);
  rte_mbuf* corrupt(rte_mbuf* frame);
  void drop(rte_mbuf* frame, FabricDrop why);
  void drain();
  static std::uint64_t key_of(std::uint8_t plane, std::uint64_t mac) {
    return std::uint64_t{plane + 1U} << 48 | mac;
  }
  [[nodiscard]] const Port* find(std::uint64_t key) const;
  [[nodiscard]] const Port* port_at(std::uint16_t host, std::uint8_t plane) const;
  Port* port_at(std::uint16_t host, std::uint8_t plane);

  EmulatedFabricPlan plan_;
  fabric::EventQueue clock_;
  std::unique_ptr<fabric::Fabric<EmulatedFabric>> model_;
  Rng flip_rng_;
  Nanos started_at_ = 0;
  unsigned moved_ = 0;
  std::vector<Port> ports_;
  std::vector<std::uint64_t> keys_;    // of ports_: plane and learned MAC address
  std::vector<std::uint16_t> places_;  // by plane and host: index into ports_
  std::vector<Slot> slots_;
  std::uint32_t free_slot_ = kNoFree;
  rte_mempool* copies_ = nullptr;
  std::array<std::uint64_t, kFabricDrops> drops_{};

  enum class Batch : std::uint8_t { kNone, kPosted, kDone };
  std::atomic<Batch> batch_{Batch::kNone};
  std::vector<fabric::Fault> posted_;
  std::string error_;
};

}  // namespace metaroce
