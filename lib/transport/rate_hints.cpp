#include "transport/rate_hints.h"

namespace metaroce {

void PortHints::add(std::uint32_t conn, const Peer& p) {
  if (conn >= senders_.size()) senders_.resize(conn + 1U);
  if (senders_[conn].known) return;  // two planes of one port
  const auto [at, fresh] = host_index_.try_emplace(HostKey{p.host.v6, p.host.b},
                                                   static_cast<std::uint32_t>(hosts_.size()));
  if (fresh && !free_hosts_.empty()) {
    at->second = free_hosts_.back();
    free_hosts_.pop_back();
  } else if (fresh) {
    hosts_.emplace_back();
    free_hosts_.reserve(hosts_.size());
  }
  ++hosts_[at->second].conns;
  Sender s;
  s.known = true;
  s.host = at->second;
  s.planes = static_cast<std::uint16_t>(std::max(p.planes, 1U));
  s.line = std::clamp<Mbps>(p.line_rate, 1, kMaxRate);
  s.rtt =
      static_cast<std::uint32_t>(std::clamp<Nanos>(p.rtt, std::min(interval_, kMaxRtt), kMaxRtt));
  senders_[conn] = s;
  active_.reserve(senders_.size());
  hosts_now_.reserve(hosts_.size());
  wants_.reserve(senders_.size());
}

void PortHints::remove(std::uint32_t conn) {
  if (conn >= senders_.size() || !senders_[conn].known) return;
  std::erase(active_, conn);
  changed_ = true;
  const std::uint32_t host = senders_[conn].host;
  senders_[conn] = Sender{};
  if (--hosts_[host].conns != 0) return;
  std::erase_if(host_index_, [&](const auto& e) { return e.second == host; });
  free_hosts_.push_back(host);
}

// Rare: a log2 of a backlog changes seldom.
void PortHints::note(std::uint32_t conn, Sender& s, std::uint8_t demand) {
  // The set of those that want a share changed: a new sender, more to send again, finished.
  if (!s.active ? demand != 0 : (s.demand != 0) != (demand != 0)) changed_ = true;
  s.demand = demand;
  if (s.active) return;
  s.active = s.partial = s.fresh = true;
  s.had_demand = false;
  s.since = s.seen = kNever;  // until the next look at the clock
  s.rate = s.sample = 0;
  active_.push_back(conn);
}

void PortHints::measure(Nanos now, bool pressed) {
  const Nanos time = now - measured_at_;
  // Nobody looked for long (idle, or descheduled): bytes over this time say nothing about a rate.
  const bool usable = time <= 8 * spacing(interval_, 160);
  std::uint64_t data = 0;
  for (std::size_t i = 0; i < active_.size();) {
    Sender& s = senders_[active_[i]];
    data += s.bytes;
    if (measure_one(s, now, time, usable)) {
      ++i;
      continue;
    }
    s.active = false;
    s.hint = s.told = 0;
    active_[i] = active_.back();
    active_.pop_back();
    changed_ = true;
  }
  if (usable) {
    host_.interval(pressed, rate_of(all_bytes_, time), capacity_);
    const Mbps other = rate_of(all_bytes_ > data ? all_bytes_ - data : 0, time);
    other_ += static_cast<Mbps>((std::int64_t{other} - other_) / 8);
    const std::uint64_t load =
        std::min<std::uint64_t>(std::uint64_t{rate_of(all_bytes_, time)} * 255 / capacity_, 255);
    // Rounded towards the sample, so that a full port reaches 255 and an idle one 0.
    load_ = static_cast<std::uint8_t>(load > load_ ? (load_ + load + 1) / 2 : (load_ + load) / 2);
  } else {
    other_ = 0;
    load_ = 0;
    host_ = HostLimit{};
  }
  all_bytes_ = 0;
  measured_at_ = now;
}

// False: finished or silent, no longer a sender.
bool PortHints::measure_one(Sender& s, Nanos now, Nanos time, bool usable) {
  if (s.since == kNever) s.since = now;
  if (s.bytes != 0 || s.seen == kNever) s.seen = now;
  // Of the interval in which it finished nothing is kept for it.
  const bool finished = s.demand == 0 && s.had_demand;
  if (usable && !s.partial) {
    const Mbps sample = rate_of(s.bytes, time);
    const std::int64_t off = std::int64_t{sample} - s.rate;
    s.rate = s.rate == 0 ? sample : static_cast<Mbps>(s.rate + off / 8);
    s.sample = finished ? 0 : sample;
  }
  const bool quiet = s.bytes == 0 && !s.partial;
  s.partial = false;
  s.had_demand = s.demand != 0;
  s.bytes = 0;
  if (s.demand == 0) return !quiet || finished;
  // A sender at a low hint is not silent between two packets.
  const Nanos packet = s.hint == 0 ? 0 : Nanos{4096 * 8000} / s.hint;
  return now - s.seen <= 2 * (std::max<Nanos>(s.rtt, interval_) + packet);
}

// [MR-8.4.9]
Mbps PortHints::announced_by(const Sender& s) const {
  if (s.demand == 0)
    return s.had_demand ? 0
                        : static_cast<Mbps>(
                              std::min<std::uint64_t>(std::uint64_t{s.sample} * 5 / 4, s.line));
  if (s.demand >= 40) return s.line;
  // Backlog below 2^demand bytes: at most that within an RTT.
  const std::uint64_t time = std::uint64_t{s.rtt} * s.planes;
  return static_cast<Mbps>(
      std::clamp<std::uint64_t>((std::uint64_t{8000} << s.demand) / time, 1, s.line));
}

// [MR-8.4.9]
Mbps PortHints::demand_of(const Sender& s, Nanos now) const {
  const Mbps announced = announced_by(s);
  if (s.demand == 0 || s.since == kNever || now - s.since <= 2 * (Nanos{s.rtt} + interval_))
    return announced;
  return static_cast<Mbps>(
      std::clamp<std::uint64_t>(std::uint64_t{2} * std::max(s.rate, s.sample), 1, announced));
}

void PortHints::share(Nanos now) {
  std::uint64_t announced = 0;
  hosts_now_.clear();
  std::uint32_t wanting = 0;
  for (const std::uint32_t conn : active_) {
    Sender& s = senders_[conn];
    SendingHost& h = hosts_[s.host];
    if (h.senders == 0) {
      hosts_now_.push_back(s.host);
      h.first = kEnd;
      h.want = 0;
    }
    s.fresh = false;
    s.want = demand_of(s, now);
    s.next = h.first;
    h.first = conn;
    h.want += s.want;
    announced += announced_by(s);
    ++h.senders;
    wanting += s.want != 0 ? 1 : 0;
  }
  wants_.clear();
  for (const std::uint32_t i : hosts_now_)
    wants_.push_back(static_cast<Mbps>(std::min<std::uint64_t>(hosts_[i].want, kMaxRate)));
  // Control and foreign frames cannot be hinted away; an eighth is shared out whatever they take.
  const bool slow = host_.value() < capacity_;
  const Mbps whole = std::min(capacity_, host_.value());
  const Mbps capacity = std::max(whole - std::min(other_, whole), whole / 8);
  const FairLevel level = fair_level(wants_, capacity);
  // A lone sender needs no hint: its own line paces it. Nor does anybody when all fits.
  // [MR-8.4.11]
  const bool none = announced <= capacity || (wanting < 2 && !slow);
  level_ = none ? 0 : std::max<Mbps>(level.level, 1);
  for (const std::uint32_t i : hosts_now_) {
    share_host(hosts_[i], level_, now);
    hosts_[i].senders = 0;
  }
}

void PortHints::share_host(SendingHost& h, Mbps level, Nanos now) {
  if (level != 0 && h.senders > 1) {
    wants_.clear();
    for (std::uint32_t c = h.first; c != kEnd; c = senders_[c].next)
      wants_.push_back(senders_[c].want);
    level = std::max<Mbps>(fair_level(wants_, level).level, 1);
  }
  // [MR-8.4.10]
  for (std::uint32_t c = h.first; c != kEnd; c = senders_[c].next)
    set_hint(senders_[c], level, now);
}

// Falls at once; rises by at most a quarter per RTT, or twofold while the port has room: then
// waiting would leave it idle. Not at once: after a stall nobody was measured to send much.
// [MR-8.4.4]
void PortHints::set_hint(Sender& s, Mbps to, Nanos now) const {
  constexpr std::uint8_t kFull = 255 * 3 / 4;
  if (to != 0 && s.hint != 0 && to > s.hint) {
    if (now - s.base_at >= Nanos{s.rtt}) {
      s.base = s.hint;
      s.base_at = now;
    }
    to = std::min(to, s.base + std::max<Mbps>(load_ >= kFull ? s.base / 4 : s.base, 1));
  } else if (to != s.hint) {
    s.base = to;
    s.base_at = now;
  }
  if (to != s.hint) ++s.epoch;
  s.hint = to;
}

}  // namespace metaroce
