// Private data of every stream that the tools open: who calls, which version, and which session
// and stream of it this is. The acceptor answers with its own, in which `state` says whether it
// can serve. Little-endian, as laid out.
#pragma once

#include <bit>
#include <cstdint>

#include "common/api.h"

namespace metaroce::app {

static_assert(std::endian::native == std::endian::little, "wire structures are memory images");

enum class Program : std::uint16_t { kPerf = 1, kCopy = 2 };
enum class PeerState : std::uint8_t { kReady = 0, kBusy = 1 };

struct Hello {
  static constexpr std::uint32_t kMagic = 0x4c48524d;  // "MRHL"
  static constexpr std::uint16_t kVersion = 1;
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t program = 0;
  std::uint64_t session = 0;  // drawn by the client; the server's: the one that it serves, or 0
  std::uint32_t stream = 0;   // 0: control, 1..n: data
  std::uint8_t test = 0;      // metaroce-perf: which
  std::uint8_t state = 0;     // PeerState
  std::uint8_t reserved[10]{};
};
static_assert(sizeof(Hello) == 32);
inline bool is_busy(const Hello& h) {
  return h.state == static_cast<std::uint8_t>(PeerState::kBusy);
}

// The peer's hello, checked: a sentence when it is not one that we can talk to.
Status peer_hello(metaroce_stream* stream, Program program, Hello& out);

// Connects with `attr` (private data is filled in) and checks the answer: busy means busy with
// another session than ours.
Status connect_stream(metaroce_context* ctx, const std::string& host, std::uint32_t service,
                      metaroce_stream_attr attr, const Hello& mine, int timeout_ms, StreamPtr& out,
                      Hello& theirs);
// Accepts one stream; out stays empty after timeout_ms without a caller, which is no failure.
Status accept_stream(metaroce_listener* listener, metaroce_stream_attr attr, const Hello& mine,
                     int timeout_ms, StreamPtr& out, Hello& theirs);
// Tells whoever knocks during a session that it is taken (`mine` says busy). Costs a poll when
// nobody does.
void turn_away(metaroce_listener* listener, metaroce_stream_attr attr, const Hello& mine);

std::uint64_t random_u64();
// The first of 2^24 values for the `user` of a session's streams; never the same twice in a
// process, so that events of streams that are gone cannot be taken for events of these.
std::uintptr_t next_session_tag();

}  // namespace metaroce::app
