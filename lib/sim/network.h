// Between the hosts and the fabric: frames, inboxes, and when a host is polled. The fabric's sink.
//
// A host is a run-to-completion lcore that looks at its queues when something arrived or a time
// that it named has come, at most once per poll interval: what arrives meanwhile is one burst.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/event_queue.h"
#include "fabric/fabric.h"
#include "sim/capture.h"
#include "sim/frame_pool.h"
#include "sim/ledger.h"
#include "sim/loss_log.h"
#include "sim/scenario.h"
#include "wire/packet.h"

namespace metaroce::sim {

using fabric::kPicosPerNano;
using fabric::Picos;

// Events of the simulator in the fabric's queue.
enum EventKind : std::uint8_t {
  kPollEvent = 16,  // a = host, b = which of its events
  kFlowEvent = 17,  // a = flow
  kSampleEvent = 18,
};

struct Arrival {
  std::uint32_t frame = 0;
  bool ce = false;
};

struct NetworkCounters {
  // Sent, by type: DATA, and all else (FLUSH and PROBE too, although they travel in data's class).
  std::uint64_t data_packets = 0, data_bytes = 0, control_packets = 0, control_bytes = 0;
  std::uint64_t delivered = 0;
  std::array<std::uint64_t, fabric::kLossKinds> at_port{};  // lost behind the fabric, by cause
  std::uint64_t lost_data = 0, lost_other = 0;              // copies that a fault made included
};

class Network {
 public:
  Network(const fabric::FabricConfig& config, std::uint64_t seed, std::uint16_t hosts,
          const HostModel& model, Ledger& ledger, const std::uint8_t* arena)
      : ledger_(ledger),
        arena_(arena),
        poll_interval_(model.poll_interval * kPicosPerNano),
        receiver_delay_(model.receiver_delay * kPicosPerNano),
        receive_queue_(model.receive_queue),
        single_class_(model.single_class),
        inboxes_(hosts),
        polls_(hosts),
        fabric_(config, seed, queue_, *this) {}

  // ---- for hosts
  // Frame headers cross the wire with Ethernet, IPv4 and UDP in front. [MR-3.1.1]
  static constexpr std::uint32_t kEncapsulation = 14 + 20 + 8;
  void send(const FrameInfo& info, const std::uint8_t* header, std::uint16_t dst) {
    fabric::Packet p{};
    p.bytes = kEncapsulation + info.header_bytes + info.payload_bytes;
    const std::uint32_t frame = frames_.take(info, header);
    p.user = frame;
    p.entropy = (std::uint32_t{info.src_port} << 16) | info.dst_port;
    p.src = info.src_host;
    p.dst = dst;
    p.plane = info.plane;
    p.control = info.control && !single_class_;
    p.ect = true;
    if (is_data(header)) {
      ++counters_.data_packets;
      counters_.data_bytes += p.bytes;
      if (info.payload != nullptr && (header[1] & wire::kFlagRtx) != 0)
        ledger_.resent(offset_of(info));
      if (losses_ != nullptr && info.payload != nullptr) [[unlikely]]
        frames_.number(frame, losses_->sent(offset_of(info)));
    } else {
      ++counters_.control_packets;
      counters_.control_bytes += p.bytes;
    }
    fabric_.send(p);
  }
  // Room in the port's transmit ring; asks to be polled when there is room again.
  bool ready(std::uint16_t host, std::uint8_t plane) {
    if (fabric_.nic_room(host, plane)) return true;
    fabric_.want_room(host, plane);
    return false;
  }
  std::vector<Arrival>& inbox(std::uint16_t host) { return inboxes_[host]; }
  FramePool& frames() { return frames_; }
  Ledger& ledger() { return ledger_; }
  const std::uint8_t* arena() const { return arena_; }
  // Whether these are bytes of a flow; the padding of a full-size PROBE is not.
  [[nodiscard]] bool in_arena(const std::uint8_t* p) const {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(arena_) <
           ledger_.bytes();
  }

  // ---- time
  fabric::EventQueue& queue() { return queue_; }
  [[nodiscard]] Nanos now() const { return queue_.now() / kPicosPerNano; }
  // What the events behind the one that was popped will look at.
  void prefetch() {
    std::uint8_t kind = 0;
    std::uint32_t a = 0;
    if (queue_.soon(1, kind, a)) fabric_.prefetch(kind, a);
  }
  // Polls `host` at `at`, or as soon after as its interval allows, unless it is polled before.
  void wake(std::uint16_t host, Picos at) {
    Poll& p = polls_[host];
    at = std::max(std::max(at, p.last + poll_interval_), queue_.now());
    if (at >= p.planned) return;
    p.planned = at;
    if (at < std::min(p.near, p.far)) plan(p, host);
  }
  // True when the host is to be polled now.
  bool begin_poll(const fabric::Event& e) {
    Poll& p = polls_[e.a];
    if (e.b == kFarPoll)
      p.far = kNever;
    else if (e.b == p.generation)
      p.near = kNever;
    else
      return false;  // an earlier one took its place
    if (p.planned > queue_.now()) {
      if (p.planned < std::min(p.near, p.far)) plan(p, static_cast<std::uint16_t>(e.a));
      return false;
    }
    p.last = queue_.now();
    p.planned = kNever;
    return true;
  }

