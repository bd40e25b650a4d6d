// The objects behind the handles of metaroce.h.
//
// One thread at a time per context. Everything that outlives the daemon is here: what each stream
// has outstanding is kept on this side, so that work can be completed as flushed when nobody else
// is left to do it. Work requests carry the ordinal of their post as wr_id, the application's
// wr_id waits in WorkQueue; completions are matched by ordinal, so neither reused wr_ids nor a
// completion that comes twice can unbalance the count.
//
// Timers: on the data path the control socket is looked at every kLookInterval at most (a system
// call), and at once when the shared `alive` word says that the daemon let go.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/client/backend.h"
#include "base/ring.h"
#include "metaroce/metaroce.h"
#include "transport/control_api.h"

namespace metaroce {

// Posted and not yet known to be complete, oldest first.
class WorkQueue {
 public:
  struct Entry {
    std::uint64_t wr_id;
    std::uint8_t op;
  };
  explicit WorkQueue(std::uint32_t depth);
  [[nodiscard]] std::uint32_t outstanding() const {
    return static_cast<std::uint32_t>(next_ - first_);
  }
  [[nodiscard]] std::uint32_t room() const { return depth_ - outstanding(); }
  // The caller checked room(); returns the ordinal.
  std::uint64_t add(Entry e) {
    entries_[next_ & mask_] = e;
    return next_++;
  }
  // Takes `ordinal` and everything before it: earlier ones were unsignaled and succeeded. False
  // when it is not outstanding.
  bool complete(std::uint64_t ordinal, Entry& out) {
    if (ordinal - first_ >= next_ - first_) return false;
    out = entries_[ordinal & mask_];
    first_ = ordinal + 1;
    return true;
  }
  bool take_first(Entry& out) { return complete(first_, out); }

 private:
  std::uint32_t depth_;
  std::uint64_t mask_;
  std::uint64_t first_ = 0, next_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace metaroce

struct metaroce_cq {
  struct Lane {  // ring of one role of one group
    metaroce::RingConsumer<metaroce::Completion> ring;
    std::uint32_t group = 0;
  };
  metaroce_context* context = nullptr;
  std::uint32_t id = 0;
  std::byte* block = nullptr;
  std::size_t length = 0;
  metaroce::abi::CqHeader* header = nullptr;
  metaroce::UniqueFd wake;
  std::vector<Lane> lanes;
  std::size_t next_lane = 0;
  std::uint32_t users = 0;  // streams, each side counted
};

struct metaroce_stream {
  metaroce_stream(std::uint32_t send_depth, std::uint32_t recv_depth)
      : sends(send_depth), receives(recv_depth) {}
  metaroce_context* context = nullptr;
  metaroce::StreamHandle handle = 0;
  std::uint32_t group = 0;
  metaroce_cq* send_cq = nullptr;
  metaroce_cq* recv_cq = nullptr;
  void* user = nullptr;
  bool down = false;
  metaroce::WorkQueue sends, receives;
  metaroce::PrivateData peer_data;
};

struct metaroce_listener {
  metaroce_context* context = nullptr;
  std::uint32_t service = 0;
};

struct metaroce_context {
  struct Group {
    metaroce::RingProducer<metaroce::WorkRequest> sends, receives;
    std::vector<metaroce_stream*> by_slot;  // slot of the handle -> stream; grows as needed
  };
  struct Mapping {
    std::uint32_t id = 0;
    std::size_t length = 0;
  };
  struct ConnectRequest {
    std::uint32_t service = 0;
    std::uint64_t request = 0;
    metaroce::PrivateData peer_data;
  };

  explicit metaroce_context(std::unique_ptr<metaroce::Backend> b) : backend(std::move(b)) {}
  ~metaroce_context();

  int attach(const char* host, metaroce::Nanos deadline);
  // Sends and waits for the reply, at most `limit` beyond which the daemon is taken for gone.
  // 0, or a negative errno with its sentence set; `out` is the reply in both cases if one came.
  int call(metaroce::abi::Request& r, metaroce::Nanos limit, metaroce::Incoming& out);
  bool post(metaroce::abi::Request& r);  // without reply
  [[nodiscard]] metaroce::abi::Request request(metaroce::abi::RequestKind kind);
  void pump();                 // takes in what the other side said
  void look(bool empty);       // pump() when it is time, from the data path
  void lose(const char* why);  // the other side is gone
  int refuse_gone() const;
  [[nodiscard]] metaroce_stream* find(std::uint32_t group, metaroce::StreamHandle h) const;
  void add_stream(std::unique_ptr<metaroce_stream> s);
  void remove_stream(metaroce_stream* s);

  std::unique_ptr<metaroce::Backend> backend;
  std::byte* block = nullptr;
  std::size_t length = 0;
  metaroce::abi::ClientHeader* header = nullptr;
  bool gone = false;
  std::string gone_why;
  std::uint64_t next_token = 1;
  std::uint32_t looks = 0;
  metaroce::Nanos looked = 0;
  std::vector<Group> groups;
  std::unordered_map<void*, Mapping> memory;
  std::unordered_map<metaroce_cq*, std::unique_ptr<metaroce_cq>> cqs;
  std::unordered_map<metaroce_stream*, std::unique_ptr<metaroce_stream>> streams;
  std::unordered_map<metaroce_listener*, std::unique_ptr<metaroce_listener>> listeners;
  std::deque<ConnectRequest> requests;  // bounded by the daemon's backlog
  // With the stream that it is about. Bounded: one per stream and one for the end.
  std::deque<std::pair<metaroce_stream*, metaroce_event>> events;

 private:
  bool take(const metaroce::Incoming& in);
};

namespace metaroce {
// How long the daemon may take for a request beyond the time that the request itself waits.
inline constexpr Nanos kAnswerLimit = 5 * kSecond;
inline constexpr Nanos kLookInterval = 4 * kMillisecond;
}  // namespace metaroce
