#include "drivers/memif/client_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "drivers/memif/socket_name.h"

namespace metaroce::drivers::memif {

Status ClientLink::open_door(const std::string& name) {
  const SocketName address(name);
  door_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!door_ || bind(door_.get(), address.get(), address.bytes()) != 0 ||
      listen(door_.get(), 4) != 0)
    return Status::error(Errc::kFailed,
                         fmt::format("memif: no private socket: {}", std::strerror(errno)));
  return {};
}

void ClientLink::watch(Watch& w) const {
  ControlLink::watch(w);
  w.on(door_, true);
  if (wants_server()) w.at(retry_at_);
}

void ClientLink::step(Time now) {
  ControlLink::step(now);
  if (state() == LinkState::kJoined) pause_ = kFirstPause;
  if (door_) admit();
  if (wants_server() && now >= retry_at_) dial(now);
}

// An abstract name is open to all of the network namespace: others are shown out.
void ClientLink::admit() {
  for (int i = 0; i < kAdmissions; ++i) {
    UniqueFd fd(accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    ucred who{};
    socklen_t n = sizeof who;
    const bool ours =
        getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.pid == getpid();
    if (ours && !driver_) driver_ = std::move(fd);
  }
}

void ClientLink::dial(Time now) {
  const SocketName address(server_);
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd && connect(fd.get(), address.get(), address.bytes()) == 0)
    connected(std::move(fd));
  else
    retry_at_ = now + pause();
}

std::chrono::milliseconds ClientLink::pause() {
  const auto p = pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
  return p;
}

void ClientLink::leave() {
  if (door_) admit();  // or the driver would lose us without our knowing when
  ControlLink::leave();
  door_.reset();
}

}  // namespace metaroce::drivers::memif
