// Address space without memory. Regions of simulated hosts lie here, so that the transport's own
// translation and bounds checks run on real addresses while no payload byte exists: whatever
// reads or writes one faults at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace metaroce::sim {

class Arena {
 public:
  // Reserves at least `bytes`; data() is nullptr when the kernel refuses.
  explicit Arena(std::uint64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  [[nodiscard]] std::uint8_t* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace metaroce::sim
