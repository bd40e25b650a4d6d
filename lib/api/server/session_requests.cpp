// The requests of a client, one function each: look up own objects, check limits, ask the host.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "api/server/session.h"

namespace metaroce {
namespace {

constexpr std::uint32_t kAccessAll =
    kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
constexpr Nanos kLongestWait = 3600 * kSecond;

Nanos deadline(Nanos now, std::int64_t timeout) {
  return now + std::clamp<Nanos>(timeout, 0, kLongestWait);
}

}  // namespace

bool Session::handle(const abi::Request& r, Nanos now) {
  const auto kind = static_cast<abi::RequestKind>(r.kind);
  if (state_ != State::kAttached || r.magic != abi::kMagic || r.version != abi::kVersion)
    return false;
  const bool silent = kind == abi::RequestKind::kKickCq || kind == abi::RequestKind::kReject;
  if (r.token == 0 && !silent) return false;
  if (!silent && pending_.size() >= limits_.pending_requests) {
    refuse(r, ControlStatus::kLimit, "too many requests without an answer yet");
    return true;
  }
  switch (kind) {
    case abi::RequestKind::kAlloc:
      alloc(r);
      return true;
    case abi::RequestKind::kRegister:
      register_memory(r);
      return true;
    case abi::RequestKind::kFree:
      free_memory(r);
      return true;
    case abi::RequestKind::kCreateCq:
      create_cq(r);
      return true;
    case abi::RequestKind::kDestroyCq:
      destroy_cq(r);
      return true;
    case abi::RequestKind::kKickCq:
      kick_cq(r);
      return true;
    case abi::RequestKind::kListen:
      listen(r);
      return true;
    case abi::RequestKind::kUnlisten:
      unlisten(r);
      return true;
    case abi::RequestKind::kAccept:
      accept(r);
      return true;
    case abi::RequestKind::kReject:
      reject(r);
      return true;
    case abi::RequestKind::kConnect:
      connect(r, now);
      return true;
    case abi::RequestKind::kClose:
      close_stream(r, now);
      return true;
    case abi::RequestKind::kStats:
      stats(r);
      return true;
    case abi::RequestKind::kMovePath:
      move_path(r);
      return true;
    case abi::RequestKind::kAttach:
      return false;  // once, and before there is a session
  }
  return false;
}

bool Session::reserve_memory(std::uint64_t token, std::uint64_t bytes) {
  if (bytes <= limits_.memory_bytes && memory_bytes_ <= limits_.memory_bytes - bytes) return true;
  send(reply(token, ControlStatus::kLimit,
             "this client may hold " + std::to_string(limits_.memory_bytes) + " bytes and holds " +
                 std::to_string(memory_bytes_) + ": free memory or raise the daemon's limit"));
  return false;
}

void Session::alloc(const abi::Request& r) {
  if (r.length == 0) return refuse(r, ControlStatus::kInvalid, "memory of length 0");
  if (regions_.size() >= limits_.regions)
    return refuse(r, ControlStatus::kLimit,
                  "limit of " + std::to_string(limits_.regions) + " memory regions reached");
  if (!reserve_memory(r.token, r.length)) return;
  Region region;
  std::string why;
  if (!resources_.allocate(Block::Use::kMemory, r.length, region.block, why))
    return refuse(r, ControlStatus::kLimit, why);
  region.length = r.length;
  memory_bytes_ += region.block.length();
  const std::uint32_t id = next_object_++;
  OutMessage m = reply(r.token);
  m.head.id = id;
  m.head.length = region.block.length();
  m.direct = region.block.data();
  m.fds[0] = region.block.take_fd();
  regions_.emplace(id, std::move(region));
  send(std::move(m));
}

void Session::register_memory(const abi::Request& r) {
  const auto it = regions_.find(r.id);
  if (it == regions_.end()) return refuse(r, ControlStatus::kNoSuchObject, "no such memory");
  Region& region = it->second;
  if (region.state != Region::State::kAllocated)
    return refuse(r, ControlStatus::kInUse, "this memory is registered already");
  if (r.va == 0 || r.va > UINT64_MAX - region.length || (r.access & ~kAccessAll) != 0)
    return refuse(r, ControlStatus::kInvalid, "address or access rights of memory out of range");
  region.state = Region::State::kRegistering;
  api_.add_region(expect(Op::kRegister, r.token, r.id), id_, r.va,
                  reinterpret_cast<std::uint8_t*>(region.block.data()), region.length, r.access);
}

void Session::free_memory(const abi::Request& r) {
  const auto it = regions_.find(r.id);
  if (it == regions_.end()) return refuse(r, ControlStatus::kNoSuchObject, "no such memory");
  Region& region = it->second;
  switch (region.state) {
    case Region::State::kAllocated:
      memory_bytes_ -= region.block.length();
      regions_.erase(it);
      return send(reply(r.token));
    case Region::State::kRegistered:
      region.state = Region::State::kRemoving;
      return api_.remove_region(expect(Op::kFree, r.token, r.id), id_, region.key);
    case Region::State::kRegistering:
    case Region::State::kRemoving:
      return refuse(r, ControlStatus::kInUse, "this memory has a request without an answer yet");
  }
}

void Session::create_cq(const abi::Request& r) {
  if (r.depth == 0 || r.depth > limits_.cq_depth)
    return refuse(r, ControlStatus::kInvalid,
                  "depth of a completion queue must be 1 to " + std::to_string(limits_.cq_depth));
  if (cqs_.size() >= limits_.cqs)
    return refuse(r, ControlStatus::kLimit,
                  "limit of " + std::to_string(limits_.cqs) + " completion queues reached");
  const std::uint32_t groups = api_.groups(), capacity = std::bit_ceil(r.depth);
  const std::size_t bytes = abi::block_bytes<Completion>(groups, capacity);
  if (!reserve_memory(r.token, bytes)) return;
  Cq cq;
  std::string why;
  cq.capacity = capacity;
  if (!resources_.allocate(Block::Use::kRings, bytes, cq.block, why) ||
      !resources_.make_wake(cq.wake, why))
    return refuse(r, ControlStatus::kLimit, why);
  auto* header =
      new (cq.block.data()) abi::CqHeader{abi::kMagic, abi::kVersion, groups, capacity, 0U};
  std::vector<CqRings> rings(groups);
  for (std::uint32_t g = 0; g < groups; ++g) {
    const auto tx = abi::ring_at<Completion>(cq.block.data(), capacity, g, abi::Lane::kTx);
    const auto rx = abi::ring_at<Completion>(cq.block.data(), capacity, g, abi::Lane::kRx);
    rings[g].from_tx = {new (tx.header) RingHeader, tx.slots, capacity};
    rings[g].from_rx = {new (rx.header) RingHeader, rx.slots, capacity};
  }
  memory_bytes_ += cq.block.length();
  const std::uint32_t id = next_object_++;
  const int wake = cq.wake.write.get();
  cqs_.emplace(id, std::move(cq));
  api_.add_cq(expect(Op::kCreateCq, r.token, id), id_, std::move(rings), &header->armed, wake);
}

void Session::destroy_cq(const abi::Request& r) {
  const auto it = cqs_.find(r.id);
  if (it == cqs_.end() || !it->second.ready)
    return refuse(r, ControlStatus::kNoSuchObject, "no such completion queue");
  it->second.ready = false;
  api_.remove_cq(expect(Op::kDestroyCq, r.token, r.id), id_, it->second.api_id);
}

void Session::kick_cq(const abi::Request& r) {
  const auto it = cqs_.find(r.id);
  if (it == cqs_.end() || !it->second.ready) return;
  const std::uint64_t one = 1;
  // A full pipe is readable already.
  [[maybe_unused]] const auto n = ::write(it->second.wake.write.get(), &one, sizeof one);
}

void Session::listen(const abi::Request& r) {
  if (r.service == 0) return refuse(r, ControlStatus::kInvalid, "service 0 does not exist");
  if (listeners_.size() >= limits_.listeners)
    return refuse(r, ControlStatus::kLimit,
                  "limit of " + std::to_string(limits_.listeners) + " listeners reached");
  if (!listeners_.try_emplace(r.service).second)
    return refuse(r, ControlStatus::kInUse,
                  "service " + std::to_string(r.service) + " has a listener already");
  api_.listen(expect(Op::kListen, r.token, r.service), id_, r.service);
}

void Session::unlisten(const abi::Request& r) {
  const auto it = listeners_.find(r.service);
  if (it == listeners_.end() || !it->second.ready)
    return refuse(r, ControlStatus::kNoSuchObject, "no such listener");
  it->second.ready = false;
  api_.unlisten(expect(Op::kUnlisten, r.token, r.service), id_, r.service);
}

bool Session::stream_attr(const abi::Request& r, StreamAttr& out) {
  const abi::StreamSpec& s = r.stream;
  const auto send_cq = cqs_.find(s.send_cq), recv_cq = cqs_.find(s.recv_cq);
  if (send_cq == cqs_.end() || recv_cq == cqs_.end() || !send_cq->second.ready ||
      !recv_cq->second.ready) {
    refuse(r, ControlStatus::kNoSuchObject, "no such completion queue");
    return false;
  }
  if (s.send_depth == 0 || s.recv_depth == 0 || s.send_depth > limits_.stream_depth ||
      s.recv_depth > limits_.stream_depth || s.private_length > kMaxPrivateData) {
    refuse(r, ControlStatus::kInvalid,
           "a stream's depths must be 1 to " + std::to_string(limits_.stream_depth) +
               " and its private data at most " + std::to_string(kMaxPrivateData) + " bytes");
    return false;
  }
  if (streams_.size() + opening_ >= limits_.streams) {
    refuse(r, ControlStatus::kLimit,
           "limit of " + std::to_string(limits_.streams) + " streams reached");
    return false;
  }
  out.send_cq = send_cq->second.api_id;
  out.recv_cq = recv_cq->second.api_id;
  out.send_depth = s.send_depth;
  out.recv_depth = s.recv_depth;
  out.ordered_last = s.ordered_last != 0;
  out.private_data.length = s.private_length;
  std::memcpy(out.private_data.bytes.data(), s.private_data.data(), s.private_length);
  return true;
}

void Session::accept(const abi::Request& r) {
  if (!requests_.contains(r.request))
    return refuse(r, ControlStatus::kNoSuchObject, "no such connection request");
  StreamAttr attr;
  if (!stream_attr(r, attr)) return;
  forget_request(r.request);
  ++opening_;
  api_.accept(expect(Op::kAccept, r.token), id_, r.request, attr);
}

void Session::reject(const abi::Request& r) {
  if (!requests_.contains(r.request)) return;
  forget_request(r.request);
  api_.reject(id_, r.request);
}

void Session::connect(const abi::Request& r, Nanos now) {
  StreamAttr attr;
  if (r.service == 0) return refuse(r, ControlStatus::kInvalid, "service 0 does not exist");
  if (!stream_attr(r, attr)) return;
  IpAddress peer;
  peer.v6 = r.peer_v6 != 0;
  std::memcpy(peer.b.data(), r.peer.data(), peer.v6 ? 16 : 4);
  ++opening_;
  api_.connect(expect(Op::kConnect, r.token), id_, peer, r.service, attr,
               deadline(now, r.timeout_ns));
}

void Session::close_stream(const abi::Request& r, Nanos now) {
  const auto it = streams_.find(r.id);
  if (it == streams_.end() || it->second)
    return refuse(r, ControlStatus::kNoSuchObject, "no such stream");
  it->second = true;
  api_.close(expect(Op::kClose, r.token, r.id), id_, r.id, deadline(now, r.timeout_ns));
}

void Session::move_path(const abi::Request& r) {
  const ControlStatus s = !streams_.contains(r.id) || r.first_path > 0xff || r.service > 0xffff
                              ? ControlStatus::kNoSuchObject
                              : api_.move_path(id_, r.id, static_cast<std::uint8_t>(r.first_path),
                                               static_cast<std::uint16_t>(r.service));
  if (s != ControlStatus::kOk) return refuse(r, s, "no such stream or path");
  send(reply(r.token));
}

void Session::stats(const abi::Request& r) {
  ConnStats s;
  if (!streams_.contains(r.id) || !api_.conn_stats(id_, r.id, s))
    return refuse(r, ControlStatus::kNoSuchObject, "no such stream");
  OutMessage m = reply(r.token);
  m.head.peer = s.peer.b;
  m.head.peer_v6 = s.peer.v6 ? 1 : 0;
  m.stats = std::make_unique<abi::Stats>();
  abi::Stats& o = *m.stats;
  o.streams = s.streams;
  o.paths = static_cast<std::uint32_t>(s.paths.size());
  o.acked_bytes = s.acked_bytes;
  o.tx_packets = s.tx_packets;
  o.rtx_packets = s.rtx_packets;
  o.lost_packets = s.lost_packets;
  o.spurious_packets = s.spurious_packets;
  o.rx_packets = s.rx_packets;
  o.rx_bytes = s.rx_bytes;
  o.rx_out_of_order = s.rx_out_of_order;
  o.rx_duplicates = s.rx_duplicates;
  o.rx_drops = s.rx_drops;
  for (std::size_t i = r.first_path; i < s.paths.size() && o.entries < abi::kPathsPerStats; ++i) {
    const PathStats& p = s.paths[i];
    abi::PathEntry& e = o.path[o.entries++];
    e.path = p.path;
    e.plane = p.plane;
    e.active = p.active ? 1 : 0;
    e.state = static_cast<std::uint8_t>(p.state);
    e.fault = static_cast<std::uint16_t>(p.fault);
    e.source_port = p.source_port;
    e.srtt_ns = p.srtt_ns;
    e.tx_packets = p.tx_packets;
    e.tx_bytes = p.tx_bytes;
    e.rtx_packets = p.rtx_packets;
    e.lost_packets = p.lost_packets;
    e.spurious_packets = p.spurious_packets;
    e.rx_packets = p.rx_packets;
    e.rx_bytes = p.rx_bytes;
    e.rx_out_of_order = p.rx_out_of_order;
    e.rx_late = p.rx_late;
    e.rx_ce = p.rx_ce;
    e.window = static_cast<std::uint64_t>(std::max<Bytes>(p.window, 0));
  }
  send(std::move(m));
}

}  // namespace metaroce
