// libmetaroce's way to a dataplane: the daemon's socket. Waits for a daemon that is just starting.
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "api/client/socket_backend.h"
#include "metaroce/metaroce.h"

namespace metaroce {
namespace {

constexpr const char* kDefaultSocket = "/run/metaroce/metaroced.sock";
constexpr Nanos kFirstPause = 5 * kMillisecond, kLongestPause = 100 * kMillisecond;

std::string advice(const std::string& path, int err) {
  switch (err) {
    case ENOENT:
    case ECONNREFUSED:
      return "no daemon at " + path + ": start metaroced, or name its socket in METAROCE_SOCKET";
    case EACCES:
      return "no permission for " + path + ": join the socket's group (see 'ls -l " + path + "')";
    default:
      return "cannot connect to " + path + ": " + std::strerror(err);
  }
}

void pause_for(Nanos n) {
  const timespec t{n / kSecond, n % kSecond};
  nanosleep(&t, nullptr);
}

}  // namespace

std::unique_ptr<Backend> make_backend(const metaroce_attach_attr& attr, Nanos deadline, int& err,
                                      std::string& why) {
  if (attr.config_file != nullptr) {
    err = EINVAL;
    why = "config_file needs libmetaroce-embed; this library attaches to a running metaroced";
    return nullptr;
  }
  const char* env = std::getenv("METAROCE_SOCKET");
  const std::string path = attr.socket_path != nullptr        ? attr.socket_path
                           : env != nullptr && env[0] != '\0' ? env
                                                              : kDefaultSocket;
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof a.sun_path) {
    err = EINVAL;
    why = "socket path '" + path + "' must have 1 to " + std::to_string(sizeof a.sun_path - 1) +
          " bytes";
    return nullptr;
  }
  std::memcpy(a.sun_path, path.data(), path.size());
  for (Nanos pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    // Non-blocking: a daemon that does not take connections must not hold us beyond the limit.
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0)
      return std::make_unique<SocketBackend>(std::move(fd));
    err = errno;
    const bool starting = err == ENOENT || err == ECONNREFUSED || err == EAGAIN || err == EINTR;
    const Nanos left = deadline - monotonic_now();
    if (!starting || left <= 0) break;
    pause_for(std::min(pause, left));
  }
  why = advice(path, err);
  return nullptr;
}

}  // namespace metaroce
