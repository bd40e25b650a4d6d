#include "api/server/session.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

namespace metaroce {
namespace {

void set_text(abi::Message& m, const std::string& text) {
  const std::size_t n = std::min(text.size(), m.text.size() - 1);
  std::memcpy(m.text.data(), text.data(), n);
  m.text[n] = '\0';
}

void set_peer(abi::Message& m, const ControlEvent& e) {
  m.peer = e.peer.b;
  m.peer_v6 = e.peer.v6 ? 1 : 0;
  const std::uint32_t n = std::min(e.private_data.length, kMaxPrivateData);
  m.private_length = static_cast<std::uint16_t>(n);
  std::memcpy(m.private_data.data(), e.private_data.bytes.data(), n);
}

}  // namespace

Session::Session(ControlApi& api, Resources& resources, const SessionLimits& limits, ClientId id,
                 MessageSink* sink)
    : api_(api), resources_(resources), limits_(limits), id_(id), sink_(sink) {}

void Session::attach(std::uint64_t client_token) {
  const std::uint32_t groups = api_.groups(), entries = limits_.submission_entries;
  state_ = State::kClosed;  // until the request is on its way
  if (groups == 0 || groups > abi::kMaxGroups || entries > abi::kMaxRingEntries) {
    send(reply(client_token, ControlStatus::kLimit, "the daemon has too many worker groups"));
    return;
  }
  std::string why;
  const std::size_t bytes = abi::block_bytes<WorkRequest>(groups, entries);
  if (!resources_.allocate(Block::Use::kRings, bytes, rings_, why)) {
    send(reply(client_token, ControlStatus::kLimit, why));
    return;
  }
  memory_bytes_ += rings_.length();
  new (rings_.data()) abi::ClientHeader{abi::kMagic, abi::kVersion, groups, entries, 1U};
  std::vector<GroupRings> rings(groups);
  for (std::uint32_t g = 0; g < groups; ++g) {
    const auto sends = abi::ring_at<WorkRequest>(rings_.data(), entries, g, abi::Lane::kTx);
    const auto receives = abi::ring_at<WorkRequest>(rings_.data(), entries, g, abi::Lane::kRx);
    rings[g].sends = {new (sends.header) RingHeader, sends.slots, entries};
    rings[g].receives = {new (receives.header) RingHeader, receives.slots, entries};
  }
  state_ = State::kAttaching;
  api_.add_client(expect(Op::kAttach, client_token), id_, std::move(rings));
}

void Session::begin_close() {
  sink_ = nullptr;
  if (state_ == State::kNew) state_ = State::kClosed;
  // While attaching, finish_attach() sees that nobody listens any more.
  if (state_ != State::kAttached) return;
  if (rings_.data() != nullptr)
    reinterpret_cast<abi::ClientHeader*>(rings_.data())->alive.store(0, std::memory_order_release);
  state_ = State::kClosing;
  api_.remove_client(expect(Op::kRemoveClient, 0), id_);
}

void Session::on_event(const ControlEvent& e) {
  if (e.token == 0) {
    if (e.kind == ControlEventKind::kConnectRequest) connect_request(e);
    if (e.kind == ControlEventKind::kStreamDown && streams_.contains(e.stream)) {
      OutMessage m = reply(0);
      m.head.kind = static_cast<std::uint16_t>(abi::MessageKind::kStreamDown);
      m.head.stream = e.stream;
      m.head.group = e.group;
      m.head.work_status = static_cast<std::uint8_t>(e.work_status);
      send(std::move(m));
    }
    return;
  }
  const auto it = pending_.find(e.token);
  if (it == pending_.end()) return;
  const Pending p = it->second;
  pending_.erase(it);
  finish(p, e);
}

void Session::finish(const Pending& p, const ControlEvent& e) {
  const bool ok = e.status == ControlStatus::kOk;
  switch (p.op) {
    case Op::kAttach:
      return finish_attach(p, e);
    case Op::kRemoveClient:
      return release_all();
    case Op::kRegister:
      return finish_register(p, e);
    case Op::kCreateCq:
      return finish_cq(p, e);
    case Op::kAccept:
    case Op::kConnect:
      return finish_stream(p, e);
    case Op::kFree: {
      const auto r = regions_.find(p.object);
      if (r != regions_.end()) {
        if (ok) {
          memory_bytes_ -= r->second.block.length();
          regions_.erase(r);
        } else {
          r->second.state = Region::State::kRegistered;
        }
      }
      break;
    }
    case Op::kDestroyCq: {
      const auto q = cqs_.find(p.object);
      if (q != cqs_.end()) {
        if (ok) {
          memory_bytes_ -= q->second.block.length();
          cqs_.erase(q);
        } else {
          q->second.ready = true;
        }
      }
      break;
    }
    case Op::kListen:
      if (ok)
        listeners_[p.object].ready = true;
      else
        listeners_.erase(p.object);
      break;
    case Op::kUnlisten:
      std::erase_if(requests_, [&](const auto& r) {
        if (r.second != p.object) return false;
        api_.reject(id_, r.first);
        return true;
      });
      listeners_.erase(p.object);
      break;
    case Op::kClose:
      if (ok || e.status == ControlStatus::kNoSuchObject)
        streams_.erase(p.object);
      else if (const auto s = streams_.find(p.object); s != streams_.end())
        s->second = false;
      break;
  }
  send(reply(p.client_token, e.status, e.message));
}

void Session::finish_attach(const Pending& p, const ControlEvent& e) {
  if (e.status != ControlStatus::kOk) {
    state_ = State::kClosed;
    send(reply(p.client_token, e.status, e.message));
    release_all();
    return;
  }
  state_ = State::kAttached;
  if (sink_ == nullptr) return begin_close();  // gone in the meantime
  OutMessage m = reply(p.client_token);
  m.head.groups = api_.groups();
  m.head.capacity = limits_.submission_entries;
  m.head.length = rings_.length();
  m.direct = rings_.data();
  m.fds[0] = rings_.take_fd();
  send(std::move(m));
}

void Session::finish_register(const Pending& p, const ControlEvent& e) {
  const auto r = regions_.find(p.object);
  OutMessage m = reply(p.client_token, e.status, e.message);
  if (r != regions_.end()) {
    r->second.state =
        e.status == ControlStatus::kOk ? Region::State::kRegistered : Region::State::kAllocated;
    r->second.key = m.head.key = e.id;
  }
  send(std::move(m));
}

void Session::finish_cq(const Pending& p, const ControlEvent& e) {
  const auto q = cqs_.find(p.object);
  OutMessage m = reply(p.client_token, e.status, e.message);
  if (q != cqs_.end() && e.status != ControlStatus::kOk) {
    memory_bytes_ -= q->second.block.length();
    cqs_.erase(q);
  } else if (q != cqs_.end()) {
    Cq& cq = q->second;
    cq.ready = true;
    cq.api_id = e.id;
    m.head.id = p.object;
    m.head.groups = api_.groups();
    m.head.capacity = cq.capacity;
    m.head.length = cq.block.length();
    m.direct = cq.block.data();
    m.fds[0] = cq.block.take_fd();
    m.fds[1] = std::move(cq.wake.client);
  }
  send(std::move(m));
}

void Session::finish_stream(const Pending& p, const ControlEvent& e) {
  --opening_;
  OutMessage m = reply(p.client_token, e.status, e.message);
  if (e.status == ControlStatus::kOk) {
    streams_.emplace(e.stream, false);
    m.head.stream = e.stream;
    m.head.group = e.group;
    set_peer(m.head, e);
  }
  send(std::move(m));
}

void Session::connect_request(const ControlEvent& e) {
  const auto l = listeners_.find(e.service);
  if (sink_ == nullptr || l == listeners_.end() || l->second.waiting >= limits_.backlog ||
      requests_.contains(e.request)) {
    api_.reject(id_, e.request);
    return;
  }
  ++l->second.waiting;
  requests_.emplace(e.request, e.service);
  OutMessage m = reply(0);
  m.head.kind = static_cast<std::uint16_t>(abi::MessageKind::kConnectRequest);
  m.head.service = e.service;
  m.head.request = e.request;
  set_peer(m.head, e);
  send(std::move(m));
}

void Session::forget_request(std::uint64_t request) {
  const auto r = requests_.find(request);
  if (r == requests_.end()) return;
  if (const auto l = listeners_.find(r->second); l != listeners_.end()) --l->second.waiting;
  requests_.erase(r);
}

// No role knows the client any more.
void Session::release_all() {
  pending_.clear();
  requests_.clear();
  listeners_.clear();
  streams_.clear();
  opening_ = 0;
  cqs_.clear();
  regions_.clear();
  rings_.release();
  memory_bytes_ = 0;
  state_ = State::kClosed;
}

void Session::add_counts(SessionCounts& c) const {
  c.sessions += 1;
  c.regions += static_cast<std::uint32_t>(regions_.size());
  c.cqs += static_cast<std::uint32_t>(cqs_.size());
  c.streams += static_cast<std::uint32_t>(streams_.size()) + opening_;
  c.listeners += static_cast<std::uint32_t>(listeners_.size());
  c.requests += static_cast<std::uint32_t>(requests_.size());
  c.memory_bytes += memory_bytes_;
}

std::uint64_t Session::expect(Op op, std::uint64_t client_token, std::uint32_t object) {
  const std::uint64_t token = session_token(id_, next_token_++);
  pending_.emplace(token, Pending{op, client_token, object});
  return token;
}

OutMessage Session::reply(std::uint64_t client_token, ControlStatus s,
                          const std::string& text) const {
  OutMessage m;
  m.head.magic = abi::kMagic;
  m.head.version = abi::kVersion;
  m.head.kind = static_cast<std::uint16_t>(abi::MessageKind::kReply);
  m.head.token = client_token;
  m.head.status = static_cast<std::uint8_t>(s);
  set_text(m.head, text);
  return m;
}

void Session::send(OutMessage&& m) {
  if (sink_ != nullptr) sink_->deliver(std::move(m));
}

void Session::refuse(const abi::Request& r, ControlStatus s, const std::string& text) {
  send(reply(r.token, s, text));
}

}  // namespace metaroce
