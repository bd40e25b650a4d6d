#include "drivers/memif/server_socket.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "drivers/memif/socket_name.h"

namespace metaroce::drivers::memif {
namespace {

// Asks with the wrong socket type: a bound socket answers EPROTOTYPE, a dead path ECONNREFUSED. A
// real connection that closes at once would kill a server that is the driver itself.
bool nobody_listens(const SocketName& address) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd && connect(fd.get(), address.get(), address.bytes()) != 0 && errno == ECONNREFUSED;
}

}  // namespace

ServerSocket::~ServerSocket() {
  if (listener_ && name_.front() == '/') unlink(name_.c_str());
}

Status ServerSocket::open() {
  const SocketName address(name_);
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto claim = [&] {
    return bind(fd.get(), address.get(), address.bytes()) == 0 && listen(fd.get(), kGuests) == 0
               ? 0
               : errno;
  };
  int error = claim();
  if (error == EADDRINUSE && name_.front() == '/' && nobody_listens(address)) {
    unlink(name_.c_str());
    error = claim();
  }
  if (error == EADDRINUSE)
    return Status::error(Errc::kBusy,
                         fmt::format("memif socket {}: another process serves it", name_));
  if (error != 0)
    return Status::error(error == EACCES ? Errc::kPermission : Errc::kFailed,
                         fmt::format("memif socket {}: {}", name_, std::strerror(error)));
  listener_ = std::move(fd);
  return {};
}

void ServerSocket::remove(const ControlLink& link) {
  for (ServedPort& p : ports_) p.leaving |= p.link == &link;
}

bool ServerSocket::forgotten(const ControlLink& link) const {
  return std::none_of(ports_.begin(), ports_.end(),
                      [&](const ServedPort& p) { return p.link == &link; });
}

void ServerSocket::watch(Watch& w) const {
  if (!full()) w.on(listener_, true);
  for (const ServedPort& p : ports_) p.reserve.watch(w);
  for (const Guest& g : guests_) {
    w.on(g.fd, g.greeted && !g.named);
    w.at(g.deadline);
  }
}

void ServerSocket::step(Time now) {
  for (ServedPort& p : ports_) {
    p.reserve.step(!p.leaving && p.link->free(), now);
    if (!p.reserve.ready() || can_greet_) continue;
    hello_.bytes = p.reserve.hello().bytes;
    can_greet_ = true;
  }
  std::erase_if(ports_, [](const ServedPort& p) { return p.leaving && p.reserve.closed(); });
  accept_guests(now);
  std::erase_if(guests_, [&](Guest& g) { return !serve(g, now); });
}

void ServerSocket::accept_guests(Time now) {
  while (!full()) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    Guest g;
    g.fd = std::move(fd);
    g.deadline = now + kGuestLimit;
    guests_.push_back(std::move(g));
  }
}

bool ServerSocket::serve(Guest& g, Time now) {
  if (now >= g.deadline || hung_up(g.fd.get())) return false;
  if (!g.greeted) {
    if (!can_greet_) return true;
    if (!send(g.fd.get(), hello_)) return false;
    g.greeted = true;
  }
  if (!g.named) {
    const Received r = receive(g.fd.get(), g.init);
    if (r == Received::kNothing) return true;
    if (r != Received::kMessage || g.init.type() != MessageType::kInit) return false;
    g.named = true;
  }
  ServedPort* port = port_for(g.init);
  if (port == nullptr) return true;
  port->link->join(port->reserve.take(), std::move(g.fd), g.init, now);
  return false;
}

ServerSocket::ServedPort* ServerSocket::port_for(const Message& init) {
  for (ServedPort& p : ports_)
    if (p.id == init.init_id() && !p.leaving && p.link->free() && p.reserve.ready()) return &p;
  return nullptr;
}

}  // namespace metaroce::drivers::memif
