// The tables of connections and streams: slots, generations, limits, lookup. What an entry means
// and when it may go is decided elsewhere.
#include <algorithm>

#include "transport/control_role.h"

namespace metaroce {

using control::ConnState;
using control::StreamState;

namespace {

constexpr std::uint32_t kMaxDepth = 1U << 16;
constexpr std::uint32_t kGenerations = 1U << (32 - kStreamSlotBits);

}  // namespace

// ---- connections ----------------------------------------------------------------------------

ControlRole::Conn* ControlRole::conn_at(ConnIndex i) {
  return i.v < conns_.size() ? conns_[i.v].get() : nullptr;
}

ControlRole::Conn* ControlRole::new_conn(std::uint32_t group, bool initiator) {
  if (free_conns_.empty()) return nullptr;  // [MR-5.2.13] [MR-10.2.1]
  const std::uint32_t index = free_conns_.front();
  free_conns_.pop_front();
  std::uint8_t generation = conn_generation_[index];
  // Never 0, so that no connection has dcid 0, and never the previous one. [MR-5.1.3] [MR-5.1.6]
  while (generation == 0 || generation == conn_generation_[index])
    generation = static_cast<std::uint8_t>(io_.secret_random());
  conn_generation_[index] = generation;

  conns_[index] = std::make_unique<Conn>();
  ++counts_.connections;
  Conn& c = *conns_[index];
  c.group = group;
  c.initiator = initiator;
  ConnParams& p = c.params;
  p.index = ConnIndex{index};
  p.own_dcid = (index << 8) | generation;
  p.own_port = static_cast<std::uint16_t>(host_.config.base_udp_port + group);  // [MR-3.1.2]
  p.own_pseq_seed = io_.secret_random();                                        // [MR-5.3.1]
  p.entropy_seed = io_.secret_random();
  c.next_serial = static_cast<std::uint32_t>(io_.secret_random());

  control::ConnInfo& own = c.own;
  own.payload_mtu = host_.config.payload_mtu;
  for (const HostPlane& plane : host_.planes)
    if (own.n_planes < kMaxPlanes) own.planes[own.n_planes++] = {plane.number, plane.address};
  own.pseq_seed = p.own_pseq_seed;
  own.max_streams = host_.config.max_streams_per_connection;
  own.spn_window = host_.config.spn_window;
  own.paths_per_plane =
      static_cast<std::uint16_t>(std::clamp(host_.config.paths_per_plane, 1U, 256U));
  own.line_rate = std::max<Mbps>(host_.line_rate, 1);
  own.worker_port = p.own_port;  // [MR-5.2.16]
  own.capabilities = host_.config.crc ? control::kCapCrc : 0;
  own.instance = host_.instance;
  own.group = static_cast<std::uint8_t>(group);
  own.attempt = initiator ? ++attempt_ : attempt_;
  own.first_serial = c.next_serial;
  return &c;
}

void ControlRole::free_conn(Conn& c) {
  const std::uint32_t index = c.params.index.v;
  c.state = ConnState::kFreed;
  rearm(c);
  freed_conns_.push_back(std::move(conns_[index]));
  free_conns_.push_back(index);
  --counts_.connections;
}

ControlRole::Conn* ControlRole::find_conn(const IpAddress& peer, std::uint32_t group) {
  for (const std::uint32_t i : peers_.at_address(peer)) {
    Conn& c = *conns_[i];
    if (c.group == group && c.state < ConnState::kClosing && !c.retiring) return &c;
  }
  return nullptr;
}

// [MR-5.2.26]
void ControlRole::enter_address(Conn& c, const IpAddress& a) {
  if (std::find(c.addresses.begin(), c.addresses.end(), a) != c.addresses.end()) return;
  c.addresses.push_back(a);
  peers_.add_address(a, c.params.index.v);
}

void ControlRole::enter_instance(Conn& c) {
  c.instance_entered = true;
  peers_.add_instance(c.peer.instance, c.params.index.v);
}

// ---- streams --------------------------------------------------------------------------------

ControlRole::Stream* ControlRole::new_stream(std::uint32_t group) {
  StreamTable& t = streams_[group];
  if (t.free.empty()) return nullptr;  // [MR-6.1.9] [MR-10.2.1]
  const std::uint32_t slot = t.free.front();
  t.free.pop_front();
  std::uint32_t generation = t.generation[slot] + host_.groups;
  if (generation >= kGenerations) generation = group + host_.groups;
  t.generation[slot] = static_cast<std::uint16_t>(generation);
  t.slots[slot] = std::make_unique<Stream>();
  ++counts_.streams;
  Stream& s = *t.slots[slot];
  s.group = group;
  s.handle = slot | (generation << kStreamSlotBits);
  // [MR-6.1.2]
  s.params.own_initial_spn = StreamSeq{static_cast<std::uint32_t>(io_.secret_random())};
  return &s;
}

ControlRole::Stream* ControlRole::stream_at(StreamHandle h) {
  StreamTable& t = streams_[(h >> kStreamSlotBits) % host_.groups];
  const std::uint32_t slot = stream_slot(h);
  if (slot >= t.slots.size() || !t.slots[slot] || t.slots[slot]->handle != h) return nullptr;
  return t.slots[slot].get();
}

// A stream that the client knows of: open or later.
ControlRole::Stream* ControlRole::own_stream(ClientId client, StreamHandle h) {
  Stream* s = stream_at(h);
  if (s == nullptr || !s->attached || s->client != client) return nullptr;
  return s->state < StreamState::kOpen ? nullptr : s;
}

void ControlRole::free_stream(Stream& s) {
  if (s.state == StreamState::kFreed) return;
  detach_client(s);
  s.state = StreamState::kFreed;
  rearm(s);
  StreamTable& t = streams_[s.group];
  const std::uint32_t slot = stream_slot(s.handle);
  freed_streams_.push_back(std::move(t.slots[slot]));
  t.free.push_back(slot);
  --counts_.streams;
  if (!s.on_conn) return;
  Conn& c = *conn_at(s.conn);
  c.by_own.erase(s.own_number);
  const auto peer = c.by_peer.find(s.peer_number);
  if (peer != c.by_peer.end() && peer->second == s.handle) c.by_peer.erase(peer);
  if (s.retry.active) serial_answered(c, s.retry.serial);
  advance_conn(c);
  close_conn_if_idle(c);
}

void ControlRole::use_cqs(Stream& s) {
  s.uses_cqs = true;
  ++cqs_.at(s.attr.send_cq)->users;
  ++cqs_.at(s.attr.recv_cq)->users;
}

void ControlRole::release_cqs(Stream& s) {
  if (!s.uses_cqs) return;
  s.uses_cqs = false;
  --cqs_.at(s.attr.send_cq)->users;
  --cqs_.at(s.attr.recv_cq)->users;
}

// What is wrong with the attributes that a client gives; nullptr when nothing is.
const char* ControlRole::attr_problem(const Client& client, const StreamAttr& a) const {
  for (const std::uint32_t id : {a.send_cq, a.recv_cq}) {
    const auto it = cqs_.find(id);
    if (it == cqs_.end() || it->second->client != client.id ||
        it->second->state != control::ObjectState::kReady)
      return "send_cq and recv_cq must be completion queues of this client";
  }
  if (a.send_depth == 0 || a.recv_depth == 0 || a.send_depth > kMaxDepth ||
      a.recv_depth > kMaxDepth)
    return "send_depth and recv_depth must be 1 to 65536";
  if (a.private_data.length > kMaxPrivateData) return "private data is limited to 128 bytes";
  return nullptr;
}

}  // namespace metaroce
