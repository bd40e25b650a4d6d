// Completion queues: rings of all roles merged, work of a dead daemon flushed, sleep and wake-up.
//
// Order: each stream's sends complete through one ring and so do its receives; rings are taken in
// turns. What the daemon completed before it died comes first, the rest is flushed when all rings
// are empty.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>

#include "api/client/context.h"
#include "api/client/errors.h"

using namespace metaroce;

namespace {

bool translate(metaroce_context* ctx, std::uint32_t group, const Completion& c, metaroce_wc& wc) {
  metaroce_stream* s = ctx->find(group, c.stream);
  if (s == nullptr) return false;  // closed in the meantime
  WorkQueue& q = c.op >= static_cast<std::uint8_t>(WorkOp::kRecv) ? s->receives : s->sends;
  WorkQueue::Entry e{};
  if (!q.complete(c.wr_id, e)) return false;
  wc = {};
  wc.wr_id = e.wr_id;
  wc.user = s->user;
  wc.byte_len = c.byte_len;
  wc.imm = c.imm;
  wc.op = c.op;
  wc.status = c.status;
  wc.flags = (c.flags & kCompletionImm) != 0 ? METAROCE_WC_IMM : 0;
  return true;
}

int flush(WorkQueue& q, metaroce_stream* s, int n, metaroce_wc* wc) {
  int got = 0;
  WorkQueue::Entry e{};
  while (got < n && q.take_first(e)) {
    wc[got] = {};
    wc[got].wr_id = e.wr_id;
    wc[got].user = s->user;
    wc[got].op = e.op;
    wc[got++].status = METAROCE_FLUSHED;
  }
  return got;
}

int flush_all(metaroce_cq* cq, int n, metaroce_wc* wc) {
  int got = 0;
  for (auto& [key, s] : cq->context->streams) {
    if (s->send_cq == cq) got += flush(s->sends, key, n - got, wc + got);
    if (s->recv_cq == cq) got += flush(s->receives, key, n - got, wc + got);
  }
  return got;
}

bool any_outstanding(metaroce_cq* cq) {
  for (auto& lane : cq->lanes)
    if (lane.ring.available() != 0) return true;
  return false;
}

}  // namespace

int metaroce_cq_create(metaroce_context* ctx, uint32_t depth, metaroce_cq** out) {
  if (out == nullptr || depth == 0)
    return fail(EINVAL, "metaroce_cq_create: depth is 0 or out is NULL");
  *out = nullptr;
  abi::Request r = ctx->request(abi::RequestKind::kCreateCq);
  r.depth = depth;
  Incoming in;
  if (const int e = ctx->call(r, kAnswerLimit, in); e != 0) return e;
  const std::uint32_t capacity = in.head.capacity, groups = in.head.groups;
  std::string why = "the daemon's completion queue makes no sense: install both from one release";
  std::byte* block = nullptr;
  if (groups == ctx->groups.size() && capacity >= depth && capacity <= abi::kMaxRingEntries &&
      (capacity & (capacity - 1)) == 0 &&
      in.head.length >= abi::block_bytes<Completion>(groups, capacity) && in.fds[1])
    block = ctx->backend->map(in, why);
  if (block == nullptr) {
    r = ctx->request(abi::RequestKind::kDestroyCq);
    r.id = in.head.id;
    ctx->call(r, kAnswerLimit, in);
    return fail(ENOMEM, why);
  }
  auto cq = std::make_unique<metaroce_cq>();
  cq->context = ctx;
  cq->id = in.head.id;
  cq->block = block;
  cq->length = in.head.length;
  cq->header = reinterpret_cast<abi::CqHeader*>(block);
  cq->wake = std::move(in.fds[1]);
  for (std::uint32_t g = 0; g < groups; ++g) {
    for (const abi::Lane lane : {abi::Lane::kTx, abi::Lane::kRx}) {
      const auto p = abi::ring_at<Completion>(block, capacity, g, lane);
      cq->lanes.push_back({{p.header, p.slots, capacity}, g});
    }
  }
  *out = cq.get();
  ctx->cqs.emplace(*out, std::move(cq));
  return 0;
}

int metaroce_cq_destroy(metaroce_cq* cq) {
  metaroce_context* ctx = cq->context;
  if (cq->users != 0)
    return fail(EBUSY, "metaroce_cq_destroy: streams still use this queue: close them first");
  abi::Request r = ctx->request(abi::RequestKind::kDestroyCq);
  r.id = cq->id;
  Incoming in;
  const int e = ctx->call(r, kAnswerLimit, in);
  if (e != 0 && !ctx->gone) return e;
  ctx->backend->unmap(cq->block, cq->length);
  ctx->cqs.erase(cq);
  return 0;
}

int metaroce_poll(metaroce_cq* cq, int n, metaroce_wc* wc) {
  if (n < 0 || (wc == nullptr && n != 0)) return fail(EINVAL, "metaroce_poll: bad array");
  metaroce_context* ctx = cq->context;
  if (ctx->backend->needs_progress()) ctx->backend->progress();
  int got = 0;
  const std::size_t lanes = cq->lanes.size();
  for (std::size_t i = 0; i < lanes && got < n; ++i) {
    auto& lane = cq->lanes[(cq->next_lane + i) % lanes];
    Completion c;
    while (got < n && lane.ring.pop(c))
      if (translate(ctx, lane.group, c, wc[got])) ++got;
    if (lane.ring.corrupt()) ctx->lose("the daemon's completion ring is corrupt: attach again");
  }
  cq->next_lane = (cq->next_lane + 1) % lanes;
  ctx->look(got == 0);
  if (ctx->gone && got < n && !any_outstanding(cq)) got += flush_all(cq, n - got, wc + got);
  return got;
}

int metaroce_cq_fd(metaroce_cq* cq) { return cq->wake.get(); }

int metaroce_cq_arm(metaroce_cq* cq) {
  metaroce_context* ctx = cq->context;
  ctx->look(true);
  if (ctx->gone) return ctx->refuse_gone();
  // Wake-ups of earlier arms: whatever they announced is in the rings, which are looked at below.
  std::array<std::uint64_t, 64> old;
  while (::read(cq->wake.get(), old.data(), sizeof old) == ssize_t{sizeof old}) {
  }
  cq->header->armed.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!any_outstanding(cq) || cq->header->armed.exchange(0) == 0) return 0;
  // There before we armed: the daemon does not know, and only it can make the descriptor readable.
  abi::Request r = ctx->request(abi::RequestKind::kKickCq);
  r.id = cq->id;
  if (!ctx->post(r)) return fail(EAGAIN, "the daemon takes no requests now: poll and arm again");
  return 0;
}
