// Result of an operation on the control path: a code for the program, and one sentence for the
// person that says what is wrong and what to do.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace metaroce {

enum class Errc : std::uint8_t {
  kOk = 0,
  kInvalid,       // an argument contradicts itself or its range
  kNoDevice,      // interface, PCI address or socket is not there
  kPermission,    // needs root or a capability
  kNoMemory,      // hugepages, pool or ring could not be allocated
  kNotSupported,  // this device or this DPDK cannot
  kTooLarge,      // frames do not fit
  kBusy,          // exists already, or in the wrong state
  kFailed,        // the device or EAL refused for a reason of its own, in the message
};

struct [[nodiscard]] Status {
  Errc code = Errc::kOk;
  std::string message;

  [[nodiscard]] bool ok() const { return code == Errc::kOk; }
  static Status error(Errc c, std::string text) { return {c, std::move(text)}; }
};

}  // namespace metaroce
