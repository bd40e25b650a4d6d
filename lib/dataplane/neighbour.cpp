#include "dataplane/neighbour.h"

#include <algorithm>
#include <utility>

namespace metaroce {
namespace {

bool same_prefix(const IpAddress& a, const IpAddress& b, unsigned bits) {
  if (a.v6 != b.v6) return false;
  const unsigned whole = bits / 8, rest = bits % 8;
  if (!std::equal(a.b.begin(), a.b.begin() + whole, b.b.begin())) return false;
  return rest == 0 || ((a.b[whole] ^ b.b[whole]) >> (8 - rest)) == 0;
}

bool is_link_local(const IpAddress& a) { return a.v6 && a.b[0] == 0xfe && (a.b[1] & 0xc0) == 0x80; }

// The network and broadcast addresses of an IPv4 link are nobody's.
bool is_subnet_broadcast(const IpAddress& a, const LocalAddress& l) {
  if (a.v6 || l.prefix_len >= 31) return false;
  const auto word = [](const IpAddress& x) {
    return (std::uint32_t{x.b[0]} << 24) | (std::uint32_t{x.b[1]} << 16) |
           (std::uint32_t{x.b[2]} << 8) | x.b[3];
  };
  const std::uint32_t host = 0xffffffffU >> l.prefix_len;
  return (word(a) & host) == host || (word(a) & host) == 0;
}

}  // namespace

NeighbourTable::NeighbourTable(NeighbourConfig config, Send send, Changed changed)
    : config_(std::move(config)), send_(std::move(send)), changed_(std::move(changed)) {
  for (LocalAddress& a : config_.addresses)
    a.prefix_len = std::min(a.prefix_len, a.ip.v6 ? std::uint8_t{128} : std::uint8_t{32});
}

const LocalAddress* NeighbourTable::own(const IpAddress& ip) const {
  for (const LocalAddress& a : config_.addresses)
    if (a.ip == ip) return &a;
  return nullptr;
}

const LocalAddress* NeighbourTable::link_of(const IpAddress& ip) const {
  const LocalAddress* family = nullptr;
  for (const LocalAddress& a : config_.addresses) {
    if (same_prefix(a.ip, ip, a.prefix_len)) return is_subnet_broadcast(ip, a) ? nullptr : &a;
    if (a.ip.v6 == ip.v6 && family == nullptr) family = &a;
  }
  // fe80::/10 and a gateway outside our prefix (routed /32 set-ups) are on the link by definition.
  if (is_link_local(ip)) return family;
  for (const LocalAddress& a : config_.addresses)
    if (a.gateway == ip) return &a;
  return nullptr;
}

std::optional<IpAddress> NeighbourTable::next_hop(const IpAddress& dst) const {
  if (owns(dst) || wire::is_multicast(dst) || wire::is_unspecified(dst)) return std::nullopt;
  if (const auto it = entries_.find(dst);
      it != entries_.end() && it->second.state == State::kStatic)
    return dst;
  if (link_of(dst) != nullptr) return dst;
  for (const LocalAddress& a : config_.addresses) {
    if (same_prefix(a.ip, dst, a.prefix_len)) return std::nullopt;  // subnet broadcast
    if (a.ip.v6 == dst.v6 && a.gateway) return a.gateway;
  }
  return std::nullopt;
}

Resolved NeighbourTable::resolve(const IpAddress& dst, Nanos now, MacAddress& out) {
  const std::optional<IpAddress> hop = next_hop(dst);
  if (!hop) return Resolved::kNoRoute;
  auto it = entries_.find(*hop);
  if (it == entries_.end()) {
    if (entries_.size() >= config_.max_entries && !make_room(now)) {
      ++stats_.full;
      return Resolved::kFull;
    }
    it = entries_.emplace(*hop, Entry{}).first;
    ask(*hop, it->second, now);
  }
  Entry& e = it->second;
  e.last_used = std::max<Nanos>(now, 1);
  switch (e.state) {
    case State::kAsking:
      return Resolved::kAsking;
    case State::kFailed:
      return Resolved::kFailed;
    default:
      out = e.mac;
      return Resolved::kReady;
  }
}

// Forgets the entry that is missed least: failed, learned but never used, or idle for longest.
bool NeighbourTable::make_room(Nanos now) {
  auto victim = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const Entry& e = it->second;
    const bool idle = e.last_used == 0 || now - e.last_used > config_.reachable_time;
    if (e.state == State::kStatic || (e.state != State::kFailed && !idle)) continue;
    if (victim == entries_.end() || e.last_used < victim->second.last_used) victim = it;
  }
  if (victim == entries_.end()) return false;
  entries_.erase(victim);
  return true;
}

void NeighbourTable::ask(const IpAddress& ip, Entry& e, Nanos now) {
  const LocalAddress* l = link_of(ip);
  if (l == nullptr) return;
  const Nanos wait = e.tries < 16 ? config_.retry_first << e.tries : config_.retry_max;
  e.deadline = now + std::min(wait, config_.retry_max);
  wake_at(e.deadline);
  const bool unicast = e.state == State::kChecking && e.tries < config_.retry_limit / 2;
  ++e.tries;
  ++stats_.requests_sent;
  std::uint8_t frame[wire::kNeighbourFrameBytes];
  const std::uint32_t n =
      wire::write_neighbour_request(frame, config_.mac, l->ip, ip, unicast ? &e.mac : nullptr);
  send_({frame, n});
}

void NeighbourTable::learn(const IpAddress& ip, Entry& e, const MacAddress& mac, Nanos now) {
  const bool had = e.state == State::kReachable || e.state == State::kChecking;
  const bool differs = !had || e.mac != mac;
  if (differs) ++(had ? stats_.changed : stats_.learned);
  e.mac = mac;
  e.state = State::kReachable;
  e.tries = 0;
  e.deadline = now + config_.reachable_time;
  wake_at(e.deadline);
  if (differs && changed_) changed_(ip, &e.mac);
}

