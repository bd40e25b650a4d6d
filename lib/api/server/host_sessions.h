// The sessions of one host: gives client ids, brings each ControlEvent to its session and forgets
// sessions that are over. Control thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "api/server/session.h"

namespace metaroce {

class HostSessions {
 public:
  // All references must outlive this object.
  HostSessions(std::string name, ControlApi& api, Resources& resources, const SessionLimits& limits)
      : name_(std::move(name)), api_(api), resources_(resources), limits_(limits) {}

  // A new session that talks to `sink` until its begin_close(); nullptr when all ids are in use.
  Session* open(MessageSink* sink);
  // Delivers what the host has to say, at most a bounded number of events; returns how many.
  unsigned dispatch();
  void close_all();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t size() const { return sessions_.size(); }
  [[nodiscard]] SessionCounts counts() const;

 private:
  static constexpr unsigned kEventsPerPass = 256;

  std::string name_;
  ControlApi& api_;
  Resources& resources_;
  const SessionLimits& limits_;
  std::map<ClientId, std::unique_ptr<Session>> sessions_;
  std::uint16_t last_id_ = 0;
};

}  // namespace metaroce
