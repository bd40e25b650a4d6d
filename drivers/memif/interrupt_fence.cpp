#include "drivers/memif/interrupt_fence.h"

#include <atomic>
#include <mutex>

#include <rte_alarm.h>

namespace metaroce::drivers::memif {
namespace {

std::atomic<std::uint64_t> g_run{0};
void on_alarm(void*) { g_run.fetch_add(1, std::memory_order_release); }

}  // namespace

std::optional<std::uint64_t> InterruptFence::set() {
  static std::mutex mutex;
  static std::uint64_t set = 0;
  const std::lock_guard lock(mutex);  // alarms of one delay run in the order in which they were set
  if (rte_eal_alarm_set(1, on_alarm, nullptr) != 0) return {};
  return ++set;
}

bool InterruptFence::passed(std::uint64_t ticket) {
  return g_run.load(std::memory_order_acquire) >= ticket;
}

}  // namespace metaroce::drivers::memif
