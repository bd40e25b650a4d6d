// What a client library and the daemon agree on: messages on the control socket (Unix
// SOCK_SEQPACKET, one structure per message, descriptors by SCM_RIGHTS) and the layout of the
// shared memory.
//
//   client -> daemon   Request, one size
//   daemon -> client   Message, or Message followed by Stats
//
// Every request but kReject and kKickCq is answered by exactly one Message with its token; token 0
// marks events. The first 16 bytes (magic, version, kind, token) never change, so that two
// versions can tell each other that they do not match.
//
// Shared memory is made by the daemon and sealed against shrinking. The client's block holds the
// submission rings, each completion queue is a block of its own. Group count and capacity in the
// headers are for the client; the daemon never reads them back, for the client can write there.
//
// Ids of memory and completion queues are numbers of one session: those of another client cannot
// be named at all. Stream handles and keys belong to the host; the session keeps which are its own.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/ring.h"
#include "transport/work.h"

namespace metaroce::abi {

inline constexpr std::uint32_t kMagic = 0x4d524341;  // "MRCA"
inline constexpr std::uint16_t kVersion = 1;

enum class RequestKind : std::uint16_t {
  kAttach = 1,  // host                                -> client's block (fd), groups, capacity
  kAlloc,       // length                              -> id, length mapped, fd
  kRegister,    // id, va, access                      -> key
  kFree,        // id
  kCreateCq,    // depth                               -> id, block (fd), wake (fd), capacity
  kDestroyCq,   // id
  kKickCq,      // id: make the queue's descriptor readable (no reply)
  kListen,      // service
  kUnlisten,    // service
  kAccept,      // request, stream spec                -> stream, group, peer
  kReject,      // request (no reply)
  kConnect,     // peer, service, spec, timeout        -> stream, group, private data
  kClose,       // id = stream, timeout
  kStats,       // id = stream, first path             -> Stats
  kMovePath,    // id = stream, first path = which, service = UDP source port (0: draw one)
};
inline constexpr auto kLastRequest = RequestKind::kMovePath;

inline constexpr std::size_t kHostBytes = 64;  // name of a host with its final zero
inline constexpr std::size_t kPrivateBytes = 128;

struct StreamSpec {
  std::uint32_t send_cq, recv_cq;
  std::uint32_t send_depth, recv_depth;
  std::uint32_t ordered_last;
  std::uint32_t private_length;
  std::array<std::uint8_t, kPrivateBytes> private_data;
};

struct Request {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t kind;   // RequestKind
  std::uint64_t token;  // chosen by the client, not 0 where a reply is wanted
  std::uint32_t id;
  std::uint32_t service;
  std::uint64_t request;  // from a kConnectRequest event
  std::uint64_t length;
  std::uint64_t va;
  std::uint32_t access;
  std::uint32_t depth;
  std::uint32_t first_path;
  std::uint32_t peer_v6;
  std::array<std::uint8_t, 16> peer;
  std::int64_t timeout_ns;
  StreamSpec stream;
  std::array<char, kHostBytes> host;
};
static_assert(std::is_trivially_copyable_v<Request> && sizeof(Request) == 304);
static_assert(offsetof(Request, kind) == 6 && offsetof(Request, token) == 8);

enum class MessageKind : std::uint16_t {
  kReply = 1,
  kConnectRequest,  // service, request, peer, private data
  kStreamDown,      // stream, work_status
};

struct Message {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t kind;  // MessageKind
  std::uint64_t token;
  std::uint8_t status;       // ControlStatus
  std::uint8_t work_status;  // WorkStatus
  std::uint16_t private_length;
  std::uint32_t id;   // memory, queue
  std::uint32_t key;  // lkey and rkey
  StreamHandle stream;
  std::uint32_t group;
  std::uint32_t groups;
  std::uint32_t capacity;  // entries of each ring of the block
  std::uint32_t service;
  std::uint64_t request;
  std::uint64_t length;  // bytes to map
  std::uint32_t peer_v6;
  std::uint32_t reserved;
  std::array<std::uint8_t, 16> peer;
  std::array<std::uint8_t, kPrivateBytes> private_data;
  std::array<char, 200> text;  // one sentence for a person, zero terminated
};
static_assert(std::is_trivially_copyable_v<Message> && sizeof(Message) == 416);
static_assert(offsetof(Message, kind) == 6 && offsetof(Message, token) == 8);

struct PathEntry {
  std::uint8_t path, plane, active, state;  // PathState
  std::uint16_t source_port, fault;         // PathFault
  std::uint32_t srtt_ns, reserved2;
  std::uint64_t tx_packets, tx_bytes, rtx_packets, lost_packets, spurious_packets;
  std::uint64_t rx_packets, rx_bytes, rx_out_of_order, rx_late, rx_ce;
  std::uint64_t window;
};
inline constexpr std::uint32_t kPathsPerStats = 16;
struct Stats {
  std::uint32_t streams;
  std::uint32_t paths;  // of the connection; `entries` from first_path on follow
  std::uint64_t acked_bytes, tx_packets, rtx_packets, lost_packets, spurious_packets;
  std::uint64_t rx_packets, rx_bytes, rx_out_of_order, rx_duplicates, rx_drops;
  std::uint32_t entries, reserved;
  std::array<PathEntry, kPathsPerStats> path;
};
static_assert(std::is_trivially_copyable_v<Stats> && sizeof(PathEntry) == 104);
static_assert(sizeof(Stats) == 96 + kPathsPerStats * 104);

// ---- Shared memory --------------------------------------------------------------------------
struct ClientHeader {
  std::uint32_t magic, version;
  std::uint32_t groups, capacity;
  std::atomic<std::uint32_t> alive;  // 1; 0 once the daemon lets the client go
};
struct CqHeader {
  std::uint32_t magic, version;
  std::uint32_t groups, capacity;
  // 1: the client is about to sleep. Who changes 1 to 0 (exchange) owes the wake-up. The writing
  // role has a full fence between publishing a completion and reading this word; the client has
  // one between setting it and looking at the rings.
  alignas(64) std::atomic<std::uint32_t> armed;
};
inline constexpr std::size_t kHeaderBytes = 128;
static_assert(sizeof(ClientHeader) <= kHeaderBytes && sizeof(CqHeader) <= kHeaderBytes);

template <typename T>
constexpr std::size_t ring_stride(std::uint32_t capacity) {
  return (ring_bytes<T>(capacity) + 127) & ~std::size_t{127};
}
// Two rings per group: submission of sends and receives; completions from TX and from RX.
template <typename T>
constexpr std::size_t block_bytes(std::uint32_t groups, std::uint32_t capacity) {
  return kHeaderBytes + 2 * std::size_t{groups} * ring_stride<T>(capacity);
}
enum class Lane : std::uint32_t { kTx = 0, kRx = 1 };

template <typename T>
struct RingPlace {
  RingHeader* header;
  T* slots;
};
template <typename T>
RingPlace<T> ring_at(std::byte* block, std::uint32_t capacity, std::uint32_t group, Lane lane) {
  std::byte* p =
      block + kHeaderBytes +
      (2 * std::size_t{group} + static_cast<std::uint32_t>(lane)) * ring_stride<T>(capacity);
  return {reinterpret_cast<RingHeader*>(p), reinterpret_cast<T*>(p + sizeof(RingHeader))};
}

// Limits that both sides know: a daemon never offers more.
inline constexpr std::uint32_t kMaxGroups = 64;
inline constexpr std::uint32_t kMaxRingEntries = 1U << 20;

}  // namespace metaroce::abi
