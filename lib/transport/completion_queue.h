// Completion queues as one role sees them. A slot is reserved before work is admitted (or a
// packet acknowledged), so that a completion always has room: it is never lost and nobody waits.
// [MR-4.6.2]
#pragma once

#include <unistd.h>

#include <cstdint>
#include <vector>

#include "transport/params.h"

namespace metaroce {

class CompletionQueues {
 public:
  explicit CompletionQueues(std::uint32_t capacity) : queues_(capacity) {
    dirty_.reserve(capacity);
  }

  bool add(const CqParams& p) {
    if (p.cq >= queues_.size() || queues_[p.cq].used) return false;
    queues_[p.cq] = Queue{p, 0, true, false};
    return true;
  }
  bool remove(std::uint32_t cq) {
    if (!valid(cq)) return false;
    queues_[cq].used = false;
    return true;
  }
  [[nodiscard]] bool valid(std::uint32_t cq) const {
    return cq < queues_.size() && queues_[cq].used;
  }

  bool reserve(std::uint32_t cq) {
    if (!valid(cq)) return false;
    Queue& q = queues_[cq];
    if (q.p.ring.room(q.reserved + 1) <= q.reserved) return false;
    ++q.reserved;
    return true;
  }
  void unreserve(std::uint32_t cq) { --queues_[cq].reserved; }
  // Uses one reservation. Visible to the application at flush().
  void complete(std::uint32_t cq, const Completion& c) {
    if (!valid(cq)) return;  // removed while its streams were being flushed: the client is gone
    Queue& q = queues_[cq];
    --q.reserved;
    q.p.ring.stage(c);
    if (!q.dirty) {
      q.dirty = true;
      dirty_.push_back(cq);
    }
  }
  // Publishes the batch and wakes applications that armed their queue. One system call per
  // armed queue, none otherwise.
  void flush() {
    for (const std::uint32_t cq : dirty_) {
      Queue& q = queues_[cq];
      q.dirty = false;
      if (!q.used) continue;
      q.p.ring.publish();
      if (q.p.armed != nullptr && q.p.event_fd >= 0) {
        // Pairs with the application's store of `armed` followed by a look at the ring.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (q.p.armed->load(std::memory_order_relaxed) != 0 && q.p.armed->exchange(0) != 0) {
          const std::uint64_t one = 1;
          [[maybe_unused]] const auto n = ::write(q.p.event_fd, &one, sizeof one);
        }
      }
    }
    dirty_.clear();
  }

 private:
  struct Queue {
    CqParams p;
    std::uint32_t reserved = 0;
    bool used = false, dirty = false;
  };
  std::vector<Queue> queues_;
  std::vector<std::uint32_t> dirty_;
};

}  // namespace metaroce
