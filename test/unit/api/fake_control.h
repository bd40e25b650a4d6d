// A host without a network: joins streams of its own clients and moves work requests to
// completions. Enough of ControlApi to test both sides of lib/api over real shared memory.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "transport/control_api.h"

namespace metaroce {

class FakeControl final : public ControlApi {
 public:
  explicit FakeControl(std::uint32_t groups = 2) : groups_(groups) {}

  bool hold_work = false;    // leave submission rings alone
  bool hold_remove = false;  // do not answer remove_client
  std::uint64_t corrupt_rings = 0, bad_keys = 0;

  [[nodiscard]] std::uint32_t groups() const override { return groups_; }

  void add_client(std::uint64_t token, ClientId c, std::vector<GroupRings> rings) override {
    clients_[c].rings = std::move(rings);
    done(token, c);
  }
  void remove_client(std::uint64_t token, ClientId c) override {
    std::erase_if(listeners_, [&](const auto& l) { return l.second == c; });
    for (auto& [h, s] : streams_)
      if (s.client == c && !s.closed) close_now(h);
    std::erase_if(streams_, [&](const auto& s) { return s.second.client == c; });
    for (auto& r : requests_)
      if (r.listener == c) refuse(r, ControlStatus::kPeerLost);
    std::erase_if(requests_, [&](const Request& r) { return r.from == c || r.listener == c; });
    std::erase_if(cqs_, [&](const auto& q) { return q.second.client == c; });
    std::erase_if(regions_, [&](const auto& r) { return r.second.client == c; });
    clients_.erase(c);
    if (hold_remove)
      held_.push_back({token, c});
    else
      done(token, c);
  }
  void release_held() {
    for (const auto& [t, c] : held_) done(t, c);
    held_.clear();
  }

  void add_region(std::uint64_t token, ClientId c, std::uint64_t va, std::uint8_t* host,
                  std::uint64_t length, std::uint32_t) override {
    const std::uint32_t key = next_key_ += 0x1357;
    regions_[key] = {c, va, host, length};
    done(token, c, ControlStatus::kOk, key);
  }
  void remove_region(std::uint64_t token, ClientId c, std::uint32_t key) override {
    done(token, c, regions_.erase(key) != 0 ? ControlStatus::kOk : ControlStatus::kNoSuchObject);
  }
  void add_cq(std::uint64_t token, ClientId c, std::vector<CqRings> rings,
              std::atomic<std::uint32_t>* armed, int event_fd) override {
    const std::uint32_t id = next_cq_++;
    cqs_[id] = {c, std::move(rings), armed, event_fd};
    done(token, c, ControlStatus::kOk, id);
  }
  void remove_cq(std::uint64_t token, ClientId c, std::uint32_t cq) override {
    for (const auto& [h, s] : streams_)
      if (s.attr.send_cq == cq || s.attr.recv_cq == cq)
        return done(token, c, ControlStatus::kInUse);
    cqs_.erase(cq);
    done(token, c);
  }
  void listen(std::uint64_t token, ClientId c, std::uint32_t service) override {
    const bool ok = listeners_.try_emplace(service, c).second;
    done(token, c, ok ? ControlStatus::kOk : ControlStatus::kInUse);
  }
  void unlisten(std::uint64_t token, ClientId c, std::uint32_t service) override {
    listeners_.erase(service);
    done(token, c);
  }
  void connect(std::uint64_t token, ClientId c, const IpAddress& peer, std::uint32_t service,
               const StreamAttr& attr, Nanos deadline) override {
    const auto l = listeners_.find(service);
    if (l == listeners_.end()) return done(token, c, ControlStatus::kRefused);
    const std::uint64_t id = next_request_++;
    requests_.push_back({id, token, c, l->second, attr, deadline});
    ControlEvent e;
    e.kind = ControlEventKind::kConnectRequest;
    e.client = l->second;
    e.service = service;
    e.request = id;
    e.peer = peer;
    e.private_data = attr.private_data;
    events_.push_back(e);
  }
  void accept(std::uint64_t token, ClientId c, std::uint64_t request,
              const StreamAttr& attr) override {
    const auto r = std::find_if(requests_.begin(), requests_.end(),
                                [&](const Request& x) { return x.id == request; });
    if (r == requests_.end() || r->listener != c) return done(token, c, ControlStatus::kTimeout);
    const StreamHandle a = add_stream(c, attr), b = add_stream(r->from, r->attr);
    streams_[a].peer = b;
    streams_[b].peer = a;
    stream_event(ControlEventKind::kDone, token, c, a, r->attr.private_data);
    stream_event(ControlEventKind::kConnected, r->token, r->from, b, attr.private_data);
    requests_.erase(r);
  }
  void reject(ClientId c, std::uint64_t request) override {
    for (auto& r : requests_)
      if (r.id == request && r.listener == c) refuse(r, ControlStatus::kRefused);
    std::erase_if(requests_, [&](const Request& r) { return r.id == request; });
  }
  void close(std::uint64_t token, ClientId c, StreamHandle h, Nanos) override {
    const auto s = streams_.find(h);
    if (s == streams_.end() || s->second.client != c)
      return done(token, c, ControlStatus::kNoSuchObject);
    if (!s->second.closed) close_now(h);
    streams_.erase(h);
    done(token, c);
  }
  ControlStatus move_path(ClientId c, StreamHandle h, std::uint8_t path,
                          std::uint16_t port) override {
    const auto s = streams_.find(h);
    if (s == streams_.end() || s->second.client != c || path >= 40)
      return ControlStatus::kNoSuchObject;
    moved_path = path;
    moved_port = port;
    return ControlStatus::kOk;
  }
  std::uint8_t moved_path = 0;
  std::uint16_t moved_port = 0;
  bool conn_stats(ClientId c, StreamHandle h, ConnStats& out) override {
    const auto s = streams_.find(h);
    if (s == streams_.end() || s->second.client != c) return false;
    out.peer = IpAddress::v4(10, 0, 0, 2);
    out.streams = static_cast<std::uint32_t>(streams_.size());
    out.tx_packets = 77;
    for (std::uint8_t i = 0; i < 40; ++i) {
      PathStats p;
      p.path = i;
      p.tx_packets = 1000U + i;
      out.paths.push_back(p);
    }
    return true;
  }
  bool next_event(ControlEvent& out) override {
    if (events_.empty()) return false;
    out = events_.front();
    events_.pop_front();
    return true;
  }

