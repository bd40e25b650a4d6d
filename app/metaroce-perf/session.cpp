#include "metaroce-perf/session.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "common/units.h"

namespace metaroce::perf {
namespace {

using app::fail;
using app::kSecondNs;
using app::now_ns;
using app::Status;

constexpr std::int64_t kTickNs = kSecondNs, kKnockNs = kSecondNs / 5;
constexpr int kCloseMs = 1000;
constexpr std::int64_t kReasonNs = 2 * kSecondNs;  // for the peer's own words about a failure

}  // namespace

Session::Session(const Options& options, const app::Io& io, metaroce_context* ctx,
                 metaroce_listener* listener)
    : o_(options),
      io_(io),
      ctx_(ctx),
      listener_(listener),
      control_tag_(app::next_session_tag()),
      first_tag_(control_tag_ + 1) {}

metaroce_stream_attr Session::control_attr() const {
  metaroce_stream_attr a = control_.attr();
  a.user = reinterpret_cast<void*>(control_tag_);  // NOLINT: a number, not an address
  return a;
}

app::Hello Session::hello(std::uint32_t stream) const {
  app::Hello h;
  h.program = static_cast<std::uint16_t>(app::Program::kPerf);
  h.session = session_;
  h.stream = stream;
  h.test = static_cast<std::uint8_t>(static_cast<unsigned>(o_.verb) << 1 |
                                     static_cast<unsigned>(o_.metric));
  h.state = static_cast<std::uint8_t>(server() && session_ ? app::PeerState::kBusy
                                                           : app::PeerState::kReady);
  return h;
}

std::int64_t Session::grace_ns(std::uint64_t bytes) const {
  return static_cast<std::int64_t>(o_.timeout_s * 1e9) +
         static_cast<std::int64_t>(bytes) * (kSecondNs / kSlowestBytesPerSecond);
}

std::optional<std::uint32_t> Session::stream_of(const void* user) const {
  const auto tag = reinterpret_cast<std::uintptr_t>(user);
  if (tag < first_tag_ || tag - first_tag_ >= tags_.size()) return std::nullopt;
  const std::uint32_t index = tags_[tag - first_tag_];
  return index < o_.streams ? std::optional(index) : std::nullopt;
}

// Every stream that is opened or accepted gets a tag that is never used again; a caller that
// turns out not to be ours keeps one that means no stream.
metaroce_stream_attr Session::data_attr() {
  metaroce_stream_attr a{};
  a.send_cq = a.recv_cq = cq_.get();
  a.send_depth = o_.tx_depth + 2;  // a credit, and the marker of a stop
  a.recv_depth = o_.rx_depth;
  if (o_.latency() && o_.verb == Verb::kWrite) a.flags = METAROCE_STREAM_ORDERED_LAST;
  a.user = reinterpret_cast<void*>(first_tag_ + tags_.size());  // NOLINT: a number, not an address
  tags_.push_back(kNoStream);
  return a;
}

Status Session::register_memory() {
  const std::uint64_t bytes = o_.region * o_.streams;
  const bool both = o_.bidirectional || o_.latency();
  if (both || !server())
    if (Status s =
            send_memory_.allocate(ctx_, bytes, METAROCE_ACCESS_LOCAL_WRITE, "messages to send");
        !s.ok())
      return s;
  if (both || server())
    if (Status s = recv_memory_.allocate(ctx_, bytes,
                                         METAROCE_ACCESS_LOCAL_WRITE | METAROCE_ACCESS_REMOTE_WRITE,
                                         "messages to receive");
        !s.ok())
      return s;
  return app::create_cq(ctx_, o_.streams * (o_.tx_depth + 2 + o_.rx_depth), cq_);
}

Status Session::connect() {
  session_ = app::random_u64() | 1;
  seed_ = app::random_u64();
  if (Status s = control_.prepare(ctx_); !s.ok()) return s;
  app::StreamPtr stream;
  app::Hello theirs;
  Status s = app::connect_stream(ctx_, o_.server, o_.service, control_attr(), hello(0),
                                 o_.timeout_ms(), stream, theirs);
  // A server that has just served someone else is free in a moment.
  for (const std::int64_t deadline = now_ns() + grace_ns(0);
       !s.ok() && app::is_busy(theirs) && now_ns() < deadline && !io_.stopping();) {
    stream.reset();
    theirs = {};
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    s = app::connect_stream(ctx_, o_.server, o_.service, control_attr(), hello(0), o_.timeout_ms(),
                            stream, theirs);
  }
  if (!s.ok()) return s;
  if (theirs.test != hello(0).test)
    return fail(app::kExitFailure, fmt::format("the server runs another test than {}", o_.test));
  last_heard_ = last_tick_ = now_ns();
  return control_.open(std::move(stream));
}

Status Session::accept(int timeout_ms, bool& came) {
  came = false;
  if (!prepared_)
    if (Status s = control_.prepare(ctx_); !s.ok()) return s;
  prepared_ = true;
  app::StreamPtr stream;
  app::Hello theirs;
  Status s = app::accept_stream(listener_, control_attr(), hello(0), timeout_ms, stream, theirs);
  if (!s.ok() || !stream) return s;
  if (theirs.stream != 0 || theirs.session == 0) return {};  // left over from a session that died
  came = true;
  session_ = theirs.session;
  last_heard_ = last_tick_ = now_ns();
  s = control_.open(std::move(stream));
  if (s.ok() && theirs.test != hello(0).test)
    return fail(app::kExitFailure,
                fmt::format("the client asks for another test than {}", o_.test));
  return s;
}

Status Session::agree() {
  if (server()) {
    Message params;
    if (Status s = expect(MessageKind::kParams, params); !s.ok()) return s;
    if (Status s = adopt_client_params(params, o_); !s.ok()) return s;
    seed_ = params.seed;
    remote_address_ = params.address;
    remote_rkey_ = params.rkey;
  }
  if (Status s = register_memory(); !s.ok()) return s;
  Message m;
  m.kind = server() ? MessageKind::kReady : MessageKind::kParams;
  m.verb = o_.verb;
  m.metric = o_.metric;
  m.bidirectional = o_.bidirectional;
  m.all_sizes = o_.all_sizes;
  m.streams = o_.streams;
  m.tx_depth = o_.tx_depth;
  m.rx_depth = o_.rx_depth;
  m.cq_mod = o_.cq_mod;
  m.region = o_.region;
  m.seed = seed_;
  m.address = recv_memory_.address();
  m.rkey = recv_memory_.rkey();
  m.size = o_.size;
  m.iterations = o_.forever || o_.duration_s > 0 ? 0 : o_.iterations;
  m.duration_s = o_.duration_s;
  if (Status s = send(m); !s.ok() || server()) return s;
  Message ready;
  if (Status s = expect(MessageKind::kReady, ready); !s.ok()) return s;
  remote_address_ = ready.address;
  remote_rkey_ = ready.rkey;
  return {};
}

void Session::begin_round(std::uint32_t number) {
  round_ = number;
  // write_lat polls for a marker that no earlier round may have left behind.
  if (o_.latency()) std::memset(recv_memory_.data(), 0, recv_memory_.length());
  done_.reset();
  verified_.reset();
  done_sent_ = verified_sent_ = stop_sent_ = false;
  stop_ = interrupted_;
}

Status Session::open_round(Message& round) {
  begin_round(round.round);
  round.kind = MessageKind::kRound;
  if (Status s = send(round); !s.ok()) return s;
  Message ready;
  if (Status s = expect(MessageKind::kRoundReady, ready); !s.ok() || interrupted_) return s;
  return connect_streams();
}

Status Session::await_round(std::optional<Message>& round) {
  round.reset();
  Message m;
  if (Status s = expect(MessageKind::kRound, m); !s.ok()) return s;
  if (interrupted_ || m.kind != MessageKind::kRound) return {};
  if (slot_stride(m.size) > o_.region || (o_.latency() && m.size == 0 && o_.verb == Verb::kWrite))
    return fail(app::kExitFailure, "the client's message size does not fit its region");
  begin_round(m.round);
  Message ready = m;
  ready.kind = MessageKind::kRoundReady;
  if (Status s = send(ready); !s.ok()) return s;
  if (Status s = accept_streams(); !s.ok() || interrupted_) return s;
  round = m;
  return {};
}

void Session::add_stream(app::StreamPtr stream) {
  tags_.back() = static_cast<std::uint32_t>(streams_.size());
  streams_.push_back(std::move(stream));
}

Status Session::connect_streams() {
  for (std::uint32_t i = 0; i < o_.streams; ++i) {
    app::StreamPtr stream;
    app::Hello theirs;
    if (Status s =
            app::connect_stream(ctx_, o_.server, o_.service, data_attr(),
                                hello(round_ << 16 | (i + 1)), o_.timeout_ms(), stream, theirs);
        !s.ok())
      return s;
    add_stream(std::move(stream));
    if (Status s = service(); !s.ok()) return s;
  }
  statistics_.begin(streams_[0].get());
  return {};
}

Status Session::accept_streams() {
  const std::int64_t deadline = now_ns() + grace_ns(0);
  while (streams_.size() < o_.streams) {
    if (Status s = service(); !s.ok() || interrupted_) return s;
    if (now_ns() > deadline)
      return fail(app::kExitPeerLost, fmt::format("the client opened {} of {} streams in {} s",
                                                  streams_.size(), o_.streams, o_.timeout_s));
    app::StreamPtr stream;
    app::Hello theirs;
    const auto next = static_cast<std::uint32_t>(streams_.size());
    const Status s = app::accept_stream(listener_, data_attr(), hello(0), 100, stream, theirs);
    if (!s.ok() && !stream) return s;
    // Anyone else was told that we are busy.
    if (s.ok() && stream && theirs.session == session_ &&
        theirs.stream == (round_ << 16 | (next + 1)))
      add_stream(std::move(stream));
  }
  statistics_.begin(streams_[0].get());
  return {};
}

Status Session::post_receives(std::uint32_t stream, const metaroce_wr* wr, std::uint32_t n) {
  while (n > 0) {
    const int taken = metaroce_post_recv(streams_[stream].get(), wr, static_cast<int>(n));
    if (taken < 0) return app::api_failure(taken, "cannot post receives");
    if (taken == 0) return fail(app::kExitFailure, "cannot post receives: the queue is full");
    wr += taken;
    n -= static_cast<std::uint32_t>(taken);
  }
  return {};
}

void Session::close_round() {
  if (!streams_.empty() && streams_[0]) statistics_.end(streams_[0].get());
  for (app::StreamPtr& s : streams_) metaroce_close(s.release(), round_over() ? kCloseMs : 0);
  streams_.clear();
  first_tag_ += tags_.size();
  tags_.clear();
}

// After a good run the peer may close first, and after a bad one it may be gone: neither is news.
void Session::finish(const Status& status) {
  close_round();
  const std::int64_t deadline = now_ns() + kCloseMs * (kSecondNs / 1000);
  app::IdleWait wait(false);
  while (control_.stream() && !control_.drained() && now_ns() < deadline) wait.idle();
  control_.close(status.ok() ? kCloseMs : 0);
}

Status Session::send(Message message) { return control_.send(message, o_.timeout_ms()); }

Status Session::send_done(std::uint64_t messages, std::uint64_t bytes, std::int64_t elapsed_ns) {
  done_sent_ = true;
  Message m;
  m.kind = MessageKind::kDone;
  m.messages = messages;
  m.bytes = bytes;
  m.elapsed_ns = elapsed_ns;
  return send(m);
}

Status Session::send_verified() {
  verified_sent_ = true;
  Message m;
  m.kind = MessageKind::kVerified;
  return send(m);
}

Status Session::ask_to_stop(bool interrupted) {
  stop_ = true;
  interrupted_ = interrupted_ || interrupted;
  if (stop_sent_ || !control_.stream()) return {};
  stop_sent_ = true;
  Message m;
  m.kind = MessageKind::kStop;
  m.interrupted = interrupted;
  return send(m);
}

Status Session::handle(const Message& m) {
  last_heard_ = now_ns();
  if (m.magic != Message::kMagic || m.version != Message::kVersion)
    return fail(app::kExitFailure, "the peer sent a control message of another version");
  switch (m.kind) {
    case MessageKind::kTick:
      return {};
    case MessageKind::kDone:
      done_ = m;
      return {};
    case MessageKind::kVerified:
      verified_ = m;
      return {};
    case MessageKind::kStop:
      stop_ = true;
      if (m.interrupted && !interrupted_) {
        interrupted_ = true;
        std::fprintf(io_.err, "metaroce-perf: the %s was interrupted: ending the run\n",
                     server() ? "client" : "server");
      }
      return {};
    case MessageKind::kFail:
      failed_by_peer_ = true;
      return fail(m.code == 0 || m.code > app::kExitPeerLost ? int{app::kExitFailure} : int{m.code},
                  fmt::format("the {} says: {}", server() ? "client" : "server", m.text_view()));
    default:
      inbox_ = m;
      return {};
  }
}

Status Session::drain_messages() {
  std::optional<Message> message;
  do {
    if (Status s = control_.receive(message); !s.ok()) {
      if (!round_over()) return s;
      lost_ = std::move(s);  // only news if another round was to come
      return {};
    }
    if (message)
      if (Status s = handle(*message); !s.ok()) return s;
  } while (message && !inbox_);
  return {};
}

Status Session::check_events() {
  metaroce_event event{};
  while (metaroce_next_event(ctx_, &event) == 0 && event.kind != METAROCE_EVENT_NONE) {
    if (event.kind == METAROCE_EVENT_DATAPLANE_GONE)
      return fail(app::kExitFailure, "the dataplane is gone (metaroced ended); start it again");
    // Data streams close once both ends have confirmed; ours is out when verified_sent_.
    const bool control = reinterpret_cast<std::uintptr_t>(event.user) == control_tag_;
    if (!control && (!stream_of(event.user) || verified_sent_)) continue;
    if (Status s = drain_messages(); !s.ok()) return s;  // a reason may have come before the close
    if (!round_over() && !inbox_) return fail(app::kExitPeerLost, "the peer closed the connection");
  }
  return {};
}

Status Session::service() {
  if (Status s = drain_messages(); !s.ok()) return s;
  if (!inbox_)
    if (Status s = check_events(); !s.ok()) return s;
  const std::int64_t now = now_ns();
  if (io_.stopping() && !interrupted_)
    if (Status s = ask_to_stop(true); !s.ok()) return s;
  if (now - last_tick_ > kTickNs) {
    last_tick_ = now;
    Message tick;
    tick.kind = MessageKind::kTick;
    if (Status s = send(tick); !s.ok()) return s;
  }
  if (now - last_heard_ > grace_ns(o_.max_size()))
    return fail(app::kExitPeerLost, fmt::format("nothing heard from the peer for {:.0f} s",
                                                static_cast<double>(now - last_heard_) / 1e9));
  if (server() && streams_.size() == o_.streams && now - last_knock_ > kKnockNs) {
    last_knock_ = now;
    app::turn_away(listener_, control_attr(), hello(0));
  }
  return {};
}

// Interrupted: returns at once, `out` as it is.
Status Session::expect(MessageKind kind, Message& out) {
  const std::int64_t deadline = now_ns() + grace_ns(o_.max_size());
  while (!interrupted_) {
    if (Status s = service(); !s.ok()) return s;
    if (inbox_) {
      out = *inbox_;
      inbox_.reset();
      return out.kind == kind ? Status{}
                              : fail(app::kExitFailure, "the peer sent a message out of turn");
    }
    if (!lost_.ok()) return lost_;
    if (now_ns() > deadline)
      return fail(app::kExitPeerLost,
                  fmt::format("no answer from the peer for {:.0f} s",
                              static_cast<double>(grace_ns(o_.max_size())) / 1e9));
    sleep_idle();
  }
  return {};
}

std::string Session::control_peer() const {
  metaroce_conn_stats stats{};
  if (!control_.stream() || metaroce_get_conn_stats(control_.stream(), &stats) < 0)
    return o_.server;
  stats.peer[sizeof stats.peer - 1] = '\0';
  return stats.peer;
}

void Session::sleep_idle() {
  if (o_.attach.embed.empty())
    control_.sleep(50);
  else
    sched_yield();  // an inline dataplane moves only while polled
}

Status Session::conclude(Status status) {
  // The end of the daemon fails requests first: they tell of a peer that may be well.
  if (!status.ok() && status.code != app::kExitMismatch && !metaroce_alive(ctx_))
    return fail(app::kExitFailure, "the dataplane is gone (metaroced ended); start it again");
  if (status.ok() || failed_by_peer_ || !control_.stream()) return status;
  if (status.code != app::kExitMismatch) {
    // What the peer says explains more than what its end did to our requests; it closes its data
    // streams first, so their errors may get here before its words.
    const std::int64_t deadline = now_ns() + kReasonNs;
    std::optional<Message> message;
    while (now_ns() < deadline) {
      if (!control_.receive(message).ok()) break;
      if (message && message->kind == MessageKind::kFail) return handle(*message);
      if (!message) control_.sleep(20);
    }
  }
  Message m;
  m.kind = MessageKind::kFail;
  m.code = static_cast<std::uint16_t>(status.code);
  m.set_text(status.text);
  static_cast<void>(control_.send(m, kCloseMs));
  return status;
}

}  // namespace metaroce::perf
