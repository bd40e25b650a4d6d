#include "fake_metaroce.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "metaroce/metaroce.h"

struct metaroce_cq {
  metaroce_context* ctx = nullptr;
  std::deque<metaroce_wc> entries;
  int fd = -1;
  bool armed = false;
};
struct metaroce_stream {
  metaroce_context* ctx = nullptr;
  metaroce_stream* peer = nullptr;
  metaroce_stream_attr attr{};
  std::vector<std::uint8_t> private_data, peer_data;
  std::deque<metaroce_wr> sends, receives;  // sends wait for a receive at the peer
};
struct metaroce_listener {
  metaroce_context* ctx = nullptr;
  std::uint32_t service = 0;
  struct Request {
    metaroce_stream* caller = nullptr;
    bool accepted = false;
  };
  std::deque<Request*> waiting;
};
struct metaroce_context {
  std::vector<std::unique_ptr<metaroce_cq>> cqs;
  std::vector<std::unique_ptr<metaroce_stream>> streams;
  std::vector<std::unique_ptr<metaroce_listener>> listeners;
  std::deque<metaroce_event> events;
  std::vector<metaroce_memory> regions;
  bool told_gone = false;
};

namespace {

std::mutex mutex;
std::condition_variable changed;
std::map<std::uint32_t, metaroce_listener*> services;
std::map<std::uint32_t, metaroce_memory> keys;
std::uint32_t next_key = 1;
fake::Faults faults;
std::uint64_t message_count = 0;
std::int64_t eligible_count = 0;
bool gone = false;
int streams_open = 0, regions_open = 0, queues_open = 0;
thread_local std::string error_text = "no error";

int error(int code, std::string text) {
  error_text = std::move(text);
  return -code;
}

void push(metaroce_cq* cq, const metaroce_wc& wc) {
  cq->entries.push_back(wc);
  if (!cq->armed) return;
  cq->armed = false;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(cq->fd, &one, sizeof one);
}

void complete(metaroce_stream* s, const metaroce_wr& wr, std::uint8_t status) {
  if (status == METAROCE_SUCCESS && !(wr.flags & METAROCE_WR_SIGNALED)) return;
  metaroce_wc wc{};
  wc.wr_id = wr.wr_id;
  wc.user = s->attr.user;
  wc.byte_len = wr.length;
  wc.op = wr.op;
  wc.status = status;
  push(s->attr.send_cq, wc);
}

void complete_receive(metaroce_stream* s, const metaroce_wr& receive, const metaroce_wr& wr,
                      bool write) {
  metaroce_wc wc{};
  wc.wr_id = receive.wr_id;
  wc.user = s->attr.user;
  wc.byte_len = wr.length;
  wc.imm = wr.imm;
  wc.op = write ? METAROCE_RECV_WRITE_IMM : METAROCE_RECV;
  wc.flags = wr.op == METAROCE_WRITE_IMM || wr.op == METAROCE_SEND_IMM ? METAROCE_WC_IMM : 0;
  push(s->attr.recv_cq, wc);
}

void move_bytes(void* to, const metaroce_wr& wr, std::uint64_t allowed) {
  if (wr.length == 0) return;
  // The last byte after all others, with release: what METAROCE_STREAM_ORDERED_LAST promises.
  auto* bytes = static_cast<std::uint8_t*>(to);
  const std::size_t n = std::min<std::uint64_t>(wr.length, allowed);
  const auto* from = static_cast<const std::uint8_t*>(wr.local);
  std::memcpy(bytes, from, n - 1);
  std::uint8_t last = from[n - 1];
  ++message_count;
  if (wr.length >= faults.flip_min_length && eligible_count++ == faults.flip_message &&
      faults.flip_offset < n) {
    if (faults.flip_offset == n - 1)
      last ^= faults.flip_mask;
    else
      bytes[faults.flip_offset] ^= faults.flip_mask;
  }
  __atomic_store_n(bytes + n - 1, last, __ATOMIC_RELEASE);
}

bool in_region(std::uint32_t key, std::uint64_t address, std::uint64_t length) {
  const auto it = keys.find(key);
  if (it == keys.end()) return false;
  const auto base = reinterpret_cast<std::uintptr_t>(it->second.addr);
  return address >= base && address + length <= base + it->second.length;
}

void flush(metaroce_stream* s) {
  for (const metaroce_wr& wr : s->sends) complete(s, wr, METAROCE_FLUSHED);
  for (const metaroce_wr& r : s->receives) {
    metaroce_wc wc{};
    wc.wr_id = r.wr_id;
    wc.user = s->attr.user;
    wc.op = METAROCE_RECV;
    wc.status = METAROCE_FLUSHED;
    push(s->attr.recv_cq, wc);
  }
  s->sends.clear();
  s->receives.clear();
}

void disconnect(metaroce_stream* s) {
  metaroce_stream* peer = s->peer;
  flush(s);
  if (!peer) return;
  s->peer = peer->peer = nullptr;
  flush(peer);
  peer->ctx->events.push_back({METAROCE_EVENT_STREAM_CLOSED, METAROCE_FLUSHED, peer->attr.user});
}

// Moves what can move from s to its peer.
void pump(metaroce_stream* s) {
  while (s->peer && !s->sends.empty()) {
    const metaroce_wr wr = s->sends.front();
    const bool write = wr.op == METAROCE_WRITE || wr.op == METAROCE_WRITE_IMM;
    const bool wants_receive = wr.op != METAROCE_WRITE;
    if (wants_receive && s->peer->receives.empty()) return;
    s->sends.pop_front();
    if (write && wr.length > 0) {
      if (!in_region(wr.rkey, wr.remote_addr, wr.length)) {
        complete(s, wr, METAROCE_REMOTE_ACCESS);
        continue;
      }
      move_bytes(reinterpret_cast<void*>(wr.remote_addr), wr, UINT64_MAX);
    }
    if (wants_receive) {
      const metaroce_wr receive = s->peer->receives.front();
      s->peer->receives.pop_front();
      if (!write) {
        if (wr.length > receive.length) {
          complete(s, wr, METAROCE_REMOTE_INVALID_REQUEST);
          continue;
        }
        move_bytes(receive.local, wr, receive.length);
      }
      complete_receive(s->peer, receive, wr, write);
    }
    complete(s, wr, METAROCE_SUCCESS);
    if (faults.cut_after >= 0 && message_count >= static_cast<std::uint64_t>(faults.cut_after)) {
      disconnect(s);
      return;
    }
  }
}

void drop_stream(metaroce_stream* s) {
  disconnect(s);
  --streams_open;
  auto& list = s->ctx->streams;
  list.erase(std::find_if(list.begin(), list.end(), [s](const auto& p) { return p.get() == s; }));
}
void drop_cq(metaroce_cq* cq) {
  close(cq->fd);
  --queues_open;
  auto& list = cq->ctx->cqs;
  list.erase(std::find_if(list.begin(), list.end(), [cq](const auto& p) { return p.get() == cq; }));
}
void drop_listener(metaroce_listener* l) {
  services.erase(l->service);
  auto& list = l->ctx->listeners;
  list.erase(std::find_if(list.begin(), list.end(), [l](const auto& p) { return p.get() == l; }));
}
void drop_region(metaroce_context* ctx, std::uint32_t key) {
  const auto it = std::find_if(ctx->regions.begin(), ctx->regions.end(),
                               [key](const auto& m) { return m.rkey == key; });
  if (it == ctx->regions.end()) return;
  munmap(it->addr, it->length);
  keys.erase(key);
  --regions_open;
  ctx->regions.erase(it);
}

metaroce_stream* new_stream(metaroce_context* ctx, const metaroce_stream_attr& attr) {
  auto s = std::make_unique<metaroce_stream>();
  s->ctx = ctx;
  s->attr = attr;
  if (s->attr.send_depth == 0) s->attr.send_depth = 128;
  if (s->attr.recv_depth == 0) s->attr.recv_depth = 128;
  const auto* data = static_cast<const std::uint8_t*>(attr.private_data);
  s->private_data.assign(data, data + attr.private_data_len);
  ++streams_open;
  ctx->streams.push_back(std::move(s));
  return ctx->streams.back().get();
}

}  // namespace

