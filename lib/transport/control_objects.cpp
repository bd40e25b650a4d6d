// Clients, completion queues and regions: what an application brings, installed in both roles of
// every group, and taken back in the order that lets no role touch what is gone.
//
// - Ids and keys that a client gives are looked up and checked to be its own; what is
//   not looks exactly like what does not exist.
// - A region's key is index 20 bits | random 12 bits. The index is drawn at random among
//   [0, max_regions), the key is never 0: a peer cannot guess a key from one that it was given.
// - A completion queue is in use from connect() or accept() until its stream has stopped.
// - remove_client: listeners end (their requests are rejected), streams leave the roles without
//   draining, then queues and regions, then the rings; the event comes last. The exchange of
//   STREAM_CLOSE with the peers goes on without the client.
#include <algorithm>

#include "transport/control_role.h"

namespace metaroce {

using control::CtrlStatus;
using control::ObjectState;
using control::StreamState;

namespace {

constexpr unsigned kKeyRandomBits = 12;
const auto kNoParams = [](std::uint32_t) -> const void* { return nullptr; };

}  // namespace

ControlRole::Client* ControlRole::client_at(ClientId id) {
  const auto it = clients_.find(id.v);
  return it == clients_.end() ? nullptr : it->second.get();
}

ControlRole::Client* ControlRole::ready_client(std::uint64_t token, ClientId id) {
  Client* c = client_at(id);
  if (c != nullptr && c->state == ObjectState::kReady) return c;
  emit(ControlEventKind::kDone, token, id, ControlStatus::kNoSuchObject, "no such client");
  return nullptr;
}

// ---- clients --------------------------------------------------------------------------------

void ControlRole::add_client(std::uint64_t token, ClientId id, std::vector<GroupRings> rings) {
  const auto fail = [&](ControlStatus status, const char* message) {
    emit(ControlEventKind::kDone, token, id, status, message);
  };
  if (client_at(id) != nullptr) return fail(ControlStatus::kInUse, "client id in use");
  if (shutting_down_) return fail(ControlStatus::kRefused, "this host is shutting down");
  if (clients_.size() >= host_.config.max_clients)
    return fail(ControlStatus::kLimit, "max_clients is reached");
  if (rings.size() != host_.groups)
    return fail(ControlStatus::kInvalid, "one pair of submission rings per worker group is needed");
  auto client = std::make_unique<Client>();
  client->id = id;
  client->token = token;
  for (const GroupRings& r : rings) {
    client->rx.push_back({id, r.receives});
    client->tx.push_back({id, r.sends});
  }
  Client& c = *(clients_[id.v] = std::move(client));
  command_all(
      CommandKind::kAddClient, Owner::kClient, id.v, c.waits,
      [&](std::uint32_t g) { return &c.rx[g]; }, [&](std::uint32_t g) { return &c.tx[g]; });
}

void ControlRole::remove_client(std::uint64_t token, ClientId id) {
  Client* c = client_at(id);
  if (c == nullptr || c->state == ObjectState::kRemoving) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kNoSuchObject, "no such client");
    return;
  }
  if (c->token)  // still being added
    emit(ControlEventKind::kDone, c->token, id, ControlStatus::kNoSuchObject,
         "the client was removed");
  c->state = ObjectState::kRemoving;
  c->token = token;
  const std::vector<std::uint32_t> services(c->services.begin(), c->services.end());
  for (const std::uint32_t service : services) end_listener(service);
  detach_streams(*c);
  advance_client_removal(*c);
}

void ControlRole::detach_streams(Client& c) {
  const std::vector<StreamHandle> handles(c.streams.begin(), c.streams.end());
  for (const StreamHandle h : handles) {
    Stream* s = stream_at(h);
    if (s == nullptr || !s->attached) continue;
    switch (s->state) {
      case StreamState::kQueued:
      case StreamState::kOpening:
        cancel_open(*s, ControlStatus::kNoSuchObject, "the client was removed");
        break;
      case StreamState::kRequested:
        reject_request(*s, CtrlStatus::kRefused);
        break;
      case StreamState::kOpen:
      case StreamState::kDraining:
        s->detach = true;
        begin_close(*s);
        break;
      default:
        s->detach = true;
        advance_stream(*s);
        rearm(*s);
        break;
    }
  }
}

