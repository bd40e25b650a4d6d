#include "fabric/event_queue.h"

namespace metaroce::fabric {
namespace {

// Order of insertion within a slot: what was listed counts down from here, what comes after up.
constexpr std::uint64_t kFirstOrder = std::uint64_t{1} << 40;

}  // namespace

void EventQueue::schedule_far(Picos at, std::uint8_t kind, std::uint32_t a, std::uint32_t b) {
  far_.push_back({at, far_order_++, a, b, kind});
  std::push_heap(far_.begin(), far_.end(), Later{});
  note_far();
}

void EventQueue::pull_far() {
  while (!far_.empty() && (far_.front().at >> kSlotShift) - now_slot_ < kSlots) {
    const Far& f = far_.front();
    push(f.at, f.kind, f.a, f.b);
    ++near_;
    std::pop_heap(far_.begin(), far_.end(), Later{});
    far_.pop_back();
  }
  note_far();
}

// A slot holds a handful of events mostly: sorted as they come, newest first.
void EventQueue::sort_slot(std::uint32_t index, Picos slot) {
  constexpr std::size_t kFew = 32;
  ready_next_ = 0;
  ready_slot_ = slot;
  std::uint64_t order = ready_order_ = kFirstOrder;
  std::size_t n = 0;
  for (std::uint32_t id = slots_[index];;) {
    Node& node = nodes_[id];
    if (n == ready_.size()) ready_.resize(2 * n);
    ready_[n++] = {key_of(node.offset, --order, node.kind), node.a, node.b};
    if (node.next == kNil) {
      node.next = free_;
      break;
    }
    id = node.next;
  }
  ready_end_ = n;
  free_ = slots_[index];
  slots_[index] = kNil;
  clear_bit(index);
  if (n > kFew) {
    std::sort(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(n),
              [](auto& x, auto& y) { return x.key < y.key; });
    return;
  }
  for (std::size_t i = 1; i < n; ++i) {
    const Ready entry = ready_[i];
    std::size_t place = i;
    for (; place > 0 && ready_[place - 1].key > entry.key; --place)
      ready_[place] = ready_[place - 1];
    ready_[place] = entry;
  }
}

// For a slot that is being emptied, or one before it: then what is left waits in the ring again.
void EventQueue::insert_ready(Picos at, std::uint8_t kind, std::uint32_t a, std::uint32_t b) {
  if (at >> kSlotShift < ready_slot_) {
    for (std::size_t i = ready_next_; i < ready_end_; ++i) {
      const Ready& r = ready_[i];
      push(time_of(r), static_cast<std::uint8_t>(r.key), r.a, r.b);
    }
    ready_next_ = ready_end_ = 0;
    return push(at, kind, a, b);
  }
  const Ready entry{key_of(at, ready_order_++, kind), a, b};
  if (ready_end_ == ready_.size()) ready_.resize(2 * ready_end_);
  std::size_t place = ready_end_++;
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
