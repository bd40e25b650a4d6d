#include "drivers/memif/control_relay.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <csignal>
#include <system_error>

namespace metaroce::drivers::memif {

std::shared_ptr<ControlRelay> ControlRelay::instance() {
  // Never destroyed: ports of an embedded dataplane close while the process exits.
  static auto& known = *new std::weak_ptr<ControlRelay>;
  if (auto r = known.lock(); r != nullptr) return r;
  std::shared_ptr<ControlRelay> r(new ControlRelay);
  if (!r->start()) return nullptr;
  known = r;
  return r;
}

bool ControlRelay::start() {
  event_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event_) return false;
  // Signals are for the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "memif-relay");
  } catch (const std::system_error&) {
    event_.reset();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return static_cast<bool>(event_);
}

ControlRelay::~ControlRelay() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

Status ControlRelay::serve(const std::string& socket, std::uint32_t id,
                           const std::shared_ptr<PrivateSocket>& driver, ControlLink& link) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(sockets_.begin(), sockets_.end(), [&](const auto& s) {
    return s->name() == socket && !s->unused();
  });
  ServerSocket* server = known == sockets_.end() ? nullptr : known->get();
  if (server == nullptr) {
    auto made = std::make_unique<ServerSocket>(socket);
    if (Status s = made->open(); !s.ok()) return s;
    server = made.get();
    sockets_.push_back(std::move(made));
  }
  server->add(id, driver, link);
  links_.push_back(&link);
  wake();
  return {};
}

void ControlRelay::dial(ClientLink& link) {
  const std::lock_guard lock(mutex_);
  links_.push_back(&link);
  wake();
}

UniqueFd ControlRelay::hold(ControlLink& link) {
  const std::lock_guard lock(mutex_);
  return link.hold();
}

void ControlRelay::restarted(ControlLink& link) {
  const std::lock_guard lock(mutex_);
  link.restarted();
  wake();
}

bool ControlRelay::leave(ControlLink& link) {
  std::unique_lock lock(mutex_);
  for (auto& s : sockets_) s->remove(link);
  link.leave();
  wake();
  const bool left = stepped_.wait_for(lock, kLeaveLimit, [&] {
    return link.at_rest() && std::all_of(sockets_.begin(), sockets_.end(),
                                         [&](const auto& s) { return s->forgotten(link); });
  });
  for (auto& s : sockets_) s->drop(link);
  std::erase_if(sockets_, [](const auto& s) { return s->unused(); });
  std::erase(links_, &link);
  return left;
}

void ControlRelay::run() {
  using Clock = std::chrono::steady_clock;
  int rounds = 0;
  Time window = Clock::now();
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      step();
    }
    stepped_.notify_all();
    const Time now = Clock::now();
    if (now - window >= kWindow) {
      window = now;
      rounds = 0;
    } else if (++rounds >= kRounds) {
      std::this_thread::sleep_until(window + kWindow);
    }
    sleep();
  }
}

// Everything tries what it has to do: the descriptors only say when to look. Links first: a peer
// that died makes room for the one that comes in its place.
void ControlRelay::step() {
  const Time now = std::chrono::steady_clock::now();
  for (ControlLink* l : links_) l->step(now);
  for (auto& s : sockets_) s->step(now);
}

void ControlRelay::sleep() {
  Watch w;
  w.on(event_, true);
  {
    const std::lock_guard lock(mutex_);
    for (const ControlLink* l : links_) l->watch(w);
    for (const auto& s : sockets_) s->watch(w);
  }
  int ms = -1;
  if (w.wake != Time::max()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(w.wake - std::chrono::steady_clock::now());
    ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
  }
  poll(w.fds.data(), w.fds.size(), ms);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = read(event_.get(), &count, sizeof count);
}

void ControlRelay::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(event_.get(), &one, sizeof one);
}

}  // namespace metaroce::drivers::memif