// Next step of a client's removal, whenever one of its objects has gone.
void ControlRole::advance_client_removal(Client& c) {
  if (c.state != ObjectState::kRemoving || c.remove_sent || !c.streams.empty()) return;
  const std::vector<std::uint32_t> cqs(c.cqs.begin(), c.cqs.end());
  const std::vector<std::uint32_t> regions(c.regions.begin(), c.regions.end());
  for (const std::uint32_t id : cqs)
    if (Cq& q = *cqs_.at(id); q.state == ObjectState::kReady) remove_cq(q, std::nullopt);
  for (const std::uint32_t index : regions)
    if (Region& r = *regions_.at(index); r.state == ObjectState::kReady)
      remove_region(r, std::nullopt);
  if (!c.cqs.empty() || !c.regions.empty() || c.waits != 0) return;
  c.remove_sent = true;
  command_all(CommandKind::kRemoveClient, Owner::kClient, c.id.v, c.waits, kNoParams, kNoParams);
}

void ControlRole::on_client_result(Client& c) {
  if (c.state == ObjectState::kInstalling && !c.failed) {
    c.state = ObjectState::kReady;
    emit(ControlEventKind::kDone, c.token, c.id);
    c.token.reset();
    return;
  }
  if (c.state == ObjectState::kInstalling) {  // some role refused: take it back everywhere
    emit(ControlEventKind::kDone, c.token, c.id, ControlStatus::kLimit,
         "a worker group has no room for another client: raise max_clients");
    c.token.reset();
    c.state = ObjectState::kRemoving;
  }
  if (!c.remove_sent) return advance_client_removal(c);
  if (c.token) emit(ControlEventKind::kDone, c.token, c.id);
  clients_.erase(c.id.v);
}

// ---- regions --------------------------------------------------------------------------------

void ControlRole::add_region(std::uint64_t token, ClientId id, std::uint64_t va, std::uint8_t* host,
                             std::uint64_t length, std::uint32_t access) {
  Client* client = ready_client(token, id);
  if (client == nullptr) return;
  constexpr std::uint32_t kKnown =
      kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
  const std::uint64_t top = UINT64_MAX;
  if (host == nullptr || length == 0 || va > top - length || (access & ~kKnown) != 0) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kInvalid,
         "a region needs a length, an address range without wrap-around and known access flags");
    return;
  }
  if (regions_.size() >= host_.config.max_regions / 2 + host_.config.max_regions % 2) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kLimit,
         "half of max_regions is in use");
    return;
  }
  // At most half of the indices are in use: two draws on average.
  std::uint32_t index = 0, key = 0;
  do {
    const std::uint64_t random = io_.secret_random();  // [MR-10.1.1]
    index = static_cast<std::uint32_t>((random >> 32) * host_.config.max_regions >> 32);
    key = (index << kKeyRandomBits) | (random & ((1U << kKeyRandomBits) - 1));
  } while (key == 0 || regions_.contains(index));

  auto region = std::make_unique<Region>();
  region->token = token;
  region->params = {key, id, id.v, va, host, length, access};  // [MR-10.1.2]
  Region& r = *(regions_[index] = std::move(region));
  client->regions.insert(index);
  const auto params = [&](std::uint32_t) { return &r.params; };
  command_all(CommandKind::kAddRegion, Owner::kRegion, index, r.waits, params, params);
}

void ControlRole::remove_region(std::uint64_t token, ClientId id, std::uint32_t key) {
  Client* client = ready_client(token, id);
  if (client == nullptr) return;
  const auto it = regions_.find(key >> kKeyRandomBits);
  if (it == regions_.end() || it->second->params.key != key || it->second->params.client != id ||
      it->second->state != ObjectState::kReady) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kNoSuchObject,
         "not a key of this client");
    return;
  }
  remove_region(*it->second, token);
}

void ControlRole::remove_region(Region& r, std::optional<std::uint64_t> token) {
  r.state = ObjectState::kRemoving;
  r.token = token;
  // kRemoveRegion names the key, the result the index.
  for (std::uint32_t g = 0; g < host_.groups; ++g) {
    for (const Side side : {Side::kRx, Side::kTx}) {
      Command cmd;
      cmd.kind = CommandKind::kRemoveRegion;
      cmd.id = r.params.key;
      ++r.waits;
      command(g, side, cmd, Owner::kRegion, r.params.key >> kKeyRandomBits);
    }
  }
}