  // One pass of all "roles".
  void pump(Nanos now) {
    for (auto& r : requests_)
      if (now >= r.deadline) refuse(r, ControlStatus::kTimeout);
    std::erase_if(requests_, [&](const Request& r) { return now >= r.deadline; });
    if (hold_work) return;
    for (auto& [c, client] : clients_)
      for (auto& rings : client.rings) {
        take_receives(rings);
        take_sends(rings);
        if (rings.sends.corrupt() || rings.receives.corrupt()) ++corrupt_rings;
      }
  }
  void fail_stream(StreamHandle h) { close_now(h); }
  [[nodiscard]] std::vector<StreamHandle> stream_handles() const {
    std::vector<StreamHandle> v;
    for (const auto& [h, s] : streams_) v.push_back(h);
    return v;
  }
  [[nodiscard]] std::size_t objects() const {
    return clients_.size() + regions_.size() + cqs_.size() + streams_.size() + listeners_.size() +
           requests_.size();
  }

 private:
  struct Client {
    std::vector<GroupRings> rings;
  };
  struct Region {
    ClientId client;
    std::uint64_t va = 0;
    std::uint8_t* host = nullptr;
    std::uint64_t length = 0;
  };
  struct Cq {
    ClientId client;
    std::vector<CqRings> rings;
    std::atomic<std::uint32_t>* armed = nullptr;
    int event_fd = -1;
  };
  struct Stream {
    ClientId client;
    std::uint32_t group = 0;
    StreamAttr attr;
    StreamHandle peer = 0;
    bool closed = false;
    std::deque<WorkRequest> receives;
  };
  struct Request {
    std::uint64_t id, token;
    ClientId from, listener;
    StreamAttr attr;
    Nanos deadline;
  };

