#include "api/server/session_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

namespace metaroce {
namespace {

constexpr unsigned kRequestsPerPass = 16;  // of one client
constexpr unsigned kAcceptsPerPass = 16;
constexpr int kSendBuffer = 32 << 10;  // few messages, so few descriptors in flight

const char* reason(LinkEnd e) {
  switch (e) {
    case LinkEnd::kProtocol:
      return "sent a malformed request";
    case LinkEnd::kSlow:
      return "does not read its messages";
    case LinkEnd::kRefused:
      return "did not attach";
    case LinkEnd::kNone:
    case LinkEnd::kGone:
    case LinkEnd::kStopped:
      break;
  }
  return nullptr;
}

}  // namespace

SessionServer::SessionServer(ServerOptions options)
    : options_(std::move(options)), resources_(options_.hugepages) {}

SessionServer::~SessionServer() = default;

std::unique_ptr<SessionServer> SessionServer::create(ServerOptions options,
                                                     const std::vector<Host>& hosts,
                                                     std::string& error, ListenSocket door) {
  if (hosts.empty()) {
    error = "no host to serve: the configuration needs at least one under 'hosts'";
    return nullptr;
  }
  if (!std::has_single_bit(options.limits.submission_entries)) {
    error = "the number of submission ring entries must be a power of two";
    return nullptr;
  }
  std::unique_ptr<SessionServer> s(new SessionServer(std::move(options)));
  for (const Host& h : hosts)
    s->hosts_.push_back(
        std::make_unique<HostSessions>(h.name, *h.api, s->resources_, s->options_.limits));
  s->listener_ = std::move(door);
  if (!s->listener_.open(s->options_.path, s->options_.mode, s->options_.group, error))
    return nullptr;
  s->epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  s->spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!s->watch(s->listener_.fd(), nullptr, error)) return nullptr;
  return s;
}

bool SessionServer::watch(int fd, void* what, std::string& error) {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.ptr = what;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) == 0) return true;
  error = std::string("cannot wait for clients: ") + std::strerror(errno);
  return false;
}

unsigned SessionServer::poll(Nanos now) {
  unsigned work = 0;
  std::array<epoll_event, 64> ready;
  const int n = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < n; ++i) {
    const epoll_event& e = ready[static_cast<std::size_t>(i)];
    if (e.data.ptr == nullptr) {
      accept_clients(now);
    } else {
      work += serve(*static_cast<ClientLink*>(e.data.ptr), now);
    }
  }
  for (auto& h : hosts_) work += h->dispatch();
  settle(now);
  return work;
}

void SessionServer::accept_clients(Nanos now) {
  for (unsigned i = 0; i < kAcceptsPerPass; ++i) {
    UniqueFd fd(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE) {
        // Without a descriptor the connection would stay and wake us for ever: take it with the
        // spare one and let it go.
        ++counters_.no_descriptor;
        spare_.reset();
        fd.reset(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
        fd.reset();
        spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      }
      return;
    }
    ++counters_.accepted;
    ucred peer{};
    socklen_t len = sizeof peer;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 || !admit(peer)) {
      ++counters_.refused_clients;
      log(now,
          "refused a client of user " + std::to_string(peer.uid) + ": limit of clients reached");
      continue;
    }
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
    ClientLink& link = links_.emplace_back(
        std::move(fd), peer, now + options_.limits.attach_timeout, options_.limits.queued_messages);
    std::string error;
    link.registered = EPOLLIN;
    if (!watch(link.fd(), &link, error)) links_.pop_back();
  }
}

bool SessionServer::admit(const ucred& peer) {
  std::size_t all = 0, same = 0;
  for (const auto& h : hosts_) all += h->size();  // sessions, with those being removed
  for (const ClientLink& l : links_) {
    all += l.session == nullptr ? 1 : 0;
    same += l.peer().uid == peer.uid ? 1 : 0;
  }
  const bool exempt = peer.uid == 0 || peer.uid == geteuid();
  return all < options_.limits.clients && (exempt || same < options_.limits.clients_per_user);
}

unsigned SessionServer::serve(ClientLink& link, Nanos now) {
  link.flush();
  unsigned n = 0;
  abi::Request r;
  while (n < kRequestsPerPass && link.receive(r)) {
    ++n;
    if (link.session == nullptr) {
      attach(link, r);
    } else if (!link.session->handle(r, now)) {
      link.end(LinkEnd::kProtocol);
    }
  }
  return n;
}