void ControlRole::on_region_result(Region& r) {
  const std::uint32_t index = r.params.key >> kKeyRandomBits;
  Client& client = *client_at(r.params.client);
  const bool wanted = client.state == ObjectState::kReady;
  if (r.state == ObjectState::kInstalling) {
    if (!r.failed && wanted) {
      r.state = ObjectState::kReady;
      emit(ControlEventKind::kDone, r.token, client.id).id = r.params.key;
      r.token.reset();
      return;
    }
    emit(ControlEventKind::kDone, r.token, client.id,
         wanted ? ControlStatus::kLimit : ControlStatus::kNoSuchObject,
         wanted ? "a worker group has no room for another region: raise max_regions"
                : "the client was removed");
    return remove_region(r, std::nullopt);
  }
  if (r.token) emit(ControlEventKind::kDone, r.token, client.id).id = r.params.key;  // [MR-10.1.3]
  client.regions.erase(index);
  regions_.erase(index);
  advance_client_removal(client);
}

// ---- completion queues ----------------------------------------------------------------------

void ControlRole::add_cq(std::uint64_t token, ClientId id, std::vector<CqRings> rings,
                         std::atomic<std::uint32_t>* armed, int event_fd) {
  Client* client = ready_client(token, id);
  if (client == nullptr) return;
  if (rings.size() != host_.groups) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kInvalid,
         "one pair of completion rings per worker group is needed");
    return;
  }
  if (free_cqs_.empty()) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kLimit, "max_cqs is reached");
    return;
  }
  auto cq = std::make_unique<Cq>();
  cq->id = free_cqs_.front();
  free_cqs_.pop_front();
  cq->client = id;
  cq->token = token;
  for (const CqRings& r : rings) {
    cq->rx.push_back({cq->id, id, r.from_rx, armed, event_fd});
    cq->tx.push_back({cq->id, id, r.from_tx, armed, event_fd});
  }
  Cq& q = *(cqs_[cq->id] = std::move(cq));
  client->cqs.insert(q.id);
  command_all(
      CommandKind::kAddCq, Owner::kCq, q.id, q.waits, [&](std::uint32_t g) { return &q.rx[g]; },
      [&](std::uint32_t g) { return &q.tx[g]; });
}

void ControlRole::remove_cq(std::uint64_t token, ClientId id, std::uint32_t cq) {
  Client* client = ready_client(token, id);
  if (client == nullptr) return;
  const auto it = cqs_.find(cq);
  if (it == cqs_.end() || it->second->client != id || it->second->state != ObjectState::kReady) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kNoSuchObject,
         "not a completion queue of this client");
    return;
  }
  if (it->second->users != 0) {
    emit(ControlEventKind::kDone, token, id, ControlStatus::kInUse,
         "a stream still uses this completion queue: close it first");
    return;
  }
  remove_cq(*it->second, token);
}

void ControlRole::remove_cq(Cq& q, std::optional<std::uint64_t> token) {
  q.state = ObjectState::kRemoving;
  q.token = token;
  command_all(CommandKind::kRemoveCq, Owner::kCq, q.id, q.waits, kNoParams, kNoParams);
}

void ControlRole::on_cq_result(Cq& q) {
  Client& client = *client_at(q.client);
  const bool wanted = client.state == ObjectState::kReady;
  if (q.state == ObjectState::kInstalling) {
    if (!q.failed && wanted) {
      q.state = ObjectState::kReady;
      emit(ControlEventKind::kDone, q.token, client.id).id = q.id;
      q.token.reset();
      return;
    }
    emit(ControlEventKind::kDone, q.token, client.id,
         wanted ? ControlStatus::kLimit : ControlStatus::kNoSuchObject,
         wanted ? "a worker group has no room for another completion queue: raise max_cqs"
                : "the client was removed");
    return remove_cq(q, std::nullopt);
  }
  const std::uint32_t id = q.id;
  if (q.token) emit(ControlEventKind::kDone, q.token, client.id).id = id;
  client.cqs.erase(id);
  cqs_.erase(id);
  free_cqs_.push_back(id);
  advance_client_removal(client);
}

}  // namespace metaroce
