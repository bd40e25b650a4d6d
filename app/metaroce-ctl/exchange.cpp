#include "metaroce-ctl/exchange.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <fmt/format.h>
#include <cerrno>
#include <cstring>

#include "api/unique_fd.h"

namespace metaroce::ctl {

bool exchange(const std::string& path, const std::string& request, int timeout_ms,
              std::string& answer, std::string& error) {
  constexpr std::size_t kMostBytes = 1 << 20;
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof a.sun_path) {
    error = fmt::format("\"{}\" is not a socket's path; accepted: 1 to {} bytes", path,
                        sizeof a.sun_path - 1);
    return false;
  }
  std::memcpy(a.sun_path, path.data(), path.size());
  const UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0) {
    error = fmt::format(
        "no fabric answers on {} ({}): start metaroced with ports of kind fabric, or "
        "name its control socket with --socket",
        path, std::strerror(errno));
    return false;
  }
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    error = fmt::format("{}: {}", path, std::strerror(errno));
    return false;
  }
  pollfd p{fd.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&p, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  answer.resize(kMostBytes);
  const ssize_t n = ready > 0 ? ::recv(fd.get(), answer.data(), answer.size(), 0) : 0;
  answer.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  if (n > 0) return true;
  error = ready == 0 ? fmt::format("{}: no answer within {} ms: the daemon does not run its fabric",
                                   path, timeout_ms)
                     : fmt::format("{}: the daemon closed the connection", path);
  return false;
}

}  // namespace metaroce::ctl
