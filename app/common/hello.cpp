#include "common/hello.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <atomic>
#include <cerrno>

#include "common/idle_wait.h"

namespace metaroce::app {

Status peer_hello(metaroce_stream* stream, Program program, Hello& out) {
  const int length = metaroce_stream_private_data(stream, &out, sizeof out);
  if (length < static_cast<int>(sizeof(std::uint32_t)) || out.magic != Hello::kMagic)
    return fail(kExitFailure, "the peer is not a metaroce tool (its private data says nothing)");
  if (out.version != Hello::kVersion)
    return fail(kExitFailure, fmt::format("the peer speaks version {}, this tool version {}: "
                                          "install the same release on both",
                                          out.version, Hello::kVersion));
  if (length != static_cast<int>(sizeof(Hello)) ||
      out.program != static_cast<std::uint16_t>(program))
    return fail(kExitFailure,
                fmt::format("the peer is another tool (kind {}) on this service", out.program));
  return {};
}

Status connect_stream(metaroce_context* ctx, const std::string& host, std::uint32_t service,
                      metaroce_stream_attr attr, const Hello& mine, int timeout_ms, StreamPtr& out,
                      Hello& theirs) {
  attr.private_data = &mine;
  attr.private_data_len = sizeof mine;
  metaroce_stream* stream = nullptr;
  const int result = metaroce_connect(ctx, host.c_str(), service, &attr, timeout_ms, &stream);
  if (result < 0)
    return fail(kExitPeerLost, fmt::format("cannot connect to {} service {}: {}", host, service,
                                           metaroce_error()));
  out.reset(stream);
  if (Status s = peer_hello(stream, static_cast<Program>(mine.program), theirs); !s.ok()) return s;
  if (is_busy(theirs) && theirs.session != mine.session)
    return fail(kExitPeerLost,
                fmt::format("{} service {} is busy with another client; try again", host, service));
  return {};
}

Status accept_stream(metaroce_listener* listener, metaroce_stream_attr attr, const Hello& mine,
                     int timeout_ms, StreamPtr& out, Hello& theirs) {
  attr.private_data = &mine;
  attr.private_data_len = sizeof mine;
  metaroce_stream* stream = nullptr;
  const int result = metaroce_accept(listener, &attr, timeout_ms, &stream);
  if (result == -ETIMEDOUT || result == -EAGAIN || result == -EINTR) return {};
  if (result < 0) return api_failure(result, "cannot accept");
  out.reset(stream);
  return peer_hello(stream, static_cast<Program>(mine.program), theirs);
}

void turn_away(metaroce_listener* listener, metaroce_stream_attr attr, const Hello& mine) {
  static char tag;
  attr.user = &tag;  // its end is nobody's event
  StreamPtr stream;
  Hello theirs;
  static_cast<void>(accept_stream(listener, attr, mine, 0, stream, theirs));
}

std::uintptr_t next_session_tag() {
  static std::atomic<std::uintptr_t> count{0};
  return ++count << 24;
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  if (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value))
    value = static_cast<std::uint64_t>(now_ns());
  return value;
}

}  // namespace metaroce::app
