// memif's control messages: datagrams of 128 bytes on a SOCK_SEQPACKET socket, some with a
// descriptor. Little of them is read here; what passes through passes unchanged.
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include "api/unique_fd.h"

namespace metaroce::drivers::memif {

enum class MessageType : std::uint16_t {
  kAck = 1,
  kHello,
  kInit,
  kAddRegion,
  kAddRing,
  kConnect,
  kConnected,
  kDisconnect,
};

struct Message {
  static constexpr std::size_t kBytes = 128;
  std::array<std::uint8_t, kBytes> bytes{};
  UniqueFd fd;

  // An integer of the message, in the machine's byte order as all of memif.
  template <typename T>
  [[nodiscard]] T at(std::size_t offset) const {
    T v;
    std::memcpy(&v, bytes.data() + offset, sizeof v);
    return v;
  }
  [[nodiscard]] MessageType type() const { return static_cast<MessageType>(at<std::uint16_t>(0)); }
  [[nodiscard]] std::uint32_t init_id() const { return at<std::uint32_t>(4); }
};

enum class Received : std::uint8_t { kMessage, kNothing, kEnd };

// None of these waits. kEnd: the other side closed, or sent something that is no message.
Received receive(int socket, Message& m);
bool send(int socket, const Message& m);
// The other side closed; what it sent before may be unread.
bool hung_up(int socket);
// The other side has read all that was sent.
bool all_read(int socket);

using Time = std::chrono::steady_clock::time_point;

// What the relay sleeps for.
struct Watch {
  std::vector<pollfd> fds;
  Time wake = Time::max();

  void on(const UniqueFd& fd, bool readable) {
    if (fd) fds.push_back({fd.get(), static_cast<short>((readable ? POLLIN : 0) | POLLRDHUP), 0});
  }
  void at(Time t) {
    if (t < wake) wake = t;
  }
};

}  // namespace metaroce::drivers::memif
