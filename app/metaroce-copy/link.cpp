#include "metaroce-copy/link.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>

namespace metaroce::copy {
namespace {

using app::fail;
using app::kSecondNs;
using app::now_ns;
using app::Status;

constexpr int kCloseMs = 1000, kByeMs = 3000;

}  // namespace

app::Hello Link::hello(bool busy) const {
  app::Hello h;
  h.program = static_cast<std::uint16_t>(app::Program::kCopy);
  h.session = session_;
  h.state = static_cast<std::uint8_t>(busy ? app::PeerState::kBusy : app::PeerState::kReady);
  return h;
}

metaroce_stream_attr Link::control_attr() const {
  metaroce_stream_attr a = control_.attr();
  a.user = reinterpret_cast<void*>(tag_);  // NOLINT: a number, not an address
  return a;
}

metaroce_stream_attr Link::data_attr() const {
  metaroce_stream_attr a{};
  a.send_cq = a.recv_cq = cq_.get();
  a.send_depth = kSlots + 2;
  a.recv_depth = kReceives;
  a.user = reinterpret_cast<void*>(tag_ + 1);  // NOLINT
  return a;
}

Status Link::connect() {
  session_ = app::random_u64() | 1;
  if (Status s = control_.prepare(ctx_); !s.ok()) return s;
  if (Status s = app::create_cq(ctx_, 2 * (kSlots + kReceives), cq_); !s.ok()) return s;
  app::StreamPtr stream;
  app::Hello theirs;
  if (Status s = app::connect_stream(ctx_, o_.peer, o_.service, control_attr(), hello(false),
                                     o_.timeout_ms(), stream, theirs);
      !s.ok())
    return s;
  last_heard_ = last_tick_ = now_ns();
  if (Status s = control_.open(std::move(stream)); !s.ok()) return s;
  app::Hello mine = hello(false);
  mine.stream = 1;
  if (Status s = app::connect_stream(ctx_, o_.peer, o_.service, data_attr(), mine, o_.timeout_ms(),
                                     data_, theirs);
      !s.ok())
    return s;
  return post_first_receives();
}

Status Link::accept(metaroce_listener* l, int timeout_ms, bool& came) {
  came = false;
  if (!prepared_) {
    if (Status s = control_.prepare(ctx_); !s.ok()) return s;
    if (Status s = app::create_cq(ctx_, 2 * (kSlots + kReceives), cq_); !s.ok()) return s;
    prepared_ = true;
  }
  app::StreamPtr stream;
  app::Hello theirs;
  if (Status s = app::accept_stream(l, control_attr(), hello(false), timeout_ms, stream, theirs);
      !s.ok() || !stream)
    return s;
  if (theirs.stream != 0 || theirs.session == 0) return {};  // left over from a session that died
  came = true;
  session_ = theirs.session;
  last_heard_ = last_tick_ = now_ns();
  return control_.open(std::move(stream));
}

Status Link::accept_data(metaroce_listener* l) {
  const std::int64_t deadline = now_ns() + o_.timeout_ms() * (kSecondNs / 1000);
  while (!data_) {
    std::optional<Message> message;
    if (Status s = poll(message); !s.ok()) return s;
    if (io_.stopping()) return fail(app::kExitFailure, "interrupted");
    if (now_ns() > deadline) return fail(app::kExitPeerLost, "the sender opened no data stream");
    app::StreamPtr stream;
    app::Hello theirs;
    const Status s = app::accept_stream(l, data_attr(), hello(true), 100, stream, theirs);
    if (!s.ok() && !stream) return s;
    if (s.ok() && stream && theirs.session == session_ && theirs.stream == 1)
      data_ = std::move(stream);
  }
  return post_first_receives();
}

Status Link::post_receive() {
  metaroce_wr wr{};  // immediates only
  const int taken = metaroce_post_recv(data_.get(), &wr, 1);
  return taken == 1 ? Status{} : app::api_failure(taken, "cannot post a receive");
}

Status Link::post_first_receives() {
  for (std::uint32_t i = 0; i < kReceives; ++i)
    if (Status s = post_receive(); !s.ok()) return s;
  return {};
}

Status Link::check_events() {
  metaroce_event event{};
  while (metaroce_next_event(ctx_, &event) == 0 && event.kind != METAROCE_EVENT_NONE) {
    if (event.kind == METAROCE_EVENT_DATAPLANE_GONE)
      return fail(app::kExitFailure, "the dataplane is gone (metaroced ended); start it again");
    if (reinterpret_cast<std::uintptr_t>(event.user) == tag_ && !over_)
      return fail(app::kExitPeerLost, "the peer closed the connection");
  }
  return {};
}

Status Link::poll(std::optional<Message>& message) {
  if (Status s = control_.receive(message); !s.ok()) return over_ ? Status{} : s;
  const std::int64_t now = now_ns();
  if (message) {
    last_heard_ = now;
    if (message->magic != Message::kMagic || message->version != Message::kVersion)
      return fail(app::kExitFailure, "the peer sent a control message of another version");
    if (message->kind == MessageKind::kAbort) {
      told_by_peer_ = true;
      const int code = message->code == 0 || message->code > app::kExitPeerLost
                           ? int{app::kExitFailure}
                           : static_cast<int>(message->code);
      return fail(code, fmt::format("the {} says: {}", o_.receiver() ? "sender" : "receiver",
                                    message->text_view()));
    }
    if (message->kind == MessageKind::kTick) message.reset();
    return {};
  }
  if (Status s = check_events(); !s.ok()) return s;
  if (now - last_tick_ > kSecondNs) {
    last_tick_ = now;
    Message tick;
    tick.kind = MessageKind::kTick;
    if (Status s = send(tick); !s.ok()) return s;
  }
  if (static_cast<double>(now - last_heard_) > o_.timeout_s * 1e9)
    return fail(app::kExitPeerLost,
                fmt::format("nothing heard from the peer for {} s", o_.timeout_s));
  return {};
}

Status Link::conclude(Status status) {
  if (status.ok() || told_by_peer_ || !open()) return status;
  if (status.code == app::kExitPeerLost) {
    std::optional<Message> message;
    for (const std::int64_t deadline = now_ns() + kSecondNs / 2; now_ns() < deadline;) {
      if (!control_.receive(message).ok()) break;
      if (message && message->kind == MessageKind::kAbort)
        return fail(message->code ? static_cast<int>(message->code) : int{app::kExitFailure},
                    fmt::format("the {} says: {}", o_.receiver() ? "sender" : "receiver",
                                message->text_view()));
      if (!message) sleep_control(20);
    }
  }
  Message m;
  m.kind = MessageKind::kAbort;
  m.code = static_cast<std::uint32_t>(status.code);
  m.set_text(status.text);
  static_cast<void>(control_.send(m, kCloseMs));
  return status;
}

void Link::await_bye() {
  std::optional<Message> message;
  for (const std::int64_t deadline = now_ns() + kByeMs * (kSecondNs / 1000); now_ns() < deadline;) {
    if (!control_.receive(message).ok()) return;
    if (!message)
      sleep_control(20);
    else if (message->kind == MessageKind::kBye || message->kind == MessageKind::kAbort)
      return;
  }
}

// Waits on the control stream alone.
void Link::sleep_control(int ms) {
  if (o_.attach.embed.empty())
    control_.sleep(ms);
  else
    sched_yield();
}

void Link::close(bool good) {
  const std::int64_t deadline = now_ns() + kSecondNs;
  app::IdleWait wait(false);
  while (open() && !control_.drained() && now_ns() < deadline) wait.idle();
  if (data_) metaroce_close(data_.release(), good ? kCloseMs : 0);
  control_.close(good ? kCloseMs : 0);
}

void Link::sleep_idle(int ms) {
  if (!o_.attach.embed.empty()) {
    sched_yield();  // an inline dataplane moves only while polled
    return;
  }
  if (metaroce_cq_arm(cq_.get()) < 0) return;
  pollfd p{metaroce_cq_fd(cq_.get()), POLLIN, 0};
  std::uint64_t count = 0;
  if (::poll(&p, 1, ms) > 0 && ::read(p.fd, &count, sizeof count) < 0) return;
}

}  // namespace metaroce::copy
