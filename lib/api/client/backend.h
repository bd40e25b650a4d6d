// What the client library asks of the world: carry requests and messages, map what they bring.
// Two worlds: a daemon behind a socket (socket_backend.h), a dataplane in this process
// (in_process.h). Used by one thread at a time, as the context that owns it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "api/abi.h"
#include "api/unique_fd.h"
#include "base/units.h"

struct metaroce_attach_attr;

namespace metaroce {

struct Incoming {
  abi::Message head{};
  abi::Stats stats{};
  bool has_stats = false;
  std::array<UniqueFd, 2> fds;  // in the order in which they were sent
  std::byte* direct = nullptr;  // the block itself, within one process
};

class Backend {
 public:
  virtual ~Backend() = default;
  // Waits at most `limit` for room. False: not sent (gone(), or no room in time).
  virtual bool send(const abi::Request& r, Nanos limit) = 0;
  // Oldest message; false when there is none now, or the other side is gone.
  virtual bool receive(Incoming& out) = 0;
  // Until a message may be there, at most `limit`.
  virtual void wait(Nanos limit) = 0;
  [[nodiscard]] virtual bool gone() const = 0;
  // The block that `m` brought; nullptr with a sentence in `why`.
  virtual std::byte* map(Incoming& m, std::string& why) = 0;
  virtual void unmap(std::byte* data, std::size_t length) = 0;
  // Runs the dataplane if this thread is to do so; packets moved.
  virtual int progress() = 0;
  [[nodiscard]] virtual bool needs_progress() const = 0;
};

// Supplied by the library that is built: libmetaroce by connecting to the socket,
// libmetaroce-embed by starting the dataplane. nullptr with a positive errno value in `err` and a
// sentence in `why`. Waits until `deadline` (of monotonic_now()) at most.
std::unique_ptr<Backend> make_backend(const metaroce_attach_attr& attr, Nanos deadline, int& err,
                                      std::string& why);

// CLOCK_MONOTONIC.
Nanos monotonic_now();

}  // namespace metaroce
