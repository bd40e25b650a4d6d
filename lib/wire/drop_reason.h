// Every reason for which a packet can be discarded, declared once. Each is a counter; the text
// is its documentation in the reference page, in telemetry and in `--json` output.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace metaroce {

// X(enumerator, snake_case name, text)
#define METAROCE_DROP_REASONS(X)                                                                 \
  X(kNone, none, "not dropped")                                                                  \
  X(kNotIp, not_ip, "frame is neither IPv4, IPv6, ARP nor neighbour discovery")                  \
  X(kTruncatedFrame, truncated_frame, "frame ends inside a header, or before its IP length")     \
  X(kIpHeader, ip_header, "IP header malformed: version, options, lengths or header checksum")   \
  X(kIpFragment, ip_fragment, "IP fragment")                                                     \
  X(kNotForUs, not_for_us, "destination MAC or IP address is not ours")                          \
  X(kNotUdp, not_udp, "IP protocol is not UDP")                                                  \
  X(kUdpLength, udp_length, "UDP length below 8 or different from the IP payload")               \
  X(kUdpChecksum, udp_checksum, "UDP checksum wrong, or absent over IPv6")                       \
  X(kUdpPort, udp_port, "UDP destination port belongs to no worker group")                       \
  X(kOversize, oversize, "payload above the negotiated MTU or the receive buffer")               \
  X(kTooShort, too_short, "UDP payload shorter than the header that its type needs")             \
  X(kVersion, version, "protocol version not 1")                                                 \
  X(kType, type, "unknown packet type or operation")                                             \
  X(kCrc, crc, "CRC32C trailer missing or wrong")                                                \
  X(kUnknownConn, unknown_conn, "no connection with this identifier")                            \
  X(kStaleConn, stale_conn, "identifier of an earlier connection (generation differs)")          \
  X(kSourceAddress, source_address, "source address is not the peer's")                          \
  X(kPath, path, "path number not negotiated")                                                   \
  X(kPathEpoch, path_epoch, "path epoch neither current, next nor previous")                     \
  X(kPathSeq, path_seq, "path sequence more than 4,096 ahead of the highest seen")               \
  X(kNoStream, no_stream, "stream number never opened on this connection")                       \
  X(kStreamClosed, stream_closed, "stream closed or in error here")                              \
  X(kDuplicate, duplicate, "stream packet number already placed (acknowledged again)")           \
  X(kStreamWindow, stream_window, "stream packet number beyond the receive window")              \
  X(kNoReceive, no_receive, "Send or Write with immediate without a posted receive (RNR)")       \
  X(kNoResource, no_resource, "no room to hold an ordered packet")                               \
  X(kBadKey, bad_key, "rkey unknown, stale or of another protection domain")                     \
  X(kAccess, access, "region does not allow this access")                                        \
  X(kBounds, bounds, "address range outside the region")                                         \
  X(kLength, length, "message longer than the receive buffer, or lengths that contradict")       \
  X(kOperation, operation, "operation malformed or not supported on this stream")                \
  X(kAckMalformed, ack_malformed, "acknowledgment whose counts exceed its length")               \
  X(kAckUnsent, ack_unsent, "acknowledgment of a path sequence that was never sent")             \
  X(kAckStale, ack_stale, "acknowledgment for another path epoch")                               \
  X(kNackUnknown, nack_unknown, "NACK for a packet that is not outstanding")                     \
  X(kProbeUnknown, probe_unknown, "probe reply whose nonce was not sent or is answered already") \
  X(kCtrlMalformed, ctrl_malformed, "control packet with wrong lengths, values or TLVs")         \
  X(kCtrlCookie, ctrl_cookie, "control packet with a wrong or expired cookie")                   \
  X(kCtrlUnexpected, ctrl_unexpected, "control packet that no exchange waits for")               \
  X(kCtrlEpoch, ctrl_epoch, "control packet of another connection epoch")                        \
  X(kCtrlQueueFull, ctrl_queue_full, "control queue full")                                       \
  X(kCtrlLimit, ctrl_limit, "limit of connections, half-open connections or streams reached")    \
  X(kTxQueueFull, tx_queue_full,                                                                 \
    "queue from the receive to the transmit role full: an answer or a NACK was dropped")         \
  X(kNoBuffer, no_buffer, "packet pool empty: an acknowledgment or reply was not sent")          \
  X(kNeighbourUnresolved, neighbour_unresolved, "destination MAC address not known yet")         \
  X(kLinkDown, link_down, "port of the plane is down")                                           \
  X(kFault, fault, "dropped by the fault hook on purpose")

enum class DropReason : std::uint8_t {
#define METAROCE_X(e, n, t) e,
  METAROCE_DROP_REASONS(METAROCE_X) kCount
#undef METAROCE_X
};
inline constexpr std::size_t kDropReasons = static_cast<std::size_t>(DropReason::kCount);

struct DropReasonInfo {
  const char* name;
  const char* text;
};
inline constexpr std::array<DropReasonInfo, kDropReasons> kDropReasonInfo = {{
#define METAROCE_X(e, n, t) {#n, t},
    METAROCE_DROP_REASONS(METAROCE_X)
#undef METAROCE_X
}};

// Counters of one owner (one role of one group). The owner alone adds; any thread may read, each
// value by itself untorn, without a locked instruction on the owner's side.
struct DropCounters {
  std::array<std::uint64_t, kDropReasons> n{};
  void add(DropReason r, std::uint64_t k = 1) {
    std::atomic_ref<std::uint64_t> c(n[static_cast<std::size_t>(r)]);
    c.store(c.load(std::memory_order_relaxed) + k, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t operator[](DropReason r) const {
    // atomic_ref of a const object arrives with C++26; a load does not write.
    auto& c = const_cast<std::uint64_t&>(n[static_cast<std::size_t>(r)]);
    return std::atomic_ref<std::uint64_t>(c).load(std::memory_order_relaxed);
  }
};

}  // namespace metaroce
