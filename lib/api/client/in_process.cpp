#include "api/client/in_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace metaroce {
namespace {

constexpr std::size_t kPage = 4096;
constexpr Nanos kDetachLimit = 2 * kSecond;

}  // namespace

class InProcessHost::HeapResources final : public Resources {
 public:
  explicit HeapResources(const InProcessOptions& o) : o_(o) {}

  bool allocate(Block::Use use, std::size_t length, Block& out, std::string& why) override {
    const std::size_t rounded = (length + kPage - 1) & ~(kPage - 1);
    void* p = nullptr;
    if (hooked(use)) {
      p = o_.allocate(rounded);
    } else if (p = std::aligned_alloc(kPage, rounded); p != nullptr) {
      std::memset(p, 0, rounded);
    }
    if (p == nullptr) {
      why = "no memory left for " + std::to_string(rounded) + " bytes";
      return false;
    }
    out = Block(this, use, static_cast<std::byte*>(p), rounded, {});
    return true;
  }
  void release(Block::Use use, std::byte* data, std::size_t length) override {
    if (hooked(use)) {
      o_.release(data, length);
    } else {
      std::free(data);
    }
  }
  bool make_wake(Wake& out, std::string& why) override {
    out.write.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    out.client.reset(fcntl(out.write.get(), F_DUPFD_CLOEXEC, 0));
    if (!out.client) why = "no descriptor left for a completion queue";
    return static_cast<bool>(out.client);
  }

 private:
  bool hooked(Block::Use use) const {
    return use == Block::Use::kMemory && o_.allocate && o_.release;
  }
  const InProcessOptions& o_;
};

class InProcessBackend final : public Backend, private MessageSink {
 public:
  explicit InProcessBackend(InProcessHost& host) : host_(host) {
    session_ = host_.sessions_.open(this);
  }
  ~InProcessBackend() override {
    std::unique_lock lock(host_.guard_);
    if (session_ == nullptr) return;
    // A closed session is forgotten by the next dispatch(): its id tells, not the pointer.
    const std::size_t before = host_.sessions_.size();
    session_->begin_close();
    session_ = nullptr;
    const Nanos deadline = monotonic_now() + kDetachLimit;
    while (host_.sessions_.size() >= before && monotonic_now() < deadline) {
      if (host_.options_.progress) host_.options_.progress();
      if (host_.sessions_.dispatch() == 0) {
        lock.unlock();
        sched_yield();
        lock.lock();
      }
    }
  }

  [[nodiscard]] bool valid() const { return session_ != nullptr; }
  bool send(const abi::Request& r, Nanos) override {
    const std::lock_guard lock(host_.guard_);
    if (r.kind == static_cast<std::uint16_t>(abi::RequestKind::kAttach)) {
      session_->attach(r.token);
      return true;
    }
    const Nanos now = host_.options_.clock ? host_.options_.clock() : monotonic_now();
    return session_->handle(r, now);
  }
  bool receive(Incoming& out) override {
    const std::lock_guard lock(host_.guard_);
    host_.sessions_.dispatch();
    if (messages_.empty()) return false;
    OutMessage m = std::move(messages_.front());
    messages_.pop_front();
    out = {};
    out.head = m.head;
    out.has_stats = m.stats != nullptr;
    if (m.stats) out.stats = *m.stats;
    out.fds = std::move(m.fds);
    out.direct = m.direct;
    return true;
  }
  void wait(Nanos) override {
    if (progress() == 0) sched_yield();
  }
  [[nodiscard]] bool gone() const override { return false; }
  std::byte* map(Incoming& m, std::string&) override { return m.direct; }
  void unmap(std::byte*, std::size_t) override {}  // the session's
  int progress() override {
    if (!host_.options_.progress) return 0;
    const std::lock_guard lock(host_.guard_);
    return host_.options_.progress();
  }
  [[nodiscard]] bool needs_progress() const override {
    return static_cast<bool>(host_.options_.progress);
  }

 private:
  // With guard() held. Bounded by the session: one reply per request, events by its objects.
  void deliver(OutMessage&& m) override { messages_.push_back(std::move(m)); }

  InProcessHost& host_;
  Session* session_ = nullptr;
  std::deque<OutMessage> messages_;
};

InProcessHost::InProcessHost(std::string name, ControlApi& api, InProcessOptions options)
    : options_(std::move(options)),
      resources_(std::make_unique<HeapResources>(options_)),
      sessions_(std::move(name), api, *resources_, options_.limits) {}

InProcessHost::~InProcessHost() = default;

std::unique_ptr<Backend> InProcessHost::open(std::string& why) {
  std::unique_ptr<InProcessBackend> b;
  {
    const std::lock_guard lock(guard_);
    if (sessions_.size() < options_.limits.clients) b = std::make_unique<InProcessBackend>(*this);
  }
  if (!b || !b->valid()) {
    why = "limit of clients of this host reached: detach one or raise the limit";
    return nullptr;
  }
  return b;
}

SessionCounts InProcessHost::counts() {
  const std::lock_guard lock(guard_);
  sessions_.dispatch();
  return sessions_.counts();
}

}  // namespace metaroce