namespace fake {

void reset(const Faults& f) {
  const std::lock_guard lock(mutex);
  faults = f;
  message_count = 0;
  eligible_count = 0;
  gone = false;
}
void kill_dataplane() {
  const std::lock_guard lock(mutex);
  gone = true;
  changed.notify_all();
}
std::uint64_t messages() {
  const std::lock_guard lock(mutex);
  return message_count;
}
int open_streams() {
  const std::lock_guard lock(mutex);
  return streams_open;
}
int open_regions() {
  const std::lock_guard lock(mutex);
  return regions_open;
}
int open_queues() {
  const std::lock_guard lock(mutex);
  return queues_open;
}

}  // namespace fake

extern "C" {

int metaroce_attach(const metaroce_attach_attr*, metaroce_context** out) {
  const std::lock_guard lock(mutex);
  if (faults.refuse_attach) return error(ECONNREFUSED, "no daemon at /run/x.sock: start metaroced");
  *out = new metaroce_context;
  return 0;
}
void metaroce_detach(metaroce_context* ctx) {
  if (!ctx) return;
  const std::lock_guard lock(mutex);
  while (!ctx->streams.empty()) drop_stream(ctx->streams.back().get());
  while (!ctx->listeners.empty()) drop_listener(ctx->listeners.back().get());
  while (!ctx->cqs.empty()) drop_cq(ctx->cqs.back().get());
  while (!ctx->regions.empty()) drop_region(ctx, ctx->regions.back().rkey);
  delete ctx;
}
const char* metaroce_error(void) { return error_text.c_str(); }
const char* metaroce_version(void) { return "0.0.0-fake"; }
const char* metaroce_status_str(int status) {
  return status == METAROCE_FLUSHED         ? "flushed"
         : status == METAROCE_REMOTE_ACCESS ? "remote access"
                                            : "error";
}
int metaroce_alive(metaroce_context*) {
  const std::lock_guard lock(mutex);
  return gone ? 0 : 1;
}
int metaroce_progress(metaroce_context*) { return 0; }

int metaroce_memory_alloc(metaroce_context* ctx, size_t length, unsigned, metaroce_memory* out) {
  const std::lock_guard lock(mutex);
  if (length > faults.memory_limit) return error(ENOMEM, "over the client's limit of memory");
  void* p = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return error(ENOMEM, "mmap failed");
  *out = {p, length, next_key, next_key};
  keys[next_key++] = *out;
  ctx->regions.push_back(*out);
  ++regions_open;
  return 0;
}
int metaroce_memory_free(metaroce_context* ctx, const metaroce_memory* mem) {
  const std::lock_guard lock(mutex);
  drop_region(ctx, mem->rkey);
  return 0;
}

int metaroce_cq_create(metaroce_context* ctx, uint32_t, metaroce_cq** out) {
  const std::lock_guard lock(mutex);
  ctx->cqs.push_back(std::make_unique<metaroce_cq>());
  *out = ctx->cqs.back().get();
  (*out)->ctx = ctx;
  (*out)->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  ++queues_open;
  return 0;
}
int metaroce_cq_destroy(metaroce_cq* cq) {
  const std::lock_guard lock(mutex);
  drop_cq(cq);
  return 0;
}
int metaroce_poll(metaroce_cq* cq, int n, metaroce_wc* wc) {
  const std::lock_guard lock(mutex);
  int taken = 0;
  for (; taken < n && !cq->entries.empty(); ++taken) {
    wc[taken] = cq->entries.front();
    cq->entries.pop_front();
  }
  return taken;
}
int metaroce_cq_fd(metaroce_cq* cq) { return cq->fd; }
int metaroce_cq_arm(metaroce_cq* cq) {
  const std::lock_guard lock(mutex);
  cq->armed = true;
  if (cq->entries.empty()) return 0;
  cq->armed = false;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(cq->fd, &one, sizeof one);
  return 0;
}

int metaroce_listen(metaroce_context* ctx, uint32_t service, metaroce_listener** out) {
  const std::lock_guard lock(mutex);
  if (services.count(service)) return error(EADDRINUSE, "the service has a listener");
  ctx->listeners.push_back(std::make_unique<metaroce_listener>());
  *out = ctx->listeners.back().get();
  (*out)->ctx = ctx;
  (*out)->service = service;
  services[service] = *out;
  changed.notify_all();
  return 0;
}
int metaroce_listener_close(metaroce_listener* l) {
  const std::lock_guard lock(mutex);
  drop_listener(l);
  return 0;
}
int metaroce_accept(metaroce_listener* l, const metaroce_stream_attr* attr, int timeout_ms,
                    metaroce_stream** out) {
  std::unique_lock lock(mutex);
  if (!changed.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                        [l] { return !l->waiting.empty(); }))
    return error(ETIMEDOUT, "nobody called");
  metaroce_listener::Request* request = l->waiting.front();
  l->waiting.pop_front();
  metaroce_stream* s = new_stream(l->ctx, *attr);
  s->peer = request->caller;
  request->caller->peer = s;
  s->peer_data = request->caller->private_data;
  request->caller->peer_data = s->private_data;
  request->accepted = true;
  changed.notify_all();
  *out = s;
  return 0;
}
int metaroce_connect(metaroce_context* ctx, const char*, uint32_t service,
                     const metaroce_stream_attr* attr, int timeout_ms, metaroce_stream** out) {
  std::unique_lock lock(mutex);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  if (!changed.wait_until(lock, limit, [service] { return services.count(service) > 0; }))
    return error(ECONNREFUSED, "nobody listens on that service");
  metaroce_listener::Request request{new_stream(ctx, *attr), false};
  services[service]->waiting.push_back(&request);
  changed.notify_all();
  if (changed.wait_until(lock, limit, [&request] { return request.accepted; })) {
    *out = request.caller;
    return 0;
  }
  if (services.count(service)) {
    auto& list = services[service]->waiting;
    list.erase(std::remove(list.begin(), list.end(), &request), list.end());
  }
  drop_stream(request.caller);
  return error(ETIMEDOUT, "no answer");
}
int metaroce_stream_private_data(metaroce_stream* s, void* out, uint32_t n) {
  const std::lock_guard lock(mutex);
  const auto& data = s->peer_data;
  std::memcpy(out, data.data(), std::min<std::size_t>(n, data.size()));
  return static_cast<int>(data.size());
}
int metaroce_close(metaroce_stream* s, int timeout_ms) {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), [s] { return s->sends.empty(); });
  drop_stream(s);
  return 0;
}

