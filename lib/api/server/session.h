// One attached application: what it owns, what it asked for and what it is told.
//
// Translates abi::Request into calls of the host's ControlApi, and ControlEvents into abi::Message.
// Knows nothing about sockets: the daemon puts one behind a SessionServer link, the embedded
// library calls it directly. Runs on the control thread.
//
// Life: kAttaching -> kAttached -> kClosing -> kClosed. The client may vanish at any moment:
// begin_close() ends everything through ControlApi::remove_client, and only the event of that call
// frees memory and queues, because until then roles may touch them. A remove_client that is never
// answered keeps the session (and its place among `limits.clients`): leaking is better than
// writing into memory that is gone.
//
// Invariants: every id in a request is looked up among this session's own objects; everything a
// client can make grow is bounded by SessionLimits.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "api/abi.h"
#include "api/server/resources.h"
#include "transport/control_api.h"

namespace metaroce {

struct SessionLimits {
  std::uint32_t clients = 256;           // attached or being removed, all hosts together
  std::uint32_t clients_per_user = 128;  // the daemon's own user and root are exempt
  std::uint64_t memory_bytes = std::uint64_t{16} << 30;  // per client, rings and queues included
  std::uint32_t regions = 1024;                          // per client, as all that follow
  std::uint32_t cqs = 1024;
  std::uint32_t cq_depth = 1U << 16;
  std::uint32_t streams = 4096;  // open, opening and not yet closed
  std::uint32_t stream_depth = 1U << 15;
  std::uint32_t listeners = 64;
  std::uint32_t backlog = 64;               // connection requests not yet accepted, per listener
  std::uint32_t pending_requests = 256;     // requests not yet answered
  std::uint32_t submission_entries = 4096;  // power of two; each of the two rings per group
  std::uint32_t queued_messages = 16384;    // not yet read by the client: above it is cut off
  Nanos attach_timeout = 5 * kSecond;       // from connecting to the attach request
};

struct OutMessage {
  abi::Message head{};
  std::unique_ptr<abi::Stats> stats;  // follows the head
  std::array<UniqueFd, 2> fds;        // sent along, in order, when valid
  std::byte* direct = nullptr;        // the block, for a client in this process
};

class MessageSink {
 public:
  virtual void deliver(OutMessage&& m) = 0;

 protected:
  ~MessageSink() = default;
};

// What sessions hold: all zero again when no client is there.
struct SessionCounts {
  std::uint32_t sessions = 0, regions = 0, cqs = 0, streams = 0, listeners = 0, requests = 0;
  std::uint64_t memory_bytes = 0;
  bool operator==(const SessionCounts&) const = default;
};

class Session {
 public:
  Session(ControlApi& api, Resources& resources, const SessionLimits& limits, ClientId id,
          MessageSink* sink);

  void attach(std::uint64_t client_token);
  // False: the request breaks the protocol, the caller should let the client go.
  bool handle(const abi::Request& r, Nanos now);
  void on_event(const ControlEvent& e);
  // The client is gone or no longer wanted: nothing is delivered any more.
  void begin_close();

  // Nothing is left at the host. `abandoned`: begin_close() was called, so nobody refers to it.
  [[nodiscard]] bool closed() const { return state_ == State::kClosed; }
  [[nodiscard]] bool abandoned() const { return sink_ == nullptr; }
  [[nodiscard]] ClientId id() const { return id_; }
  void add_counts(SessionCounts& c) const;

 private:
  enum class State { kNew, kAttaching, kAttached, kClosing, kClosed };
  enum class Op {
    kAttach,
    kRegister,
    kFree,
    kCreateCq,
    kDestroyCq,
    kListen,
    kUnlisten,
    kAccept,
    kConnect,
    kClose,
    kRemoveClient
  };
  struct Pending {
    Op op{};
    std::uint64_t client_token = 0;
    std::uint32_t object = 0;  // memory, queue, service or stream that it is about
  };
  struct Region {
    enum class State { kAllocated, kRegistering, kRegistered, kRemoving } state{};
    Block block;
    std::uint64_t length = 0;
    std::uint32_t key = 0;
  };
  struct Cq {
    bool ready = false;  // created, and not being removed
    std::uint32_t api_id = 0;
    std::uint32_t capacity = 0;
    Block block;
    Wake wake;
  };
  struct Listener {
    bool ready = false;
    std::uint32_t waiting = 0;  // connection requests shown to the client and not yet answered
  };

  // Requests (session_requests.cpp).
  void alloc(const abi::Request& r);
  void register_memory(const abi::Request& r);
  void free_memory(const abi::Request& r);
  void create_cq(const abi::Request& r);
  void destroy_cq(const abi::Request& r);
  void kick_cq(const abi::Request& r);
  void listen(const abi::Request& r);
  void unlisten(const abi::Request& r);
  void accept(const abi::Request& r);
  void reject(const abi::Request& r);
  void connect(const abi::Request& r, Nanos now);
  void close_stream(const abi::Request& r, Nanos now);
  void stats(const abi::Request& r);
  void move_path(const abi::Request& r);
  bool stream_attr(const abi::Request& r, StreamAttr& out);
  bool reserve_memory(std::uint64_t token, std::uint64_t bytes);

  // Events (session.cpp).
  void finish(const Pending& p, const ControlEvent& e);
  void finish_attach(const Pending& p, const ControlEvent& e);
  void finish_register(const Pending& p, const ControlEvent& e);
  void finish_cq(const Pending& p, const ControlEvent& e);
  void finish_stream(const Pending& p, const ControlEvent& e);
  void connect_request(const ControlEvent& e);
  void release_all();

  std::uint64_t expect(Op op, std::uint64_t client_token, std::uint32_t object = 0);
  void forget_request(std::uint64_t request);
  OutMessage reply(std::uint64_t client_token, ControlStatus s = ControlStatus::kOk,
                   const std::string& text = {}) const;
  void send(OutMessage&& m);
  void refuse(const abi::Request& r, ControlStatus s, const std::string& text);

  ControlApi& api_;
  Resources& resources_;
  const SessionLimits& limits_;
  const ClientId id_;
  MessageSink* sink_;
  State state_ = State::kNew;

  Block rings_;
  std::uint64_t next_token_ = 1;
  std::uint32_t next_object_ = 1;
  std::unordered_map<std::uint64_t, Pending> pending_;
  std::unordered_map<std::uint32_t, Region> regions_;
  std::unordered_map<std::uint32_t, Cq> cqs_;
  std::unordered_map<StreamHandle, bool> streams_;             // true: close was asked for
  std::uint32_t opening_ = 0;                                  // connects and accepts under way
  std::unordered_map<std::uint32_t, Listener> listeners_;      // by service
  std::unordered_map<std::uint64_t, std::uint32_t> requests_;  // connection request -> service
  std::uint64_t memory_bytes_ = 0;
};

// Token of a ControlApi call: the client's id on top, so that its event finds the session.
constexpr std::uint64_t session_token(ClientId id, std::uint64_t serial) {
  return std::uint64_t{id.v} << 48 | (serial & ((std::uint64_t{1} << 48) - 1));
}
constexpr ClientId client_of_token(std::uint64_t token) {
  return ClientId{static_cast<std::uint16_t>(token >> 48)};
}

}  // namespace metaroce
