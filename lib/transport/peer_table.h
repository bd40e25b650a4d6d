// Finds the connections of a peer by address and by instance.
//
// Only *proven* addresses are entered: ones at which the peer answered a random number of ours
// (cookie, connection epoch, or the nonce of a CONN_RTU). Addresses that a peer merely claims in
// its planes TLV are not, or a hostile host could attract the streams meant for another, or end
// the other's connections by announcing itself as its new instance. [MR-5.2.26]
//
// Ordered maps: iteration order must not depend on a hash (byte-identical simulation).
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "transport/address.h"

namespace metaroce::control {

class PeerTable {
 public:
  using Conns = std::vector<std::uint32_t>;  // connection indices, in order of entry

  void add_address(const IpAddress& a, std::uint32_t conn) { add(by_address_[key(a)], conn); }
  void add_instance(const InstanceId& i, std::uint32_t conn) { add(by_instance_[i], conn); }
  void remove_address(const IpAddress& a, std::uint32_t conn) { remove(by_address_, key(a), conn); }
  void remove_instance(const InstanceId& i, std::uint32_t conn) { remove(by_instance_, i, conn); }

  [[nodiscard]] Conns at_address(const IpAddress& a) const { return get(by_address_, key(a)); }
  [[nodiscard]] Conns of_instance(const InstanceId& i) const { return get(by_instance_, i); }
  [[nodiscard]] std::size_t addresses() const { return by_address_.size(); }
  [[nodiscard]] std::size_t instances() const { return by_instance_.size(); }

 private:
  using AddressKey = std::pair<bool, std::array<std::uint8_t, 16>>;
  static AddressKey key(const IpAddress& a) { return {a.v6, a.b}; }
  static void add(Conns& v, std::uint32_t c) {
    if (std::find(v.begin(), v.end(), c) == v.end()) v.push_back(c);
  }
  template <typename M, typename K>
  static void remove(M& m, const K& k, std::uint32_t c) {
    const auto it = m.find(k);
    if (it == m.end()) return;
    std::erase(it->second, c);
    if (it->second.empty()) m.erase(it);
  }
  template <typename M, typename K>
  static Conns get(const M& m, const K& k) {
    const auto it = m.find(k);
    return it == m.end() ? Conns{} : it->second;
  }

  std::map<AddressKey, Conns> by_address_;
  std::map<InstanceId, Conns> by_instance_;
};

}  // namespace metaroce::control
