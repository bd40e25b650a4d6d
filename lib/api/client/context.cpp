#include "api/client/context.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "api/client/errors.h"

using namespace metaroce;

namespace metaroce {

WorkQueue::WorkQueue(std::uint32_t depth)
    : depth_(depth), mask_(std::bit_ceil(depth) - 1), entries_(std::bit_ceil(depth)) {}

namespace {

constexpr std::uint32_t kLooksSkipped = 1024;  // polls that found work

Nanos coarse_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}

int errno_of(ControlStatus s) {
  switch (s) {
    case ControlStatus::kOk:
      return 0;
    case ControlStatus::kNoSuchObject:
      return ENOENT;
    case ControlStatus::kLimit:
      return ENOBUFS;
    case ControlStatus::kInUse:
      return EBUSY;
    case ControlStatus::kInvalid:
      return EINVAL;
    case ControlStatus::kRefused:
      return ECONNREFUSED;
    case ControlStatus::kUnreachable:
      return EHOSTUNREACH;
    case ControlStatus::kTimeout:
      return ETIMEDOUT;
    case ControlStatus::kPeerLost:
      return ECONNABORTED;
    case ControlStatus::kIncompatible:
      return EPROTO;
  }
  return EPROTO;
}

const char* sentence(ControlStatus s) {
  switch (s) {
    case ControlStatus::kOk:
      break;
    case ControlStatus::kNoSuchObject:
      return "no such object";
    case ControlStatus::kLimit:
      return "a limit of the daemon is reached";
    case ControlStatus::kInUse:
      return "still in use";
    case ControlStatus::kInvalid:
      return "argument out of range";
    case ControlStatus::kRefused:
      return "the peer refused: nobody listens on this service";
    case ControlStatus::kUnreachable:
      return "no route or neighbour for the peer's address";
    case ControlStatus::kTimeout:
      return "the peer did not answer in time";
    case ControlStatus::kPeerLost:
      return "the connection to the peer was lost";
    case ControlStatus::kIncompatible:
      return "no protocol version or MTU in common";
  }
  return "the daemon refused";
}

bool same_block(const abi::Message& m) {
  return m.groups != 0 && m.groups <= abi::kMaxGroups && m.capacity <= abi::kMaxRingEntries &&
         std::has_single_bit(m.capacity);
}

}  // namespace
}  // namespace metaroce

metaroce_context::~metaroce_context() {
  streams.clear();
  for (auto& [p, q] : cqs) backend->unmap(q->block, q->length);
  for (auto& [p, m] : memory) backend->unmap(static_cast<std::byte*>(p), m.length);
  if (block != nullptr) backend->unmap(block, length);
}

abi::Request metaroce_context::request(abi::RequestKind kind) {
  abi::Request r{};
  r.magic = abi::kMagic;
  r.version = abi::kVersion;
  r.kind = static_cast<std::uint16_t>(kind);
  return r;
}

int metaroce_context::attach(const char* host, Nanos deadline) {
  auto r = request(abi::RequestKind::kAttach);
  if (host != nullptr) {
    if (std::strlen(host) >= r.host.size()) return fail(EINVAL, "the host's name is too long");
    std::memcpy(r.host.data(), host, std::strlen(host));
  }
  Incoming in;
  if (const int e = call(r, deadline - monotonic_now(), in); e != 0) return e;
  if (!same_block(in.head) ||
      in.head.length < abi::block_bytes<WorkRequest>(in.head.groups, in.head.capacity))
    return fail(EPROTO, "the daemon's reply makes no sense: install both from one release");
  std::string why;
  block = backend->map(in, why);
  if (block == nullptr) return fail(ENOMEM, why);
  length = in.head.length;
  header = reinterpret_cast<abi::ClientHeader*>(block);
  groups.resize(in.head.groups);
  const std::uint32_t capacity = in.head.capacity;
  for (std::uint32_t g = 0; g < in.head.groups; ++g) {
    const auto tx = abi::ring_at<WorkRequest>(block, capacity, g, abi::Lane::kTx);
    const auto rx = abi::ring_at<WorkRequest>(block, capacity, g, abi::Lane::kRx);
    groups[g].sends = {tx.header, tx.slots, capacity};
    groups[g].receives = {rx.header, rx.slots, capacity};
  }
  return 0;
}

