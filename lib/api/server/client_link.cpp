#include "api/server/client_link.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace metaroce {

bool ClientLink::receive(abi::Request& out) {
  if (end_ != LinkEnd::kNone || queued()) return false;
  // One byte more than a request, so that a longer one shows.
  std::array<std::byte, sizeof(abi::Request) + 1> buf;
  const ssize_t n = ::recv(fd_.get(), buf.data(), buf.size(), MSG_DONTWAIT);
  if (n < 0) {
    if (errno != EAGAIN && errno != EINTR) end(LinkEnd::kGone);
    return false;
  }
  if (n == 0) {
    end(LinkEnd::kGone);
    return false;
  }
  out = {};
  // Magic, version, kind and token are enough to tell an older or newer library so.
  std::memcpy(&out, buf.data(), std::min(static_cast<std::size_t>(n), sizeof out));
  const bool readable = n >= 16 && out.magic == abi::kMagic;
  if (!readable || (out.version == abi::kVersion && n != ssize_t{sizeof out})) {
    end(LinkEnd::kProtocol);
    return false;
  }
  return true;
}

void ClientLink::deliver(OutMessage&& m) {
  if (end_ != LinkEnd::kNone) return;
  if (queue_.size() >= queue_limit_) return end(LinkEnd::kSlow);
  queue_.push_back(std::move(m));
  if (queue_.size() == 1) flush();
}

void ClientLink::flush() {
  while (end_ == LinkEnd::kNone && queued()) {
    switch (send_now(queue_.front())) {
      case Sent::kDone:
        queue_.pop_front();
        break;
      case Sent::kLater:
        return;
      case Sent::kFailed:
        return end(LinkEnd::kGone);
    }
  }
}

ClientLink::Sent ClientLink::send_now(const OutMessage& m) {
  std::array<iovec, 2> iov{};
  iov[0] = {const_cast<abi::Message*>(&m.head), sizeof m.head};
  if (m.stats) iov[1] = {m.stats.get(), sizeof(abi::Stats)};
  msghdr msg{};
  msg.msg_iov = iov.data();
  msg.msg_iovlen = m.stats ? 2 : 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  std::array<int, 2> fds{};
  std::size_t n = 0;
  for (const UniqueFd& fd : m.fds)
    if (fd) fds[n++] = fd.get();
  if (n != 0) {
    msg.msg_control = control.data();
    msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof(int));
    std::memcpy(CMSG_DATA(c), fds.data(), n * sizeof(int));
  }
  if (::sendmsg(fd_.get(), &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Sent::kDone;
  // ETOOMANYREFS: descriptors on their way to clients that do not read; it passes.
  const bool later = errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM ||
                     errno == ETOOMANYREFS;
  return later ? Sent::kLater : Sent::kFailed;
}

std::uint32_t ClientLink::interest() const { return queued() ? EPOLLOUT : EPOLLIN; }

}  // namespace metaroce
