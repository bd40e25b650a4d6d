// One client and one server: control stream, memory, data streams, and everything that may arrive
// or go wrong beside the data. The rounds (bandwidth.h, latency.h) run on top.
//
// Limits: a peer that says nothing for --timeout (it ticks once a second) is lost; each blocking
// step has the same limit. Large messages get more: kSlowestBytesPerSecond of grace, because
// registering, filling or checking 2 GiB takes its time. One thread.
#pragma once

#include <optional>
#include <vector>

#include "common/api.h"
#include "common/hello.h"
#include "common/idle_wait.h"
#include "common/io.h"
#include "common/message_channel.h"
#include "metaroce-perf/layout.h"
#include "metaroce-perf/message.h"
#include "metaroce-perf/options.h"
#include "metaroce-perf/statistics.h"

namespace metaroce::perf {

class Session {
 public:
  static constexpr std::int64_t kSlowestBytesPerSecond = 50'000'000;

  Session(const Options& options, const app::Io& io, metaroce_context* ctx,
          metaroce_listener* listener);

  // Client: connects, agrees, registers. Server: the same from an accepted control stream.
  app::Status connect();
  // Waits up to timeout_ms for a client; `came` tells.
  app::Status accept(int timeout_ms, bool& came);
  app::Status agree();

  // Client: announces the round and connects its streams. Server: the round that the client
  // announces, streams accepted; none when the client has finished.
  app::Status open_round(Message& round);
  app::Status await_round(std::optional<Message>& round);
  app::Status post_receives(std::uint32_t stream, const metaroce_wr* wr, std::uint32_t n);
  // Closes the round's streams; statistics are taken before.
  void close_round();
  void finish(const app::Status& status);

  // Control messages, ticks, events, signals. To be called in every wait.
  app::Status service();
  app::Status send(Message message);
  // Sends kDone or kVerified once per round.
  app::Status send_done(std::uint64_t messages, std::uint64_t bytes, std::int64_t elapsed_ns);
  app::Status send_verified();
  bool round_over() const { return verified_sent_ && verified_.has_value(); }
  bool done_sent() const { return done_sent_; }
  bool verified_sent() const { return verified_sent_; }
  const std::optional<Message>& peer_done() const { return done_; }
  // Asks the peer to post no more; `interrupted`: by a person.
  app::Status ask_to_stop(bool interrupted);
  bool stop_requested() const { return stop_; }
  bool interrupted() const { return interrupted_; }

  // A failure of our own is told to the peer; one that the peer's kFail explains becomes that.
  app::Status conclude(app::Status status);

  const Options& options() const { return o_; }
  bool server() const { return listener_ != nullptr; }
  bool sends() const { return !server() || o_.bidirectional; }
  bool receives() const { return server() || o_.bidirectional; }
  metaroce_cq* cq() const { return cq_.get(); }
  metaroce_stream* stream(std::uint32_t i) const { return streams_[i].get(); }
  // Of a completion: the stream's number, or none when it is of an earlier round.
  std::optional<std::uint32_t> stream_of(const void* user) const;
  app::Memory& send_memory() { return send_memory_; }
  app::Memory& recv_memory() { return recv_memory_; }
  std::uint64_t remote_address() const { return remote_address_; }
  std::uint32_t remote_rkey() const { return remote_rkey_; }
  std::uint64_t seed() const { return seed_; }
  std::int64_t grace_ns(std::uint64_t bytes) const;
  const Statistics& statistics() const { return statistics_; }
  std::string control_peer() const;
  void sleep_idle();

 private:
  app::Status register_memory();
  app::Status expect(MessageKind kind, Message& out);
  app::Status handle(const Message& message);
  app::Status drain_messages();
  app::Status check_events();
  app::Status connect_streams();
  app::Status accept_streams();
  metaroce_stream_attr data_attr();
  metaroce_stream_attr control_attr() const;
  void add_stream(app::StreamPtr stream);
  app::Hello hello(std::uint32_t stream) const;
  void begin_round(std::uint32_t number);

  Options o_;
  const app::Io& io_;
  metaroce_context* ctx_;
  metaroce_listener* listener_;
  app::MessageChannel<Message> control_;
  app::Memory send_memory_, recv_memory_;
  app::CqPtr cq_;
  std::vector<app::StreamPtr> streams_;  // closed before the queue and the memory they use
  static constexpr std::uint32_t kNoStream = UINT32_MAX;
  // A stream's `user` is a tag, never used twice in a process: events of streams that are gone,
  // of this session or an earlier one, must not be taken for events of these.
  std::uintptr_t control_tag_, first_tag_;  // first of this round
  std::vector<std::uint32_t> tags_;         // tag - first_tag_ -> stream
  std::uint64_t session_ = 0, seed_ = 0, remote_address_ = 0;
  std::uint32_t remote_rkey_ = 0, round_ = 0;
  std::optional<Message> inbox_, done_, verified_;
  bool done_sent_ = false, verified_sent_ = false, stop_ = false, stop_sent_ = false,
       interrupted_ = false, failed_by_peer_ = false, prepared_ = false;
  std::int64_t last_heard_ = 0, last_tick_ = 0, last_knock_ = 0;
  app::Status lost_;  // how the control stream ended after a complete round
  Statistics statistics_;
};

}  // namespace metaroce::perf