int metaroce_post(metaroce_stream* s, const metaroce_wr* wr, int n) {
  const std::lock_guard lock(mutex);
  int taken = 0;
  for (; taken < n && s->sends.size() < s->attr.send_depth; ++taken) {
    if (wr[taken].length &&
        !in_region(wr[taken].lkey, reinterpret_cast<std::uintptr_t>(wr[taken].local),
                   wr[taken].length))
      return taken ? taken : error(EINVAL, "outside of the registered memory");
    if (!s->peer || gone)
      complete(s, wr[taken], METAROCE_FLUSHED);
    else
      s->sends.push_back(wr[taken]);
    pump(s);
  }
  changed.notify_all();
  return taken;
}
int metaroce_post_recv(metaroce_stream* s, const metaroce_wr* wr, int n) {
  const std::lock_guard lock(mutex);
  int taken = 0;
  for (; taken < n && s->receives.size() < s->attr.recv_depth; ++taken) {
    if (wr[taken].length &&
        !in_region(wr[taken].lkey, reinterpret_cast<std::uintptr_t>(wr[taken].local),
                   wr[taken].length))
      return taken ? taken : error(EINVAL, "outside of the registered memory");
    s->receives.push_back(wr[taken]);
  }
  if (!s->peer)
    flush(s);
  else
    pump(s->peer);
  changed.notify_all();
  return taken;
}

int metaroce_next_event(metaroce_context* ctx, metaroce_event* out) {
  const std::lock_guard lock(mutex);
  *out = {};
  if (gone && !ctx->told_gone) {
    ctx->told_gone = true;
    *out = {METAROCE_EVENT_DATAPLANE_GONE, METAROCE_GENERAL, nullptr};
  } else if (!ctx->events.empty()) {
    *out = ctx->events.front();
    ctx->events.pop_front();
  }
  return 0;
}
int metaroce_get_conn_stats(metaroce_stream*, metaroce_conn_stats* out) {
  *out = {};
  std::strcpy(out->peer, "fd00::1");
  return 0;
}
int metaroce_get_path_stats(metaroce_stream*, metaroce_path_stats* out, int n) {
  const std::lock_guard lock(mutex);
  for (int i = 0; i < std::min(n, 2); ++i) {
    out[i] = {};
    out[i].path = out[i].plane = static_cast<std::uint8_t>(i);
    out[i].active = 1;
    out[i].tx_packets = message_count;
  }
  return 2;
}

}  // extern "C"
