// Attach, detach, events and progress.
#include <cerrno>
#include <memory>

#include "api/client/context.h"
#include "api/client/errors.h"

using namespace metaroce;

int metaroce_attach(const metaroce_attach_attr* attr, metaroce_context** out) {
  if (out == nullptr) return fail(EINVAL, "metaroce_attach: out is NULL");
  *out = nullptr;
  const metaroce_attach_attr none{};
  const metaroce_attach_attr& a = attr != nullptr ? *attr : none;
  if (a.timeout_ms < 0) return fail(EINVAL, "metaroce_attach: timeout_ms is negative");
  const Nanos limit = a.timeout_ms == 0 ? kAnswerLimit : a.timeout_ms * kMillisecond;
  const Nanos deadline = monotonic_now() + limit;
  int err = EPROTO;
  std::string why;
  std::unique_ptr<Backend> backend = make_backend(a, deadline, err, why);
  if (!backend) return fail(err, why);
  auto ctx = std::make_unique<metaroce_context>(std::move(backend));
  if (const int e = ctx->attach(a.host, deadline); e != 0) return e;
  *out = ctx.release();
  return 0;
}

void metaroce_detach(metaroce_context* ctx) { delete ctx; }

int metaroce_alive(metaroce_context* ctx) {
  ctx->looked = 0;
  ctx->look(true);
  return ctx->gone ? 0 : 1;
}

int metaroce_progress(metaroce_context* ctx) { return ctx->backend->progress(); }

int metaroce_next_event(metaroce_context* ctx, metaroce_event* out) {
  if (out == nullptr) return fail(EINVAL, "metaroce_next_event: out is NULL");
  ctx->pump();
  *out = {METAROCE_EVENT_NONE, 0, nullptr};
  if (ctx->events.empty()) return 0;
  *out = ctx->events.front().second;
  ctx->events.pop_front();
  return 0;
}
