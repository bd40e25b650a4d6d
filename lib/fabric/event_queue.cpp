#include "fabric/event_queue.h"

#include <algorithm>

namespace metaroce::fabric {

void EventQueue::schedule_far(Picos at, std::uint8_t kind, std::uint32_t a, std::uint32_t b) {
  far_.push_back({at, far_order_++, a, b, kind});
  std::push_heap(far_.begin(), far_.end(), Later{});
  far_next_ = far_.front().at;
}

void EventQueue::pull_far() {
  const Picos end = window_end();
  while (!far_.empty() && far_.front().at < end) {
    const Far& f = far_.front();
    insert(f.at >> kSlotShift, take_node(f.at, f.kind, f.a, f.b));
    std::pop_heap(far_.begin(), far_.end(), Later{});
    far_.pop_back();
  }
  far_next_ = far_.empty() ? kNever : far_.front().at;
}

void EventQueue::grow() {
  const auto old = static_cast<std::uint32_t>(nodes_.size());
  const std::uint32_t size = old == 0 ? 1024 : old * 2;
  nodes_.resize(size);
  for (std::uint32_t i = size; i-- > old;) {
    nodes_[i].next = free_;
    free_ = i;
  }
}

}  // namespace metaroce::fabric
