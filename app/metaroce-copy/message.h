// Control messages of metaroce-copy, over MessageChannel.
//   receiver: kReady (ring), kRefused (entry, reason)..., kManifestDone (how many), kFailed (entry,
//             reason)..., kSummary, kAbort (reason)
//   sender:   kAbort, or kBye when it has read the summary: the receiver closes second, so that
//             its last words are not overtaken by its closing
//   both:     kTick once a second
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace metaroce::copy {

enum class MessageKind : std::uint16_t {
  kReady = 1,
  kRefused,
  kManifestDone,
  kFailed,
  kSummary,
  kAbort,
  kTick,
  kBye,
};

struct Message {
  static constexpr std::uint32_t kMagic = 0x5043524d;  // "MRCP"
  static constexpr std::uint16_t kVersion = 1;
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  MessageKind kind{};
  std::uint64_t address = 0;  // kReady
  std::uint32_t rkey = 0, slot_bytes = 0, slots = 0;
  std::uint32_t code = 0;                          // exit code: kFailed, kAbort
  std::uint64_t index = 0;                         // kRefused, kFailed: in the manifest
  std::uint64_t files = 0, bytes = 0, failed = 0;  // kSummary; kManifestDone: failed = refused
  char text[448]{};

  std::string_view text_view() const { return {text, strnlen(text, sizeof text)}; }
  void set_text(const std::string& s) {
    std::memcpy(text, s.data(), std::min(s.size(), sizeof text));
  }
};
static_assert(sizeof(Message) == 512);

// The ring of slots at the receiver.
inline constexpr std::uint32_t kSlotBytes = 1U << 20, kSlots = 16;

}  // namespace metaroce::copy
