// Listeners, streams and posting.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "api/address_text.h"
#include "api/client/context.h"
#include "api/client/errors.h"

using namespace metaroce;

namespace {

constexpr std::uint32_t kDefaultDepth = 128;
constexpr Nanos kLongestSleep = 100 * kMillisecond;

// Checks `attr` and writes it into `r`; 0 or a negative errno.
int describe(metaroce_context* ctx, const metaroce_stream_attr* attr, abi::Request& r) {
  if (attr == nullptr || attr->send_cq == nullptr || attr->recv_cq == nullptr)
    return fail(EINVAL, "a stream needs attributes with send_cq and recv_cq");
  if (attr->send_cq->context != ctx || attr->recv_cq->context != ctx)
    return fail(EINVAL, "a stream's completion queues must be of its own context");
  if (attr->private_data_len > kMaxPrivateData ||
      (attr->private_data_len != 0 && attr->private_data == nullptr))
    return fail(EINVAL, "private data is longer than 128 bytes or NULL");
  if ((attr->flags & ~unsigned{METAROCE_STREAM_ORDERED_LAST}) != 0)
    return fail(EINVAL, "unknown stream flags");
  abi::StreamSpec& s = r.stream;
  s.send_cq = attr->send_cq->id;
  s.recv_cq = attr->recv_cq->id;
  s.send_depth = attr->send_depth != 0 ? attr->send_depth : kDefaultDepth;
  s.recv_depth = attr->recv_depth != 0 ? attr->recv_depth : kDefaultDepth;
  s.ordered_last = (attr->flags & METAROCE_STREAM_ORDERED_LAST) != 0 ? 1 : 0;
  s.private_length = attr->private_data_len;
  if (s.private_length != 0)
    std::memcpy(s.private_data.data(), attr->private_data, s.private_length);
  return 0;
}

int build(metaroce_context* ctx, const metaroce_stream_attr* attr, const abi::Request& r,
          const abi::Message& m, metaroce_stream** out) {
  if (m.group >= ctx->groups.size()) {
    ctx->lose("the daemon named a worker group that does not exist: attach again");
    return ctx->refuse_gone();
  }
  auto s = std::make_unique<metaroce_stream>(r.stream.send_depth, r.stream.recv_depth);
  s->context = ctx;
  s->handle = m.stream;
  s->group = m.group;
  s->send_cq = attr->send_cq;
  s->recv_cq = attr->recv_cq;
  s->user = attr->user;
  s->peer_data.length = std::min<std::uint32_t>(m.private_length, kMaxPrivateData);
  s->peer_data.bytes = m.private_data;
  *out = s.get();
  ctx->add_stream(std::move(s));
  return 0;
}

// Takes up to n of `wr`; the first that is malformed ends the batch.
int post(metaroce_stream* s, WorkQueue& q, RingProducer<WorkRequest>& ring, bool receive,
         const metaroce_wr* wr, int n) {
  if (n < 0 || (wr == nullptr && n != 0)) return fail(EINVAL, "no array of work requests");
  if (s->context->gone) return s->context->refuse_gone();
  if (s->down) return fail(ENOTCONN, "the stream is closed by its peer or failed: close it");
  std::uint32_t want = std::min(static_cast<std::uint32_t>(n), q.room());
  want = std::min(want, ring.room(want));
  std::uint32_t i = 0;
  for (; i < want; ++i) {
    const metaroce_wr& w = wr[i];
    if (w.length > kMaxMessageBytes || (!receive && w.op > METAROCE_SEND_IMM)) break;
    const std::uint8_t op = receive ? std::uint8_t{METAROCE_RECV} : w.op;
    WorkRequest r{};
    r.wr_id = q.add({w.wr_id, op});
    r.local_addr = reinterpret_cast<std::uintptr_t>(w.local);
    r.remote_addr = w.remote_addr;
    r.length = w.length;
    r.lkey = w.lkey;
    r.rkey = w.rkey;
    r.imm = w.imm;
    r.stream = s->handle;
    r.op = op;
    r.flags = (w.flags & METAROCE_WR_SIGNALED) != 0 ? kWorkSignaled : 0;
    ring.stage(r);
  }
  if (i != 0) ring.publish();
  if (i == 0 && want != 0)
    return fail(EINVAL, "work request with an unknown op or a length above 2^31 bytes");
  return static_cast<int>(i);
}

}  // namespace

