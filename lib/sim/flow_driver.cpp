#include "sim/flow_driver.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

namespace metaroce::sim {
namespace {

constexpr std::uint32_t kNone = 0xffffffff;
constexpr std::uint32_t kMaxDepth = 4096;

}  // namespace

FlowDriver::FlowDriver(const Workload& workload, const Ledger& ledger)
    : workload_(workload), ledger_(ledger) {
  const auto& flows = workload.flows;
  const std::size_t n = flows.size();
  stream_of_.resize(n);
  position_.resize(n);
  waits_.assign(n, 0);
  immediate_.assign(n, 0);
  first_waiter_.assign(n, kNone);
  results_.resize(n);
  lists_.resize(workload.window_lists);
  for (std::uint32_t i = 0; i < n; ++i) {
    const Flow& f = flows[i];
    for (const std::uint32_t d : {f.dep, f.dep2}) {
      if (d == kNoFlow) continue;
      edges_.push_back(Edge{i, first_waiter_[d], f.dep_at_receiver});
      first_waiter_[d] = static_cast<std::uint32_t>(edges_.size() - 1);
      ++waits_[i];
      if (f.dep_at_receiver) immediate_[d] = 1;
    }
    if (f.window_list != kNoFlow) {
      lists_[f.window_list].flows.push_back(i);
    } else if (waits_[i] == 0) {
      initial_.push_back(i);
    }
  }
  for (List& l : lists_) {
    const auto first = std::min<std::size_t>(std::max(1U, workload.window), l.flows.size());
    initial_.insert(initial_.end(), l.flows.begin(),
                    l.flows.begin() + static_cast<std::ptrdiff_t>(first));
    l.next = static_cast<std::uint32_t>(first);
  }
  std::map<std::tuple<std::uint16_t, std::uint16_t, std::uint16_t>, std::uint32_t> index;
  for (std::uint32_t i = 0; i < n; ++i) {
    const Flow& f = flows[i];
    const auto [it, fresh] =
        index.try_emplace({f.src, f.dst, f.stream}, static_cast<std::uint32_t>(streams_.size()));
    if (fresh) {
      Stream s;
      s.src = f.src;
      s.dst = f.dst;
      s.ordinal = f.stream;
      streams_.push_back(s);
    }
    stream_of_[i] = it->second;
    Stream& s = streams_[it->second];
    ++s.flows;
    s.with_immediate += immediate_[i];
  }
  for (Stream& s : streams_) {
    s.send_depth = std::bit_ceil(std::min(s.flows, kMaxDepth));
    s.receive_depth = std::bit_ceil(std::clamp(s.with_immediate, 1U, kMaxDepth));
  }
}

void FlowDriver::broke(std::uint32_t flow, const char* rule) {
  if (violation_.empty())
    violation_ = "flow " + std::to_string(workload_.flows[flow].id + 1) + ": " + rule;
}

void FlowDriver::post_receives(Stream& s, SimHost& host) {
  while (s.receives_posted < s.with_immediate && s.receives_posted - s.received < s.receive_depth) {
    WorkRequest w{};
    w.wr_id = s.receives_posted;
    w.stream = s.receive;
    host.post_receive(w);
    ++s.receives_posted;
  }
}

void FlowDriver::start(std::uint32_t f, Nanos now, std::vector<std::unique_ptr<SimHost>>& hosts) {
  const Flow& flow = workload_.flows[f];
  Stream& s = streams_[stream_of_[f]];
  if (s.receives_posted == 0 && s.with_immediate != 0) post_receives(s, *hosts[flow.dst]);
  WorkRequest w{};
  w.wr_id = f;
  w.local_addr = w.remote_addr = ledger_.offset(f);
  w.length = static_cast<std::uint32_t>(flow.bytes);
  w.lkey = w.rkey = kRegionKey;
  w.imm = f;
  w.stream = s.send;
  w.op = static_cast<std::uint8_t>(immediate_[f] != 0 ? WorkOp::kWriteImm : WorkOp::kWrite);
  w.flags = kWorkSignaled;
  position_[f] = s.posted++;
  results_[f].start = now;
  ++started_;
  hosts[flow.src]->post(w);
}

void FlowDriver::release(std::uint32_t dependency, bool at_receiver,
                         std::vector<std::uint32_t>& ready) {
  for (std::uint32_t e = first_waiter_[dependency]; e != kNone; e = edges_[e].next) {
    if (edges_[e].at_receiver == at_receiver && --waits_[edges_[e].waiter] == 0)
      ready.push_back(edges_[e].waiter);
  }
}

void FlowDriver::take(SimHost& host, Nanos now, std::vector<std::unique_ptr<SimHost>>& hosts,
                      std::vector<std::uint32_t>& ready) {
  for (const std::uint32_t f : host.whole) {
    results_[f].receiver_done = now;
    last_progress_ = now;
  }
  host.whole.clear();
  for (const Completion& c : host.received) {
    const std::uint32_t f = c.imm;
    if (c.status != 0 || f >= results_.size()) {
      ++failed_;
      continue;
    }
    Stream& s = streams_[stream_of_[f]];
    if (ledger_.left(f) != 0) broke(f, "complete at the receiver before its last byte was placed");
    if (c.wr_id != s.received) broke(f, "receives of a stream complete out of order");
    ++s.received;
    if (results_[f].receiver_done == kNever) results_[f].receiver_done = now;
    post_receives(s, *hosts[s.dst]);
    release(f, true, ready);
  }
  host.received.clear();
  for (const Completion& c : host.sent) {
    const auto f = static_cast<std::uint32_t>(c.wr_id);
    Stream& s = streams_[stream_of_[f]];
    if (position_[f] != s.completed) broke(f, "requests of a stream complete out of order");
    ++s.completed;
    results_[f].sender_done = now;
    ++done_;
    last_progress_ = now;
    if (c.status != 0) {
      ++failed_;
      continue;
    }
    if (ledger_.left(f) != 0) broke(f, "complete before its last byte was placed");
    // Nobody sees an empty message arrive, unless something waits for it there.
    if (results_[f].receiver_done == kNever) results_[f].receiver_done = now;
    release(f, false, ready);
    const Flow& flow = workload_.flows[f];
    if (flow.window_list != kNoFlow) {
      List& l = lists_[flow.window_list];
      if (l.next < l.flows.size()) ready.push_back(l.flows[l.next++]);
    }
  }
  host.sent.clear();
}

}  // namespace metaroce::sim
