#include "fabric/event_queue.h"

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
    push(f.at >> kSlotShift, take_node(f.at, f.kind, f.a, f.b));
    ++near_;
    std::pop_heap(far_.begin(), far_.end(), Later{});
    far_.pop_back();
  }
  far_next_ = far_.empty() ? kNever : far_.front().at;
}

void EventQueue::sort_slot(std::uint32_t index, Picos slot) {
  ready_.clear();
  ready_next_ = 0;
  ready_slot_ = slot;
  for (std::uint32_t id = slots_[index]; id != kNil; id = nodes_[id].next) {
    const auto offset = static_cast<std::uint64_t>(nodes_[id].at - (slot << kSlotShift));
    ready_.push_back({offset << 32, id});
  }
  slots_[index] = kNil;
  clear_bit(index);
  ready_order_ = static_cast<std::uint32_t>(ready_.size());
  std::uint32_t order = ready_order_;
  for (Ready& r : ready_) r.key |= --order;
  if (ready_order_ > 1)
    std::sort(ready_.begin(), ready_.end(), [](auto& x, auto& y) { return x.key < y.key; });
}

// For a slot that is being emptied, or one before it: then what is left waits in the ring again.
void EventQueue::insert_ready(Picos slot, std::uint32_t id) {
  if (slot < ready_slot_) {
    for (std::size_t i = ready_next_; i < ready_.size(); ++i) push(ready_slot_, ready_[i].node);
    ready_.clear();
    ready_next_ = 0;
    return push(slot, id);
  }
  const auto offset = static_cast<std::uint64_t>(nodes_[id].at - (slot << kSlotShift));
  const Ready entry{offset << 32 | ready_order_++, id};
  ready_.push_back(entry);
  std::size_t place = ready_.size() - 1;
  for (; place > ready_next_ && ready_[place - 1].key > entry.key; --place)
    ready_[place] = ready_[place - 1];
  ready_[place] = entry;
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
