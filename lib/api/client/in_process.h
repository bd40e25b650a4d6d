// A dataplane in the application's own process: the sessions of lib/api/server without a socket,
// for libmetaroce-embed. Blocks are plain pointers from the given allocator.
//
// Threads: contexts may be used by several threads, one each. ControlApi and `progress` are only
// called with guard() held; a dataplane with a control thread of its own holds guard() during
// that thread's passes and gives no `progress`.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "api/client/backend.h"
#include "api/server/host_sessions.h"

namespace metaroce {

struct InProcessOptions {
  std::function<int()> progress;  // one pass of all roles with control; packets moved
  std::function<Nanos()> clock;   // of ControlApi's deadlines; empty: monotonic_now()
  // Page aligned, zeroed memory for regions (huge pages, say); empty: the C library's.
  std::function<void*(std::size_t)> allocate;
  std::function<void(void*, std::size_t)> release;
  SessionLimits limits;
};

// One per ControlApi, which must outlive it, as it must outlive its backends.
class InProcessHost {
 public:
  InProcessHost(std::string name, ControlApi& api, InProcessOptions options);
  ~InProcessHost();
  // A new client; `why` when there can be none.
  std::unique_ptr<Backend> open(std::string& why);
  [[nodiscard]] std::mutex& guard() { return guard_; }
  [[nodiscard]] SessionCounts counts();

 private:
  friend class InProcessBackend;
  class HeapResources;

  InProcessOptions options_;
  std::mutex guard_;
  std::unique_ptr<HeapResources> resources_;
  HostSessions sessions_;
};

}  // namespace metaroce
