#include "api/server/host_sessions.h"

namespace metaroce {

Session* HostSessions::open(MessageSink* sink) {
  if (sessions_.size() >= UINT16_MAX) return nullptr;
  // Ids go round before they come again: a late event cannot meet a young client.
  do ++last_id_;
  while (last_id_ == 0 || sessions_.contains(ClientId{last_id_}));
  const ClientId id{last_id_};
  auto& s = sessions_[id] = std::make_unique<Session>(api_, resources_, limits_, id, sink);
  return s.get();
}

unsigned HostSessions::dispatch() {
  unsigned n = 0;
  ControlEvent e;
  while (n < kEventsPerPass && api_.next_event(e)) {
    ++n;
    const ClientId id = e.token != 0 ? client_of_token(e.token) : e.client;
    if (const auto s = sessions_.find(id); s != sessions_.end()) {
      s->second->on_event(e);
    } else if (e.kind == ControlEventKind::kConnectRequest) {
      api_.reject(e.client, e.request);
    }
    e = {};
  }
  std::erase_if(sessions_,
                [](const auto& s) { return s.second->closed() && s.second->abandoned(); });
  return n;
}

void HostSessions::close_all() {
  for (auto& [id, s] : sessions_) s->begin_close();
}

SessionCounts HostSessions::counts() const {
  SessionCounts c;
  for (const auto& [id, s] : sessions_) s->add_counts(c);
  return c;
}

}  // namespace metaroce
