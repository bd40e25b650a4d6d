// Shared memory and wake-ups between the daemon and a hostile client.
//
// Memory: memfds sealed against shrinking, growing and further seals, so that no client can take
// a page away under the daemon (SIGBUS). Huge pages are the operator's choice: a client may punch
// a hole into its own memfd, and a hole in huge pages is filled from the pool; with the pool empty
// that too is SIGBUS. Ordinary pages have no pool. Where clients are not trusted: ordinary pages.
//
// Wake-ups: a pipe whose write end only the daemon holds. Rejected: an eventfd. Its O_NONBLOCK
// flag is shared with the client, which could clear it, fill the counter and so block a worker for
// ever; and nobody would wake a client that sleeps on it when the daemon dies. The pipe's two
// ends have flags of their own, and its end hangs up with the daemon. The daemon keeps a read end
// open, or a dead client's pipe would raise SIGPIPE in a worker.
#pragma once

#include "api/server/resources.h"

namespace metaroce {

class MemfdResources final : public Resources {
 public:
  explicit MemfdResources(bool hugepages) : hugepages_(hugepages) {}
  bool allocate(Block::Use use, std::size_t length, Block& out, std::string& why) override;
  void release(Block::Use use, std::byte* data, std::size_t length) override;
  bool make_wake(Wake& out, std::string& why) override;

 private:
  bool map(Block::Use use, std::size_t length, unsigned flags, Block& out, std::string& why);
  bool hugepages_;
};

}  // namespace metaroce