int metaroce_listen(metaroce_context* ctx, uint32_t service, metaroce_listener** out) {
  if (out == nullptr) return fail(EINVAL, "metaroce_listen: out is NULL");
  *out = nullptr;
  abi::Request r = ctx->request(abi::RequestKind::kListen);
  r.service = service;
  Incoming in;
  if (const int e = ctx->call(r, kAnswerLimit, in); e != 0) return e == -EBUSY ? -EADDRINUSE : e;
  auto l = std::make_unique<metaroce_listener>();
  l->context = ctx;
  l->service = service;
  *out = l.get();
  ctx->listeners.emplace(*out, std::move(l));
  return 0;
}

int metaroce_listener_close(metaroce_listener* l) {
  metaroce_context* ctx = l->context;
  abi::Request r = ctx->request(abi::RequestKind::kUnlisten);
  r.service = l->service;
  Incoming in;
  const int e = ctx->call(r, kAnswerLimit, in);
  std::erase_if(ctx->requests, [&](const auto& q) { return q.service == l->service; });
  ctx->listeners.erase(l);
  return ctx->gone ? 0 : e;
}

int metaroce_accept(metaroce_listener* l, const metaroce_stream_attr* attr, int timeout_ms,
                    metaroce_stream** out) {
  metaroce_context* ctx = l->context;
  if (out == nullptr || timeout_ms < 0)
    return fail(EINVAL, "metaroce_accept: out is NULL or timeout_ms negative");
  *out = nullptr;
  abi::Request r = ctx->request(abi::RequestKind::kAccept);
  if (const int e = describe(ctx, attr, r); e != 0) return e;
  const Nanos deadline = monotonic_now() + timeout_ms * kMillisecond;
  for (;;) {
    ctx->pump();
    if (ctx->gone) return ctx->refuse_gone();
    const auto q = std::find_if(ctx->requests.begin(), ctx->requests.end(),
                                [&](const auto& x) { return x.service == l->service; });
    if (q == ctx->requests.end()) {
      const Nanos left = deadline - monotonic_now();
      if (left <= 0) return fail(ETIMEDOUT, "no connection request came in time");
      ctx->backend->wait(std::min(left, kLongestSleep));
      continue;
    }
    const metaroce_context::ConnectRequest c = *q;
    ctx->requests.erase(q);
    r.request = c.request;
    Incoming in;
    const int e = ctx->call(r, kAnswerLimit, in);
    // Who asked has given up in the meantime: look for the next.
    if (e == -ENOENT || e == -ETIMEDOUT || e == -ECONNABORTED) continue;
    if (e != 0) return e;
    if (const int b = build(ctx, attr, r, in.head, out); b != 0) return b;
    (*out)->peer_data = c.peer_data;
    return 0;
  }
}

int metaroce_connect(metaroce_context* ctx, const char* address, uint32_t service,
                     const metaroce_stream_attr* attr, int timeout_ms, metaroce_stream** out) {
  if (out == nullptr || address == nullptr || timeout_ms < 0)
    return fail(EINVAL, "metaroce_connect: out or address is NULL, or timeout_ms negative");
  *out = nullptr;
  abi::Request r = ctx->request(abi::RequestKind::kConnect);
  if (const int e = describe(ctx, attr, r); e != 0) return e;
  IpAddress peer;
  std::string why;
  if (!parse_address(address, peer, why)) return fail(EINVAL, why);
  r.peer = peer.b;
  r.peer_v6 = peer.v6 ? 1 : 0;
  r.service = service;
  r.timeout_ns = timeout_ms * kMillisecond;
  Incoming in;
  if (const int e = ctx->call(r, r.timeout_ns + kAnswerLimit, in); e != 0) return e;
  return build(ctx, attr, r, in.head, out);
}

int metaroce_stream_private_data(metaroce_stream* s, void* out, uint32_t n) {
  if (out != nullptr) std::memcpy(out, s->peer_data.bytes.data(), std::min(n, s->peer_data.length));
  return static_cast<int>(s->peer_data.length);
}

int metaroce_close(metaroce_stream* s, int timeout_ms) {
  metaroce_context* ctx = s->context;
  abi::Request r = ctx->request(abi::RequestKind::kClose);
  r.id = s->handle;
  r.timeout_ns = std::max(timeout_ms, 0) * kMillisecond;
  Incoming in;
  const int e = ctx->call(r, r.timeout_ns + kAnswerLimit, in);
  ctx->remove_stream(s);
  return e;
}

int metaroce_post(metaroce_stream* s, const metaroce_wr* wr, int n) {
  return post(s, s->sends, s->context->groups[s->group].sends, false, wr, n);
}

int metaroce_post_recv(metaroce_stream* s, const metaroce_wr* wr, int n) {
  return post(s, s->receives, s->context->groups[s->group].receives, true, wr, n);
}
