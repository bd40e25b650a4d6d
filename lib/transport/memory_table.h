// Registered memory as one role sees it (each role owns its copy; control keeps them equal).
//
// A key is index << 12 | 12 random bits; the index itself is drawn at random by the control
// role, so that a key cannot be guessed from another. lkey and rkey are the same number.
// Every access is checked here before the first byte is touched: key, protection domain,
// rights, range. [MR-4.5.3] [MR-4.5.4] [MR-10.1.2]
#pragma once

#include <cstdint>
#include <vector>

#include "transport/params.h"

namespace metaroce {

enum class AccessError : std::uint8_t { kNone, kBadKey, kAccess, kBounds };

class MemoryTable {
 public:
  static constexpr unsigned kRandomBits = 12;

  // `slots`: capacity, at most 2^20.
  explicit MemoryTable(std::uint32_t slots) : regions_(slots) {}

  bool add(const RegionParams& r) {
    const std::uint32_t i = r.key >> kRandomBits;
    if (i >= regions_.size() || regions_[i].host != nullptr) return false;
    regions_[i] = r;
    return true;
  }
  bool remove(std::uint32_t key) {
    RegionParams* r = find(key);
    if (r == nullptr) return false;
    *r = RegionParams{};
    return true;
  }

  // The local address of [va, va + n) in region `key`, or why not. n may be 0.
  [[nodiscard]] AccessError translate(std::uint32_t key, std::uint32_t pd, std::uint32_t access,
                                      std::uint64_t va, std::uint64_t n, std::uint8_t*& out) const {
    const std::uint32_t i = key >> kRandomBits;
    if (i >= regions_.size()) return AccessError::kBadKey;
    const RegionParams& r = regions_[i];
    if (r.host == nullptr || r.key != key || r.pd != pd) return AccessError::kBadKey;
    if ((r.access & access) != access) return AccessError::kAccess;
    // No overflow: offset <= length is established before length - offset is formed.
    const std::uint64_t offset = va - r.va;
    if (va < r.va || offset > r.length || n > r.length - offset) return AccessError::kBounds;
    out = r.host + offset;
    return AccessError::kNone;
  }

 private:
  RegionParams* find(std::uint32_t key) {
    const std::uint32_t i = key >> kRandomBits;
    if (i >= regions_.size() || regions_[i].host == nullptr || regions_[i].key != key)
      return nullptr;
    return &regions_[i];
  }
  std::vector<RegionParams> regions_;
};

}  // namespace metaroce