int metaroce_context::refuse_gone() const { return fail(ECONNRESET, gone_why); }

int metaroce_context::call(abi::Request& r, Nanos limit, Incoming& out) {
  if (gone) return refuse_gone();
  r.token = next_token++;
  const Nanos deadline = monotonic_now() + limit;
  if (!backend->send(r, limit)) pump();
  while (!gone) {
    while (backend->receive(out)) {
      if (out.head.token == r.token) {
        const auto s = static_cast<ControlStatus>(out.head.status);
        if (s == ControlStatus::kOk) return 0;
        return fail(errno_of(s), out.head.text[0] != '\0' ? out.head.text.data() : sentence(s));
      }
      if (!take(out)) lose("the daemon sent what this library does not know");
    }
    if (backend->gone()) lose("the daemon is gone: detach and attach again");
    const Nanos left = deadline - monotonic_now();
    // Its state of our objects is unknown from here on.
    if (left <= 0) lose("the daemon did not answer in time: detach and attach again");
    if (!gone) backend->wait(left);
  }
  return refuse_gone();
}

bool metaroce_context::post(abi::Request& r) { return !gone && backend->send(r, kAnswerLimit); }

void metaroce_context::pump() {
  Incoming in;
  while (!gone && backend->receive(in))
    if (!take(in)) lose("the daemon sent what this library does not know");
  if (backend->gone()) lose("the daemon is gone: detach and attach again");
}

void metaroce_context::look(bool empty) {
  if (gone || (!empty && ++looks % kLooksSkipped != 0)) return;
  if (header->alive.load(std::memory_order_acquire) == 0) {
    pump();
    return lose("the daemon ended this session: detach and attach again");
  }
  const Nanos now = coarse_now();
  if (now - looked < kLookInterval) return;
  looked = now;
  pump();
}

bool metaroce_context::take(const Incoming& in) {
  const abi::Message& m = in.head;
  switch (static_cast<abi::MessageKind>(m.kind)) {
    case abi::MessageKind::kConnectRequest: {
      ConnectRequest c;
      c.service = m.service;
      c.request = m.request;
      c.peer_data.length = std::min<std::uint32_t>(m.private_length, kMaxPrivateData);
      c.peer_data.bytes = m.private_data;
      requests.push_back(c);
      return true;
    }
    case abi::MessageKind::kStreamDown: {
      metaroce_stream* s = find(m.group, m.stream);
      if (s == nullptr || s->down) return true;
      s->down = true;
      events.push_back({s, {METAROCE_EVENT_STREAM_CLOSED, m.work_status, s->user}});
      return true;
    }
    case abi::MessageKind::kReply:
      return false;  // to a request that nobody made
  }
  return false;
}

void metaroce_context::lose(const char* why) {
  if (gone) return;
  gone = true;
  gone_why = why;
  requests.clear();
  events.push_back({nullptr, {METAROCE_EVENT_DATAPLANE_GONE, METAROCE_FLUSHED, nullptr}});
}

metaroce_stream* metaroce_context::find(std::uint32_t group, StreamHandle h) const {
  if (group >= groups.size()) return nullptr;
  const auto& slots = groups[group].by_slot;
  const std::uint32_t slot = stream_slot(h);
  if (slot >= slots.size() || slots[slot] == nullptr || slots[slot]->handle != h) return nullptr;
  return slots[slot];
}

void metaroce_context::add_stream(std::unique_ptr<metaroce_stream> s) {
  auto& slots = groups[s->group].by_slot;
  const std::uint32_t slot = stream_slot(s->handle);
  if (slot >= slots.size()) slots.resize(slot + 1);
  slots[slot] = s.get();
  ++s->send_cq->users;
  ++s->recv_cq->users;
  metaroce_stream* key = s.get();
  streams.emplace(key, std::move(s));
}

void metaroce_context::remove_stream(metaroce_stream* s) {
  auto& slots = groups[s->group].by_slot;
  const std::uint32_t slot = stream_slot(s->handle);
  if (slots[slot] == s) slots[slot] = nullptr;
  --s->send_cq->users;
  --s->recv_cq->users;
  // Events name the stream by `user`, which the application may free now.
  std::erase_if(events, [&](const auto& e) { return e.first == s; });
  streams.erase(s);
}