void SessionServer::refuse_attach(ClientLink& link, const abi::Request& r, ControlStatus s,
                                  const std::string& text) {
  OutMessage m;
  m.head.magic = abi::kMagic;
  m.head.version = abi::kVersion;
  m.head.kind = static_cast<std::uint16_t>(abi::MessageKind::kReply);
  m.head.token = r.token;
  m.head.status = static_cast<std::uint8_t>(s);
  std::memcpy(m.head.text.data(), text.data(), std::min(text.size(), m.head.text.size() - 1));
  link.deliver(std::move(m));
  link.end(LinkEnd::kRefused);
}

void SessionServer::attach(ClientLink& link, const abi::Request& r) {
  if (r.version != abi::kVersion)
    return refuse_attach(link, r, ControlStatus::kIncompatible,
                         "the library speaks version " + std::to_string(r.version) +
                             " and the daemon version " + std::to_string(abi::kVersion) +
                             ": install both from one release");
  if (r.kind != static_cast<std::uint16_t>(abi::RequestKind::kAttach) || r.token == 0)
    return link.end(LinkEnd::kProtocol);
  const std::string_view name(r.host.data(), strnlen(r.host.data(), r.host.size()));
  HostSessions* host = hosts_.front().get();
  if (!name.empty()) {
    const auto it = std::find_if(hosts_.begin(), hosts_.end(),
                                 [&](const auto& h) { return h->name() == name; });
    if (it == hosts_.end()) {
      std::string names;
      for (const auto& h : hosts_) names += (names.empty() ? "" : ", ") + h->name();
      return refuse_attach(link, r, ControlStatus::kNoSuchObject,
                           "the daemon has no host '" + std::string(name) + "', only: " + names);
    }
    host = it->get();
  }
  link.session = host->open(&link);
  if (link.session == nullptr)
    return refuse_attach(link, r, ControlStatus::kLimit, "limit of clients of this host reached");
  ++counters_.attached;
  link.session->attach(r.token);
}

// After each pass: late links, ended links, what epoll should watch.
void SessionServer::settle(Nanos now) {
  for (auto it = links_.begin(); it != links_.end();) {
    ClientLink& link = *it;
    if (link.session == nullptr && now >= link.attach_deadline()) link.end(LinkEnd::kRefused);
    if (link.session != nullptr && link.session->closed() && !link.queued())
      link.end(LinkEnd::kRefused);
    if (link.ended() != LinkEnd::kNone) {
      if (const char* why = reason(link.ended()); why != nullptr)
        log(now, "client process " + std::to_string(link.peer().pid) + " of user " +
                     std::to_string(link.peer().uid) + " " + why + ": disconnected");
      drop(link);
      it = links_.erase(it);
      continue;
    }
    if (link.interest() != link.registered) {
      epoll_event e{};
      e.events = link.registered = link.interest();
      e.data.ptr = &link;
      epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, link.fd(), &e);
    }
    ++it;
  }
}

void SessionServer::drop(ClientLink& link) {
  switch (link.ended()) {
    case LinkEnd::kGone:
      ++counters_.gone;
      break;
    case LinkEnd::kProtocol:
      ++counters_.cut_protocol;
      break;
    case LinkEnd::kSlow:
      ++counters_.cut_slow;
      break;
    case LinkEnd::kRefused:
      ++counters_.refused_attach;
      break;
    case LinkEnd::kNone:
    case LinkEnd::kStopped:
      break;
  }
  // Said, not left to close(): another process may hold a copy of the descriptor.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.fd(), nullptr);
  ::shutdown(link.fd(), SHUT_RDWR);
  if (link.session != nullptr) link.session->begin_close();
}

void SessionServer::stop() {
  if (listener_.fd() >= 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.fd(), nullptr);
  listener_.close();
  for (ClientLink& link : links_) {
    link.end(LinkEnd::kStopped);
    drop(link);
  }
  links_.clear();
  for (auto& h : hosts_) h->close_all();
}

bool SessionServer::idle() const { return links_.empty() && counts().sessions == 0; }

SessionCounts SessionServer::counts() const {
  SessionCounts sum;
  for (const auto& h : hosts_) {
    const SessionCounts c = h->counts();
    sum.sessions += c.sessions;
    sum.regions += c.regions;
    sum.cqs += c.cqs;
    sum.streams += c.streams;
    sum.listeners += c.listeners;
    sum.requests += c.requests;
    sum.memory_bytes += c.memory_bytes;
  }
  return sum;
}

void SessionServer::log(Nanos now, const std::string& line) {
  if (!options_.log) return;
  if (now - log_second_ >= kSecond) {
    if (log_lines_ > kLogLinesPerSecond)
      options_.log(std::to_string(log_lines_ - kLogLinesPerSecond) + " more lines about clients");
    log_second_ = now;
    log_lines_ = 0;
  }
  if (++log_lines_ <= kLogLinesPerSecond) options_.log(line);
}

}  // namespace metaroce
