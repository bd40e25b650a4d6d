// Owners of the C API's objects, and its errors as a Status. Closing order is the reverse of
// construction: declare the context first.
#pragma once

#include <memory>
#include <string>

#include "common/outcome.h"
#include "metaroce/metaroce.h"

namespace metaroce::app {

// "what: <sentence of the library>"; `result` is the negative errno.
Status api_failure(int result, const std::string& what);
// A completion that failed.
Status work_failure(int work_status, const std::string& what);

struct Detach {
  void operator()(metaroce_context* c) const { metaroce_detach(c); }
};
struct DestroyCq {
  void operator()(metaroce_cq* c) const { metaroce_cq_destroy(c); }
};
struct CloseListener {
  void operator()(metaroce_listener* l) const { metaroce_listener_close(l); }
};
struct CloseStream {
  void operator()(metaroce_stream* s) const { metaroce_close(s, 0); }
};
using ContextPtr = std::unique_ptr<metaroce_context, Detach>;
using CqPtr = std::unique_ptr<metaroce_cq, DestroyCq>;
using ListenerPtr = std::unique_ptr<metaroce_listener, CloseListener>;
using StreamPtr = std::unique_ptr<metaroce_stream, CloseStream>;

class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { release(); }
  Status allocate(metaroce_context* ctx, std::size_t length, unsigned access, const char* purpose);
  void release();
  std::uint8_t* data() const { return static_cast<std::uint8_t*>(mem_.addr); }
  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(mem_.addr); }
  std::size_t length() const { return mem_.length; }
  std::uint32_t lkey() const { return mem_.lkey; }
  std::uint32_t rkey() const { return mem_.rkey; }

 private:
  metaroce_context* ctx_ = nullptr;
  metaroce_memory mem_{};
};

struct AttachOptions {
  std::string socket, host, embed;
  int timeout_ms = 5000;
};
Status attach(const AttachOptions& options, ContextPtr& out);
Status create_cq(metaroce_context* ctx, std::uint32_t depth, CqPtr& out);

}  // namespace metaroce::app
