#include "drivers/memif/private_socket.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "drivers/memif/socket_name.h"

namespace metaroce::drivers::memif {

std::shared_ptr<PrivateSocket> PrivateSocket::make(Status& s) {
  auto p = std::make_shared<PrivateSocket>();
  s = p->choose_path();
  return s.ok() ? p : nullptr;
}

PrivateSocket::~PrivateSocket() { remove_name(); }

Status PrivateSocket::choose_path() {
  for (const char* parent : {"/tmp", "/dev/shm", "/run"}) {
    std::string d = std::string(parent) + "/metaroce-XXXXXX";
    if (mkdtemp(d.data()) == nullptr) continue;
    directory_ = d;
    path_ = d + "/memif";
    return {};
  }
  return Status::error(
      Errc::kPermission,
      fmt::format("memif: no directory can be made for a moment in /tmp, /dev/shm or /run: {}",
                  std::strerror(errno)));
}

Status PrivateSocket::adopt() {
  handle_.reset(open(path_.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW));
  const int error = errno;
  remove_name();
  if (handle_) return {};
  return Status::error(Errc::kFailed, fmt::format("memif: the driver does not listen on {}: {}",
                                                  path_, std::strerror(error)));
}

void PrivateSocket::remove_name() {
  if (directory_.empty()) return;
  unlink(path_.c_str());
  rmdir(directory_.c_str());
  directory_.clear();
}

UniqueFd PrivateSocket::connect() const {
  const SocketName address(fmt::format("/proc/self/fd/{}", handle_.get()));
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd && ::connect(fd.get(), address.get(), address.bytes()) != 0) fd.reset();
  return fd;
}

}  // namespace metaroce::drivers::memif
