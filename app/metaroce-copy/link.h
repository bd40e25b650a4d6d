// What both ends of a copy share: the control stream with its ticks, events and limits, and the
// data stream. One thread. A peer that says nothing for --timeout is lost.
#pragma once

#include <optional>

#include "common/api.h"
#include "common/hello.h"
#include "common/idle_wait.h"
#include "common/io.h"
#include "common/message_channel.h"
#include "metaroce-copy/message.h"
#include "metaroce-copy/options.h"

namespace metaroce::copy {

class Link {
 public:
  static constexpr std::uint32_t kReceives = kSlots + 4;

  Link(const Options& options, const app::Io& io, metaroce_context* ctx)
      : o_(options), io_(io), ctx_(ctx), tag_(app::next_session_tag()) {}

  app::Status connect();                                                 // sender, both streams
  app::Status accept(metaroce_listener* l, int timeout_ms, bool& came);  // receiver, control
  app::Status accept_data(metaroce_listener* l);
  app::Status send(const Message& message) { return control_.send(message, o_.timeout_ms()); }
  // The next message that is not a tick. Fails when the peer says kAbort, is lost, or the
  // dataplane is gone.
  app::Status poll(std::optional<Message>& message);
  app::Status post_receive();
  // Tells the peer why we end, or finds out why it did.
  app::Status conclude(app::Status status);
  // Receiver, at its end: until the sender has read what we sent, at most kByeMs.
  void await_bye();
  void close(bool good);
  void sleep_idle(int ms);
  app::Hello hello(bool busy) const;

  metaroce_stream* data() const { return data_.get(); }
  metaroce_cq* cq() const { return cq_.get(); }
  metaroce_context* context() const { return ctx_; }
  metaroce_stream_attr control_attr() const;
  bool open() const { return control_.stream() != nullptr; }

 private:
  metaroce_stream_attr data_attr() const;
  app::Status post_first_receives();
  app::Status check_events();
  void sleep_control(int ms);

  const Options& o_;
  const app::Io& io_;
  metaroce_context* ctx_;
  std::uintptr_t tag_;
  std::uint64_t session_ = 0;
  bool prepared_ = false, told_by_peer_ = false, over_ = false;
  app::MessageChannel<Message> control_;
  app::CqPtr cq_;
  app::StreamPtr data_;
  std::int64_t last_heard_ = 0, last_tick_ = 0;

 public:
  // The exchange is complete on our side: the peer may close.
  void set_over() { over_ = true; }
};

}  // namespace metaroce::copy
