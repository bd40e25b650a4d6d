#include "common/api.h"

#include <fmt/format.h>

#include <cerrno>

#include "common/units.h"

namespace metaroce::app {

Status api_failure(int result, const std::string& what) {
  const bool peer = result == -ETIMEDOUT || result == -ECONNREFUSED || result == -ECONNRESET ||
                    result == -EHOSTUNREACH || result == -ENETUNREACH || result == -EPIPE;
  return fail(peer ? kExitPeerLost : kExitFailure, fmt::format("{}: {}", what, metaroce_error()));
}

Status work_failure(int work_status, const std::string& what) {
  const bool peer = work_status == METAROCE_RETRY_EXCEEDED || work_status == METAROCE_FLUSHED ||
                    work_status == METAROCE_RNR_RETRY_EXCEEDED;
  return fail(
      peer ? kExitPeerLost : kExitFailure,
      fmt::format("{}: {} (status {})", what, metaroce_status_str(work_status), work_status));
}

Status Memory::allocate(metaroce_context* ctx, std::size_t length, unsigned access,
                        const char* purpose) {
  release();
  const int result = metaroce_memory_alloc(ctx, length, access, &mem_);
  if (result < 0) {
    mem_ = {};
    return fail(kExitFailure, fmt::format("cannot register {} for {}: {}", format_bytes(length),
                                          purpose, metaroce_error()));
  }
  ctx_ = ctx;
  return {};
}

void Memory::release() {
  if (ctx_) metaroce_memory_free(ctx_, &mem_);
  ctx_ = nullptr;
  mem_ = {};
}

Status attach(const AttachOptions& options, ContextPtr& out) {
  metaroce_attach_attr attr{};
  if (!options.socket.empty()) attr.socket_path = options.socket.c_str();
  if (!options.host.empty()) attr.host = options.host.c_str();
  if (!options.embed.empty()) attr.config_file = options.embed.c_str();
  attr.timeout_ms = options.timeout_ms;
  metaroce_context* ctx = nullptr;
  const int result = metaroce_attach(&attr, &ctx);
  if (result < 0) return fail(kExitFailure, fmt::format("cannot attach: {}", metaroce_error()));
  out.reset(ctx);
  return {};
}

Status create_cq(metaroce_context* ctx, std::uint32_t depth, CqPtr& out) {
  metaroce_cq* cq = nullptr;
  const int result = metaroce_cq_create(ctx, depth, &cq);
  if (result < 0)
    return api_failure(result, fmt::format("cannot create a completion queue of {}", depth));
  out.reset(cq);
  return {};
}

}  // namespace metaroce::app
