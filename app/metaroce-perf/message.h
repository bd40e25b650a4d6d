// Control messages between client and server of metaroce-perf, over MessageChannel. A session:
//
//   client                          server
//   control stream, Hello     ->    Hello (test, busy or ready)
//   kParams (client's memory) ->    checks, registers memory
//                             <-    kReady (server's memory), or kFail
//   data streams, Hellos      ->    accepts each
//   per size: kRound          ->    posts receives
//                             <-    kRoundReady
//   both: kDone when all own messages are complete (and, verified, checked by the far end);
//         kVerified when all that the other's kDone announced was received and right
//   any time, both ways: kTick once a second, kStop (finish early), kFail (reason, exit code)
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace metaroce::perf {

enum class MessageKind : std::uint16_t {
  kParams = 1,
  kReady,
  kRound,
  kRoundReady,
  kDone,
  kVerified,
  kStop,
  kTick,
  kFail,
};
enum class Verb : std::uint8_t { kWrite = 0, kSend = 1 };
enum class Metric : std::uint8_t { kBandwidth = 0, kLatency = 1 };

struct Message {
  static constexpr std::uint32_t kMagic = 0x4650524d;  // "MRPF"
  static constexpr std::uint16_t kVersion = 1;
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  MessageKind kind{};
  // kParams
  Verb verb{};
  Metric metric{};
  std::uint8_t bidirectional = 0, all_sizes = 0;
  std::uint32_t streams = 0, tx_depth = 0, rx_depth = 0, cq_mod = 0;
  std::uint32_t reserved = 0;
  std::uint64_t region = 0;  // bytes per stream
  std::uint64_t seed = 0;
  // kParams, kReady: memory of the sender of this message
  std::uint64_t address = 0;
  // kParams (the whole run), kRound (this round)
  std::uint64_t size = 0;
  std::uint64_t iterations = 0;  // per stream; 0: until kStop
  double duration_s = 0;         // 0: by iterations, or until a signal
  std::uint32_t rkey = 0;
  std::uint32_t round = 0;
  std::uint8_t verify = 0;
  // kStop
  std::uint8_t interrupted = 0;  // by a person, not by the clock
  std::uint16_t code = 0;        // kFail: exit code
  // kDone
  std::uint32_t reserved1 = 0;
  std::uint64_t messages = 0, bytes = 0;
  std::int64_t elapsed_ns = 0;
  char text[360]{};  // kFail

  std::string_view text_view() const { return {text, strnlen(text, sizeof text)}; }
  void set_text(const std::string& s) {
    std::memcpy(text, s.data(), std::min(s.size(), sizeof text));
  }
};
static_assert(sizeof(Message) == 480);

}  // namespace metaroce::perf
