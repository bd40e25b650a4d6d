// Ends of memif's control protocol as a test plays them, without DPDK.
#pragma once

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "drivers/memif/control_message.h"
#include "drivers/memif/socket_name.h"
#include "eal_environment.h"

namespace metaroce::drivers::memif {

template <typename T>
void put(Message& m, std::size_t offset, T value) {
  std::memcpy(m.bytes.data() + offset, &value, sizeof value);
}
inline Message message(MessageType t) {
  Message m;
  put(m, 0, static_cast<std::uint16_t>(t));
  return m;
}
inline Message hello() {
  Message m = message(MessageType::kHello);
  std::memcpy(m.bytes.data() + 2, "test", 4);
  put<std::uint16_t>(m, 34, 0x200);  // least and greatest version
  put<std::uint16_t>(m, 36, 0x200);
  return m;
}
inline Message init(std::uint32_t id) {
  Message m = message(MessageType::kInit);
  put<std::uint16_t>(m, 2, 0x200);
  put<std::uint32_t>(m, 4, id);
  return m;
}

// The next message, or none within 5 seconds, or none because the other end closed.
inline bool next(const UniqueFd& fd, Message& m) {
  Received r = Received::kNothing;
  wait_for([&] {
    r = receive(fd.get(), m);
    if (r == Received::kNothing) usleep(100);
    return r != Received::kNothing;
  });
  return r == Received::kMessage;
}
inline bool closed(const UniqueFd& fd) {
  return wait_for([&] {
    usleep(100);
    return hung_up(fd.get());
  });
}
inline UniqueFd knock(const std::string& name, int type = SOCK_SEQPACKET) {
  const SocketName address(name);
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), address.get(), address.bytes()) != 0) fd.reset();
  return fd;
}

// A client with one queue pair, up to whichever message a test wants to see it reach.
class FakeClient {
 public:
  static constexpr unsigned kLog2 = 6;
  static constexpr std::size_t kRing = 128 + (16U << kLog2), kBuffer = 2048,
                               kRegion = 2 * kRing + 2 * (kBuffer << kLog2);

  explicit FakeClient(const std::string& name) : fd_(knock(name)) {}
  ~FakeClient() {
    if (memory_ != nullptr) munmap(memory_, kRegion);
  }
  FakeClient(const FakeClient&) = delete;

  [[nodiscard]] const UniqueFd& fd() const { return fd_; }
  // Sends and waits for the answer.
  bool ask(const Message& m, MessageType answer) {
    Message a;
    return send(fd_.get(), m) && next(fd_, a) && a.type() == answer;
  }
  bool hello() {
    Message m;
    return fd_ && next(fd_, m) && m.type() == MessageType::kHello;
  }
  bool join(std::uint32_t id) {
    return hello() && ask(init(id), MessageType::kAck) && ask(region(), MessageType::kAck) &&
           ask(ring(true), MessageType::kAck) && ask(ring(false), MessageType::kAck) &&
           ask(message(MessageType::kConnect), MessageType::kConnected);
  }
  Message region() {
    Message m = message(MessageType::kAddRegion);
    m.fd.reset(memfd_create("fake", MFD_CLOEXEC));
    if (ftruncate(m.fd.get(), kRegion) != 0) return m;
    memory_ = static_cast<std::uint8_t*>(
        mmap(nullptr, kRegion, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd.get(), 0));
    for (std::size_t r = 0; r < 2; ++r) {
      const std::uint32_t cookie = 0x3E31F20;
      std::uint8_t* ring = memory_ + r * kRing;
      std::memcpy(ring, &cookie, sizeof cookie);
      for (std::uint32_t d = 0; d < 1U << kLog2; ++d) {
        const std::uint32_t length = kBuffer, offset = static_cast<std::uint32_t>(
                                                  2 * kRing + (r << kLog2) * kBuffer + d * kBuffer);
        std::memcpy(ring + 128 + 16 * d + 4, &length, 4);
        std::memcpy(ring + 128 + 16 * d + 8, &offset, 4);
      }
    }
    put<std::uint64_t>(m, 4, kRegion);
    return m;
  }
  static Message ring(bool to_server) {
    Message m = message(MessageType::kAddRing);
    m.fd.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    put<std::uint16_t>(m, 2, to_server ? 1 : 0);
    put<std::uint32_t>(m, 8, to_server ? 0 : kRing);
    put<std::uint8_t>(m, 12, kLog2);
    return m;
  }

 private:
  UniqueFd fd_;
  std::uint8_t* memory_ = nullptr;
};

}  // namespace metaroce::drivers::memif
