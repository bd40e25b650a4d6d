// Work requests and completions: what an application posts and polls. These structures are
// also the shared-memory ABI between the daemon and its clients: fixed layout, no pointers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace metaroce {

// Stream handle as applications see it: slot in the group's stream table | generation << 20.
using StreamHandle = std::uint32_t;
inline constexpr unsigned kStreamSlotBits = 20;
constexpr std::uint32_t stream_slot(StreamHandle h) { return h & ((1U << kStreamSlotBits) - 1); }

enum class WorkOp : std::uint8_t {
  kWrite = 0,
  kWriteImm = 1,
  kSend = 2,
  kSendImm = 3,  // requests
  kRecv = 128,
  kRecvWriteImm = 129,  // completions at the receiver
};

// Values are those of ibv_wc_status, so that the verbs library passes them through.
enum class WorkStatus : std::uint8_t {
  kSuccess = 0,
  kLocalLength = 1,
  kLocalOperation = 2,
  kLocalProtection = 4,
  kFlushed = 5,
  kRemoteInvalidRequest = 9,
  kRemoteAccess = 10,
  kRemoteOperation = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
  kGeneral = 21,
};

inline constexpr std::uint8_t kWorkSignaled = 0x01;  // completion on success too
inline constexpr std::uint8_t kWorkFence = 0x02;     // reserved

inline constexpr std::uint32_t kMaxMessageBytes = 1U << 31;

struct WorkRequest {
  std::uint64_t wr_id;
  std::uint64_t local_addr;   // in the application's address space, within the region of lkey
  std::uint64_t remote_addr;  // Write: in the peer application's address space
  std::uint32_t length;       // bytes, at most 2^31
  std::uint32_t lkey;
  std::uint32_t rkey;
  std::uint32_t imm;  // carried in network byte order as given
  StreamHandle stream;
  std::uint8_t op;  // WorkOp
  std::uint8_t flags;
  std::uint8_t reserved[18];
};
static_assert(sizeof(WorkRequest) == 64 && offsetof(WorkRequest, stream) == 40);

struct Completion {
  std::uint64_t wr_id;
  StreamHandle stream;
  std::uint32_t byte_len;  // receives: bytes of the message; requests: bytes asked for
  std::uint32_t imm;
  std::uint8_t op;      // WorkOp
  std::uint8_t status;  // WorkStatus
  std::uint8_t flags;   // kCompletionImm
  std::uint8_t reserved0;
  std::uint64_t reserved1;
};
static_assert(sizeof(Completion) == 32);
inline constexpr std::uint8_t kCompletionImm = 0x01;

// Access rights of registered memory; values are those of ibv_access_flags.
inline constexpr std::uint32_t kAccessLocalWrite = 1;
inline constexpr std::uint32_t kAccessRemoteWrite = 2;
inline constexpr std::uint32_t kAccessRemoteRead = 4;
inline constexpr std::uint32_t kAccessRemoteAtomic = 8;

}  // namespace metaroce
