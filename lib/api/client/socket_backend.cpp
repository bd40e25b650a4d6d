#include "api/client/socket_backend.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace metaroce {

void SocketBackend::wait_for(short events, Nanos limit) {
  pollfd p{fd_.get(), events, 0};
  const Nanos clamped = std::clamp<Nanos>(limit, 0, kSecond);
  const timespec t{clamped / kSecond, clamped % kSecond};
  ::ppoll(&p, 1, &t, nullptr);
}

bool SocketBackend::send(const abi::Request& r, Nanos limit) {
  const Nanos deadline = monotonic_now() + limit;
  while (!gone_) {
    if (::send(fd_.get(), &r, sizeof r, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != ENOBUFS) {
      // What the daemon said before it went can still be read; receive() finds the end.
      return false;
    }
    const Nanos left = deadline - monotonic_now();
    if (left <= 0) return false;
    wait_for(POLLOUT, left);
  }
  return false;
}

bool SocketBackend::receive(Incoming& out) {
  if (gone_) return false;
  out = {};
  std::array<iovec, 2> iov{{{&out.head, sizeof out.head}, {&out.stats, sizeof out.stats}}};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr msg{};
  msg.msg_iov = iov.data();
  msg.msg_iovlen = iov.size();
  msg.msg_control = control.data();
  msg.msg_controllen = control.size();
  ssize_t n = -1;
  // A peer that closed with our requests unread reports that once, before its last messages.
  for (int tries = 0; n < 0 && tries < 3; ++tries) {
    n = ::recvmsg(fd_.get(), &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EAGAIN) return false;
  }
  for (cmsghdr* c = n < 0 ? nullptr : CMSG_FIRSTHDR(&msg); c != nullptr; c = CMSG_NXTHDR(&msg, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      UniqueFd owned(fd);
      if (i < out.fds.size()) out.fds[i] = std::move(owned);
    }
  }
  out.has_stats = n == ssize_t{sizeof out.head + sizeof out.stats};
  const bool whole = n == ssize_t{sizeof out.head} || out.has_stats;
  if (!whole || out.head.magic != abi::kMagic) {
    gone_ = true;
    return false;
  }
  out.head.text.back() = '\0';
  return true;
}

void SocketBackend::wait(Nanos limit) {
  if (!gone_) wait_for(POLLIN, limit);
}

std::byte* SocketBackend::map(Incoming& m, std::string& why) {
  if (!m.fds[0]) {
    why = "no descriptor came with the daemon's memory: raise this process's limit of open files";
    return nullptr;
  }
  // Touched now, so that the data path takes no fault for it later.
  void* p = mmap(nullptr, m.head.length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                 m.fds[0].get(), 0);
  if (p == MAP_FAILED) {
    why = std::string("cannot map the daemon's memory: ") + std::strerror(errno);
    return nullptr;
  }
  return static_cast<std::byte*>(p);
}

void SocketBackend::unmap(std::byte* data, std::size_t length) { munmap(data, length); }

}  // namespace metaroce
