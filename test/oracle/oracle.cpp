#include "oracle/oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <queue>
#include <string_view>
#include <tuple>

namespace metaroce::oracle {
namespace {

using sim::Flow;
using sim::kNoFlow;

enum class What : std::uint8_t { kStart, kLinkFree, kLearn, kAtReceiver, kAtSender };

struct Event {
  Picos at;
  std::uint64_t order;
  What what;
  std::uint32_t id;  // host for kLinkFree, otherwise flow
  std::uint32_t packet = 0, transmission = 0;
  bool operator<(const Event& other) const {  // the queue's top is the largest
    return std::tie(other.at, other.order) < std::tie(at, order);
  }
};

// Packets [next, end) of a flow, to be sent for the nth time.
struct Burst {
  std::uint32_t flow, next, end, transmission;
};

struct Host {
  std::deque<Burst> waiting;
  bool sending = false;
};

class Model {
 public:
  Model(const sim::Workload& w, const sim::IdealFabric& fabric, std::uint32_t mtu,
        const Losses& losses)
      : w_(w), fabric_(fabric), mtu_(mtu), losses_(losses), hosts_(w.hosts) {
    packet_ = picos(fabric.packet_ns());
    ack_ = picos(fabric.ack_ns());
    propagation_ = picos(fabric.propagation_ns);
    left_.resize(w.flows.size());
    waits_.assign(w.flows.size(), 0);
    waiters_.resize(w.flows.size());
    answer_.receiver_done.assign(w.flows.size(), 0);
    answer_.sender_done.assign(w.flows.size(), 0);
    for (const Flow& f : w.flows) {
      left_[f.id] = packets(f);
      for (const std::uint32_t d : {f.dep, f.dep2}) {
        if (d == kNoFlow) continue;
        ++waits_[f.id];
        waiters_[d].push_back(f.id);
      }
      if (waits_[f.id] == 0) add(f.start * 1000, What::kStart, f.id);
    }
  }

  Answer run() {
    while (!events_.empty()) {
      const Event e = events_.top();
      events_.pop();
      now_ = e.at;
      switch (e.what) {
        case What::kStart:
          hosts_[w_.flows[e.id].src].waiting.push_back({e.id, 0, packets(w_.flows[e.id]), 1});
          send(w_.flows[e.id].src);
          break;
        case What::kLinkFree:
          hosts_[e.id].sending = false;
          send(e.id);
          break;
        case What::kLearn:
          hosts_[w_.flows[e.id].src].waiting.push_front(
              {e.id, e.packet, e.packet + 1, e.transmission});
          send(w_.flows[e.id].src);
          break;
        case What::kAtReceiver:
          release(e.id, true);
          break;
        case What::kAtSender:
          answer_.last = std::max(answer_.last, now_);
          release(e.id, false);
          break;
      }
    }
    return std::move(answer_);
  }

 private:
  static Picos picos(double ns) { return static_cast<Picos>(std::llround(ns * 1000)); }
  [[nodiscard]] std::uint32_t packets(const Flow& f) const {
    return std::max(1U, static_cast<std::uint32_t>((f.bytes + mtu_ - 1) / mtu_));
  }
  void add(Picos at, What what, std::uint32_t id, std::uint32_t packet = 0,
           std::uint32_t transmission = 0) {
    events_.push({at, order_++, what, id, packet, transmission});
  }

  // The next packet, when there is one and the link is free.
  void send(std::uint32_t host) {
    Host& h = hosts_[host];
    if (h.sending || h.waiting.empty()) return;
    Burst& b = h.waiting.front();
    const std::uint32_t flow = b.flow, packet = b.next, transmission = b.transmission;
    if (++b.next == b.end) h.waiting.pop_front();
    h.sending = true;
    add(now_ + packet_, What::kLinkFree, host);
    ++answer_.sent;
    const Flow& f = w_.flows[flow];
    const Picos hops = fabric_.hops(f.src, f.dst);
    const Picos there = hops * (packet_ + propagation_), back = hops * (ack_ + propagation_);
    if (losses_.contains(flow, packet, transmission)) {
      ++answer_.lost;
      add(now_ + there + back, What::kLearn, flow, packet, transmission + 1);
      return;
    }
    if (--left_[flow] != 0) return;
    // All packets of a flow take equally long: the one sent last is the last to arrive.
    answer_.receiver_done[flow] = now_ + there;
    answer_.sender_done[flow] = now_ + there + back;
    add(answer_.receiver_done[flow], What::kAtReceiver, flow);
    add(answer_.sender_done[flow], What::kAtSender, flow);
  }

  void release(std::uint32_t flow, bool at_receiver) {
    for (const std::uint32_t f : waiters_[flow]) {
      if (w_.flows[f].dep_at_receiver != at_receiver || --waits_[f] != 0) continue;
      add(std::max(now_, Picos{w_.flows[f].start} * 1000), What::kStart, f);
    }
  }

  const sim::Workload& w_;
  const sim::IdealFabric& fabric_;
  const std::uint32_t mtu_;
  const Losses& losses_;
  Picos packet_ = 0, ack_ = 0, propagation_ = 0, now_ = 0;
  std::vector<Host> hosts_;
  std::vector<std::uint32_t> left_;  // packets of the flow that have not been sent for good
  std::vector<std::uint8_t> waits_;  // dependencies left
  std::vector<std::vector<std::uint32_t>> waiters_;
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  Answer answer_;
};

// The next field of a line, up to a comma, as a number.
bool number(std::string_view& line, std::uint64_t& out) {
  const std::size_t comma = line.find(',');
  if (comma == std::string_view::npos) return false;
  const auto [end, error] = std::from_chars(line.data(), line.data() + comma, out);
  const bool good = error == std::errc{} && end == line.data() + comma;
  line.remove_prefix(comma + 1);
  return good;
}

}  // namespace

std::string read_losses(std::istream& in, std::uint32_t mtu, const sim::Workload& workload,
                        Losses& losses) {
  std::string text;
  if (!std::getline(in, text) || text != "time_ns,flow,offset,transmission,cause")
    return "line 1: not a list of losses";
  for (std::uint32_t n = 2; std::getline(in, text); ++n) {
    std::string_view line = text;
    std::uint64_t at = 0, flow = 0, offset = 0, transmission = 0;
    if (!number(line, at) || !number(line, flow) || !number(line, offset) ||
        !number(line, transmission))
      return fmt::format("line {}: not a loss", n);
    if (flow == 0 || flow > workload.flows.size() || offset >= workload.flows[flow - 1].bytes ||
        offset % mtu != 0 || transmission == 0)
      return fmt::format("line {}: not of this workload", n);
    losses.add(static_cast<std::uint32_t>(flow - 1), static_cast<std::uint32_t>(offset / mtu),
               static_cast<std::uint32_t>(transmission));
  }
  return {};
}

std::string why_not(const sim::Workload& workload) {
  if (workload.window_lists != 0) return "windowed lists of flows are not modelled";
  return {};
}

Answer ask(const sim::Workload& workload, const sim::IdealFabric& fabric, std::uint32_t mtu,
           const Losses& losses) {
  return Model(workload, fabric, mtu, losses).run();
}

}  // namespace metaroce::oracle