  void done(std::uint64_t token, ClientId c, ControlStatus s = ControlStatus::kOk,
            std::uint32_t id = 0) {
    ControlEvent e;
    e.token = token;
    e.client = c;
    e.status = s;
    e.id = id;
    events_.push_back(e);
  }
  void stream_event(ControlEventKind k, std::uint64_t token, ClientId c, StreamHandle h,
                    const PrivateData& d) {
    ControlEvent e;
    e.kind = k;
    e.token = token;
    e.client = c;
    e.stream = h;
    e.group = streams_[h].group;
    e.private_data = d;
    events_.push_back(e);
  }
  void refuse(const Request& r, ControlStatus s) { done(r.token, r.from, s); }
  StreamHandle add_stream(ClientId c, const StreamAttr& attr) {
    const StreamHandle h = (next_stream_ & 0xfff) | 5U << kStreamSlotBits;
    Stream& s = streams_[h];
    s.client = c;
    s.group = next_stream_++ % groups_;
    s.attr = attr;
    return h;
  }
  void complete(std::uint32_t cq, std::uint32_t group, bool rx, const Completion& c) {
    const auto q = cqs_.find(cq);
    if (q == cqs_.end()) return;
    CqRings& rings = q->second.rings[group];
    (rx ? rings.from_rx : rings.from_tx).push(c);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (q->second.armed->load() != 0 && q->second.armed->exchange(0) != 0) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto n = ::write(q->second.event_fd, &one, sizeof one);
    }
  }
  static Completion completion(const WorkRequest& w, WorkOp op, WorkStatus st) {
    Completion c{};
    c.wr_id = w.wr_id;
    c.stream = w.stream;
    c.op = static_cast<std::uint8_t>(op);
    c.status = static_cast<std::uint8_t>(st);
    return c;
  }
  void close_now(StreamHandle h) {
    for (const StreamHandle x : {h, streams_[h].peer}) {
      const auto s = streams_.find(x);
      if (s == streams_.end() || s->second.closed) continue;
      s->second.closed = true;
      for (const auto& w : s->second.receives)
        complete(s->second.attr.recv_cq, s->second.group, true,
                 completion(w, WorkOp::kRecv, WorkStatus::kFlushed));
      s->second.receives.clear();
      if (x == h) continue;
      ControlEvent e;
      e.kind = ControlEventKind::kStreamDown;
      e.client = s->second.client;
      e.stream = x;
      e.group = s->second.group;
      events_.push_back(e);
    }
  }
  std::uint8_t* at(std::uint32_t key, std::uint64_t addr, std::uint64_t length, ClientId c) {
    const auto r = regions_.find(key);
    if (r == regions_.end() || r->second.client != c || addr < r->second.va ||
        length > r->second.length || addr - r->second.va > r->second.length - length) {
      ++bad_keys;
      return nullptr;
    }
    return r->second.host + (addr - r->second.va);
  }
  void take_receives(GroupRings& rings) {
    WorkRequest w;
    while (rings.receives.pop(w)) {
      const auto s = streams_.find(w.stream);
      if (s != streams_.end() && !s->second.closed) s->second.receives.push_back(w);
    }
  }
  void take_sends(GroupRings& rings) {
    WorkRequest w;
    for (int i = 0; i < 64 && rings.sends.peek(w); ++i) {
      const auto it = streams_.find(w.stream);
      if (it == streams_.end()) {
        rings.sends.drop();
        continue;
      }
      Stream& s = it->second;
      const auto q = cqs_.find(s.attr.send_cq);
      if (q == cqs_.end() || q->second.rings[s.group].from_tx.room() == 0) return;
      const auto op = static_cast<WorkOp>(w.op);
      WorkStatus st = WorkStatus::kSuccess;
      const auto peer = streams_.find(s.peer);
      if (s.closed || peer == streams_.end()) {
        st = WorkStatus::kFlushed;
      } else if (!move(w, op, s, peer->second, st)) {
        return;  // no receive yet
      }
      rings.sends.drop();
      if (st != WorkStatus::kSuccess || (w.flags & kWorkSignaled) != 0)
        complete(s.attr.send_cq, s.group, false, completion(w, op, st));
    }
  }
  bool move(const WorkRequest& w, WorkOp op, Stream& s, Stream& peer, WorkStatus& st) {
    const bool takes = op != WorkOp::kWrite;
    if (takes && peer.receives.empty()) return false;
    const std::uint8_t* from = at(w.lkey, w.local_addr, w.length, s.client);
    const bool write = op == WorkOp::kWrite || op == WorkOp::kWriteImm;
    std::uint8_t* to = nullptr;
    WorkRequest r{};
    if (takes) {
      r = peer.receives.front();
      peer.receives.pop_front();
    }
    if (w.length != 0) {
      to = write ? at(w.rkey, w.remote_addr, w.length, peer.client)
                 : at(r.lkey, r.local_addr, w.length, peer.client);
      if (from == nullptr)
        st = WorkStatus::kLocalProtection;
      else if (to == nullptr)
        st = WorkStatus::kRemoteAccess;
      else
        std::memcpy(to, from, w.length);
    }
    if (takes && st == WorkStatus::kSuccess) {
      Completion c = completion(r, write ? WorkOp::kRecvWriteImm : WorkOp::kRecv, st);
      c.byte_len = w.length;
      if (op != WorkOp::kSend) {
        c.imm = w.imm;
        c.flags = kCompletionImm;
      }
      complete(peer.attr.recv_cq, peer.group, true, c);
    }
    return true;
  }

  std::uint32_t groups_;
  std::uint32_t next_key_ = 1, next_cq_ = 1000, next_stream_ = 1;
  std::uint64_t next_request_ = 1;
  std::map<ClientId, Client> clients_;
  std::map<std::uint32_t, Region> regions_;
  std::map<std::uint32_t, Cq> cqs_;
  std::map<StreamHandle, Stream> streams_;
  std::map<std::uint32_t, ClientId> listeners_;
  std::vector<Request> requests_;
  std::vector<std::pair<std::uint64_t, ClientId>> held_;
  std::deque<ControlEvent> events_;
};

}  // namespace metaroce
