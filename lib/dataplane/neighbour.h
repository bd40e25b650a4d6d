// Who has which MAC address on one port: ARP and IPv6 neighbour discovery, asked and answered.
//
// Control-owned, no I/O, no clock: frames leave through a callback, time is an argument. The data
// path never looks in here; it sends with the MAC address that the control role gave it and is
// told by `changed` when that differs.
//
// States of an entry: asking (no MAC yet; requests at 0, retry_first, x2 .. retry_max, at most
// retry_limit) -> reachable -> after `reachable_time` checked again, by requests to the known MAC
// first and to everybody for the second half, while data keeps using the old MAC -> reachable, or
// failed (says so for `failed_hold`, then forgets, so that a new resolve() asks again). An entry
// that nobody has resolved for `idle_time` is not checked but forgotten. Static entries never
// change.
//
// Whom we believe (ARP and ND carry no proof, so this only narrows the window):
//  - an answer, if we have a request out for that address; the first one wins;
//  - the sender of a request addressed to us, if it is on our link: a new entry (while the table
//    is less than half full), or a confirmation of what we know;
//  - an unasked answer (gratuitous ARP, unsolicited NA), or a request from a known neighbour with
//    another MAC, changes nothing: it makes us ask everybody at once (at most one such check per
//    retry_first), and the answer to that decides. A failed-over host is found in one round trip;
//    a host that merely shouts is not.
//  - never: a static entry, our own address (counted as a conflict), a host off the link.
// Rejected: learning from the source of data frames (a spoofed packet would redirect a flow).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "wire/neighbour_frame.h"

namespace metaroce {

struct LocalAddress {
  IpAddress ip;
  std::uint8_t prefix_len = 0;       // <= 32 or 128; hosts with the same prefix are on the link
  std::optional<IpAddress> gateway;  // next hop for all others of this family
};

struct NeighbourConfig {
  MacAddress mac;
  std::vector<LocalAddress> addresses;  // of this port; may mix families
  std::uint32_t max_entries = 8192;
  Nanos retry_first = 50 * kMillisecond;
  Nanos retry_max = kSecond;
  std::uint32_t retry_limit = 6;
  Nanos reachable_time = 30 * kSecond;
  Nanos idle_time = 600 * kSecond;
  Nanos failed_hold = kSecond;
};

enum class Resolved : std::uint8_t {
  kReady,    // the MAC is in `out`
  kAsking,   // requests are out: ask again later
  kFailed,   // nobody answered; asked again after failed_hold
  kNoRoute,  // off the link without a gateway, own, multicast or of a family without own address
  kFull,     // table full of neighbours in use
};

struct NeighbourStats {
  std::uint64_t requests_sent = 0, replies_sent = 0, learned = 0, changed = 0, failed = 0;
  std::uint64_t ignored = 0;    // messages that do not concern us
  std::uint64_t unasked = 0;    // answers or moves that nobody asked for
  std::uint64_t conflicts = 0;  // somebody else claims our address
  std::uint64_t full = 0;       // no entry made: table full
};

class NeighbourTable {
 public:
  using Send = std::function<void(std::span<const std::uint8_t> frame)>;
  // `mac` is null when the neighbour failed. Neither callback may call back into the table.
  using Changed = std::function<void(const IpAddress& neighbour, const MacAddress* mac)>;

  NeighbourTable(NeighbourConfig config, Send send, Changed changed = {});

  // The MAC address for packets to `dst`: its own or the gateway's. Asks when unknown. Marks the
  // entry as used; call it at least once per idle_time for addresses in use.
  Resolved resolve(const IpAddress& dst, Nanos now, MacAddress& out);
  // Neighbour that packets to `dst` go through; nullopt: no route.
  [[nodiscard]] std::optional<IpAddress> next_hop(const IpAddress& dst) const;
  // A frame of kind kNeighbour. kNone also when it was ignored; else why it was refused.
  DropReason receive(const wire::FrameView& f, Nanos now);
  // False when the address cannot have a neighbour (own, multicast), or the MAC is not unicast.
  bool add_static(const IpAddress& ip, const MacAddress& mac);
  // Tells everybody on the link where our addresses are (gratuitous ARP, unsolicited NA): for a
  // link that has come up, behind which somebody may still hold a former MAC address of ours.
  void announce();
  // Whoever sends to `dst` suspects that nobody is there any more: its neighbour is checked now
  // instead of after reachable_time. Its MAC stays in use meanwhile.
  void doubt(const IpAddress& dst, Nanos now);
  // Sends what is due; call at next_deadline() or every few milliseconds.
  void tick(Nanos now);
  [[nodiscard]] Nanos next_deadline() const { return next_deadline_; }

  [[nodiscard]] bool owns(const IpAddress& ip) const { return own(ip) != nullptr; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] const NeighbourStats& stats() const { return stats_; }

 private:
  enum class State : std::uint8_t { kAsking, kReachable, kChecking, kFailed, kStatic };
  struct Entry {
    MacAddress mac;
    State state = State::kAsking;
    std::uint32_t tries = 0;  // requests sent in this round
    Nanos deadline = kNever;  // next request, check or end of the entry
    Nanos last_used = 0;      // by resolve(); learned and never used: 0
    Nanos last_hint = 0;      // last unasked message that made us check
  };
  struct Less {
    bool operator()(const IpAddress& a, const IpAddress& b) const {
      return a.v6 != b.v6 ? a.v6 < b.v6 : a.b < b.b;
    }
  };
  using Map = std::map<IpAddress, Entry, Less>;

  [[nodiscard]] const LocalAddress* own(const IpAddress& ip) const;
  [[nodiscard]] const LocalAddress* link_of(const IpAddress& ip) const;
  [[nodiscard]] bool make_room(Nanos now);
  void learn(const IpAddress& ip, Entry& e, const MacAddress& mac, Nanos now);
  void ask(const IpAddress& ip, Entry& e, Nanos now);
  void check_move(const IpAddress& ip, Entry& e, Nanos now);
  void answer(const wire::NeighbourMessage& m);
  void hear_request(const wire::NeighbourMessage& m, Nanos now);
  void hear_answer(const wire::NeighbourMessage& m, Nanos now);
  void wake_at(Nanos t) { next_deadline_ = t < next_deadline_ ? t : next_deadline_; }

  NeighbourConfig config_;
  Send send_;
  Changed changed_;
  Map entries_;
  Nanos next_deadline_ = kNever;
  NeighbourStats stats_;
};

}  // namespace metaroce
