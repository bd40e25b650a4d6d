#include "common/stop_signal.h"

#include <csignal>

namespace metaroce::app {
namespace {

std::atomic<int> stop_requested{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) { stop_requested.store(number, std::memory_order_relaxed); }

}  // namespace

const std::atomic<int>* install_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // no SA_RESTART: sleeping calls return
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT: a closed pipe on stdout is a write error
  return &stop_requested;
}

}  // namespace metaroce::app
