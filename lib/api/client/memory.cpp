// Memory: the daemon makes it, this process maps it and tells where, the daemon registers it.
#include <cerrno>

#include "api/client/context.h"
#include "api/client/errors.h"

using namespace metaroce;

namespace {

void give_back(metaroce_context* ctx, std::uint32_t id) {
  abi::Request r = ctx->request(abi::RequestKind::kFree);
  r.id = id;
  Incoming in;
  ctx->call(r, kAnswerLimit, in);
}

}  // namespace

int metaroce_memory_alloc(metaroce_context* ctx, size_t length, unsigned access,
                          metaroce_memory* out) {
  if (length == 0 || out == nullptr)
    return fail(EINVAL, "metaroce_memory_alloc: length is 0 or out is NULL");
  abi::Request r = ctx->request(abi::RequestKind::kAlloc);
  r.length = length;
  Incoming in;
  if (const int e = ctx->call(r, kAnswerLimit, in); e != 0) return e;
  const std::uint32_t id = in.head.id;
  const std::size_t mapped = in.head.length;
  std::string why;
  std::byte* p = mapped >= length ? ctx->backend->map(in, why) : nullptr;
  if (p == nullptr) {
    give_back(ctx, id);
    return fail(ENOMEM, why);
  }
  r = ctx->request(abi::RequestKind::kRegister);
  r.id = id;
  r.va = reinterpret_cast<std::uintptr_t>(p);
  r.access = access;
  if (const int e = ctx->call(r, kAnswerLimit, in); e != 0) {
    const std::string said = metaroce_error();
    ctx->backend->unmap(p, mapped);
    if (!ctx->gone) give_back(ctx, id);
    return fail(-e, said);
  }
  ctx->memory.emplace(p, metaroce_context::Mapping{id, mapped});
  *out = {p, length, in.head.key, in.head.key};
  return 0;
}

int metaroce_memory_free(metaroce_context* ctx, const metaroce_memory* mem) {
  const auto it = mem != nullptr ? ctx->memory.find(mem->addr) : ctx->memory.end();
  if (it == ctx->memory.end())
    return fail(EINVAL, "metaroce_memory_free: not memory of this context");
  abi::Request r = ctx->request(abi::RequestKind::kFree);
  r.id = it->second.id;
  Incoming in;
  const int e = ctx->call(r, kAnswerLimit, in);
  // A daemon that is gone holds nothing; one that refuses still uses it.
  if (e != 0 && !ctx->gone) return e;
  ctx->backend->unmap(static_cast<std::byte*>(mem->addr), it->second.length);
  ctx->memory.erase(it);
  return 0;
}