  // ---- the fabric's sink
  void deliver(Picos now, std::uint16_t host, const fabric::Packet& p) {
    const auto frame = static_cast<std::uint32_t>(p.user);
    // The port's frame check sequence finds it.
    if (p.corrupt) return refuse(frame, fabric::Loss::kCorrupt);
    if (inboxes_[host].size() >= receive_queue_) return refuse(frame, fabric::Loss::kHostFull);
    ++counters_.delivered;
    if (capture_ != nullptr) [[unlikely]]
      capture_->frame(queue_.now() / kPicosPerNano, host, p.ce, frames_.info(frame),
                      frames_.header(frame));
    trace_ = (trace_ ^ (static_cast<std::uint64_t>(now) + (std::uint64_t{host} << 48) + p.bytes)) *
             0x100000001b3ULL;
    frames_.prefetch(frame);
    inboxes_[host].push_back(Arrival{frame, p.ce});
    wake(host, now + receiver_delay_);
  }
  void lost(Picos, const fabric::Packet& p, fabric::Loss why) {
    const auto frame = static_cast<std::uint32_t>(p.user);
    account_loss(frame, why);
    frames_.give(frame);
  }
  // A fault's second copy: its frame lives and dies on its own.
  std::uint64_t duplicate(const fabric::Packet& p) {
    return frames_.copy(static_cast<std::uint32_t>(p.user));
  }
  void nic_ready(Picos now, std::uint16_t host, std::uint8_t) { wake(host, now); }

  fabric::Fabric<Network>& fabric() { return fabric_; }
  [[nodiscard]] const fabric::Fabric<Network>& fabric() const { return fabric_; }
  // `capture` sees every frame that a port accepts, in that order; nullptr: none does.
  void set_capture(Capture* capture) { capture_ = capture; }
  // Lists losses; set before the first packet with payload, so that transmissions count from 1.
  void set_losses(LossLog* losses) { losses_ = losses; }
  [[nodiscard]] const NetworkCounters& counters() const { return counters_; }
  // FNV-1a over time, host and size of every delivery: equal runs, equal numbers.
  [[nodiscard]] std::uint64_t trace() const { return trace_; }

 private:
  // A host that is polled moves its next time on each time. So one event, the far one, stays in the
  // queue, looks at its time and waits for the next; only what comes before it has another one.
  struct Poll {
    Picos last = -(Picos{1} << 60), planned = kNever;
    Picos near = kNever, far = kNever;  // events in the queue
    std::uint32_t generation = 0;       // of the near one
  };
  static constexpr std::uint32_t kFarPoll = 0xffffffff;
  // The planned time comes before the events in the queue.
  void plan(Poll& p, std::uint16_t host) {
    if (p.far == kNever) {
      p.far = p.planned;
      queue_.schedule(p.planned, kPollEvent, host, kFarPoll);
    } else {
      p.near = p.planned;
      p.generation = p.generation + 1 == kFarPoll ? 0 : p.generation + 1;
      queue_.schedule(p.planned, kPollEvent, host, p.generation);
    }
  }
  void refuse(std::uint32_t frame, fabric::Loss why) {
    ++counters_.at_port[static_cast<std::size_t>(why)];
    account_loss(frame, why);
    frames_.give(frame);
  }
  void account_loss(std::uint32_t frame, fabric::Loss why) {
    if (!is_data(frames_.header(frame))) {
      ++counters_.lost_other;
      return;
    }
    ++counters_.lost_data;
    const FrameInfo& f = frames_.info(frame);
    if (f.payload == nullptr) return;
    ledger_.lost(now(), offset_of(f));
    if (losses_ != nullptr) [[unlikely]]
      losses_->lost(now(), offset_of(f), f.transmission, why);
  }
  static bool is_data(const std::uint8_t* header) {
    return reinterpret_cast<const wire::Common*>(header)->type() == wire::Type::kData;
  }
  [[nodiscard]] std::uint64_t offset_of(const FrameInfo& f) const {
    return static_cast<std::uint64_t>(f.payload - arena_);
  }

  Ledger& ledger_;
  const std::uint8_t* arena_;
  Picos poll_interval_, receiver_delay_;
  std::size_t receive_queue_;
  bool single_class_;
  fabric::EventQueue queue_;
  FramePool frames_;
  std::vector<std::vector<Arrival>> inboxes_;
  std::vector<Poll> polls_;
  Capture* capture_ = nullptr;
  LossLog* losses_ = nullptr;
  NetworkCounters counters_;
  std::uint64_t trace_ = 0xcbf29ce484222325ULL;
  fabric::Fabric<Network> fabric_;  // last: its sink is this object
};

}  // namespace metaroce::sim
