#include "drivers/memif/control_message.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>

namespace metaroce::drivers::memif {
namespace {

// The first descriptor is kept; a peer that sends more does not fill our table.
void take_descriptors(msghdr& h, Message& m) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&h); c != nullptr; c = CMSG_NXTHDR(&h, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < n; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      UniqueFd owned(fd);
      if (!m.fd) m.fd = std::move(owned);
    }
  }
}

}  // namespace

Received receive(int socket, Message& m) {
  alignas(cmsghdr) std::uint8_t control[CMSG_SPACE(sizeof(int))];
  iovec io{m.bytes.data(), m.bytes.size()};
  msghdr h{};
  h.msg_iov = &io;
  h.msg_iovlen = 1;
  h.msg_control = control;
  h.msg_controllen = sizeof control;
  const ssize_t n = recvmsg(socket, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0) return errno == EAGAIN || errno == EINTR ? Received::kNothing : Received::kEnd;
  m.fd.reset();
  take_descriptors(h, m);
  const bool whole = n == static_cast<ssize_t>(Message::kBytes) && (h.msg_flags & MSG_TRUNC) == 0;
  return whole ? Received::kMessage : Received::kEnd;
}

bool send(int socket, const Message& m) {
  alignas(cmsghdr) std::uint8_t control[CMSG_SPACE(sizeof(int))] = {};
  iovec io{const_cast<std::uint8_t*>(m.bytes.data()), m.bytes.size()};
  msghdr h{};
  h.msg_iov = &io;
  h.msg_iovlen = 1;
  if (m.fd) {
    h.msg_control = control;
    h.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&h);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = m.fd.get();
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  const ssize_t n = sendmsg(socket, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
  return n == static_cast<ssize_t>(Message::kBytes);
}

bool all_read(int socket) {
  int bytes = 0;
  return ioctl(socket, SIOCOUTQ, &bytes) != 0 || bytes == 0;
}

bool hung_up(int socket) {
  pollfd p{socket, POLLRDHUP, 0};
  return poll(&p, 1, 0) == 1;
}

}  // namespace metaroce::drivers::memif