// Somebody says that a known neighbour has moved: let everybody answer who has it.
void NeighbourTable::check_move(const IpAddress& ip, Entry& e, Nanos now) {
  ++stats_.unasked;
  if (e.state != State::kReachable || (e.last_hint != 0 && now - e.last_hint < config_.retry_first))
    return;
  e.last_hint = now;
  e.state = State::kChecking;
  e.tries = config_.retry_limit / 2;  // past the requests to the old MAC
  ask(ip, e, now);
}

DropReason NeighbourTable::receive(const wire::FrameView& f, Nanos now) {
  wire::NeighbourMessage m;
  if (const DropReason r = wire::parse_neighbour(f, m); r != DropReason::kNone) return r;
  if (owns(m.request ? m.sender : m.target)) {
    if (!m.has_mac || m.mac != config_.mac)
      ++stats_.conflicts;
    else
      ++stats_.ignored;  // our own frame came back
    return DropReason::kNone;
  }
  if (m.request)
    hear_request(m, now);
  else
    hear_answer(m, now);
  return DropReason::kNone;
}

void NeighbourTable::hear_request(const wire::NeighbourMessage& m, Nanos now) {
  if (!owns(m.target)) {
    // Gratuitous ARP in its request form: about the sender itself.
    const auto it = m.sender == m.target ? entries_.find(m.sender) : entries_.end();
    if (it != entries_.end() && it->second.mac != m.mac)
      check_move(m.sender, it->second, now);
    else
      ++stats_.ignored;
    return;
  }
  answer(m);
  if (m.probe || !m.has_mac || link_of(m.sender) == nullptr) return;
  auto it = entries_.find(m.sender);
  if (it == entries_.end()) {
    if (entries_.size() >= config_.max_entries / 2) {
      ++stats_.full;
      return;
    }
    it = entries_.emplace(m.sender, Entry{}).first;
  }
  Entry& e = it->second;
  if (e.state == State::kStatic) return;
  const bool known = e.state == State::kReachable || e.state == State::kChecking;
  if (known && e.mac != m.mac)
    check_move(m.sender, e, now);
  else
    learn(m.sender, e, m.mac, now);
}

void NeighbourTable::hear_answer(const wire::NeighbourMessage& m, Nanos now) {
  const auto it = entries_.find(m.target);
  if (it == entries_.end() || it->second.state == State::kStatic) {
    ++stats_.ignored;
    return;
  }
  Entry& e = it->second;
  const bool asked = e.state == State::kAsking || e.state == State::kChecking;
  if (asked && m.solicited) {
    // An NA to a unicast request may leave its MAC out: it confirms the one we sent it to.
    if (m.has_mac)
      learn(m.target, e, m.mac, now);
    else if (e.state == State::kChecking)
      learn(m.target, e, MacAddress(e.mac), now);
    return;
  }
  if (e.state == State::kFailed || !m.has_mac) {
    ++stats_.unasked;
    return;
  }
  if (e.mac != m.mac) check_move(m.target, e, now);
}

void NeighbourTable::answer(const wire::NeighbourMessage& m) {
  std::uint8_t frame[wire::kNeighbourFrameBytes];
  const std::uint32_t n =
      wire::write_neighbour_reply(frame, config_.mac, m.target, m.link_source, m.sender, m.probe);
  ++stats_.replies_sent;
  send_({frame, n});
}

void NeighbourTable::announce() {
  for (const LocalAddress& a : config_.addresses) {
    std::uint8_t frame[wire::kNeighbourFrameBytes];
    const std::uint32_t n =
        a.ip.v6 ? wire::write_neighbour_reply(frame, config_.mac, a.ip, MacAddress{}, a.ip, true)
                : wire::write_neighbour_request(frame, config_.mac, a.ip, a.ip);
    send_({frame, n});
  }
}

void NeighbourTable::doubt(const IpAddress& dst, Nanos now) {
  const std::optional<IpAddress> hop = next_hop(dst);
  const auto it = hop ? entries_.find(*hop) : entries_.end();
  if (it == entries_.end() || it->second.state != State::kReachable) return;
  it->second.deadline = now;
  wake_at(now);
}

bool NeighbourTable::add_static(const IpAddress& ip, const MacAddress& mac) {
  if (owns(ip) || wire::is_multicast(ip) || wire::is_unspecified(ip) || (mac.b[0] & 1) != 0 ||
      mac == MacAddress{})
    return false;
  Entry& e = entries_[ip];
  e.mac = mac;
  e.state = State::kStatic;
  e.deadline = kNever;
  return true;
}

void NeighbourTable::tick(Nanos now) {
  if (now < next_deadline_) return;
  next_deadline_ = kNever;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const IpAddress& ip = it->first;
    Entry& e = it->second;
    if (e.deadline > now) {
      wake_at(e.deadline);
      ++it;
      continue;
    }
    const bool idle = e.last_used == 0 || now - e.last_used > config_.idle_time;
    if (e.state == State::kFailed || (e.state == State::kReachable && idle)) {
      it = entries_.erase(it);
      continue;
    }
    if (e.state == State::kReachable) {
      e.state = State::kChecking;
      e.tries = 0;
    }
    if (e.tries < config_.retry_limit) {
      ask(ip, e, now);
    } else {
      ++stats_.failed;
      e.state = State::kFailed;
      e.deadline = now + config_.failed_hold;
      wake_at(e.deadline);
      if (changed_) changed_(ip, nullptr);
    }
    ++it;
  }
}

}  // namespace metaroce
