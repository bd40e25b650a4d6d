#include "api/server/listen_socket.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace metaroce {
namespace {

constexpr int kBacklog = 64;

std::string failed(const std::string& what, int err) { return what + ": " + std::strerror(err); }

bool make_address(const std::string& path, sockaddr_un& a) {
  a = {};
  a.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof a.sun_path) return false;
  std::memcpy(a.sun_path, path.data(), path.size());
  return true;
}

int connect_or_bind(int (*call)(int, const sockaddr*, socklen_t), int fd, const sockaddr_un& a) {
  return call(fd, reinterpret_cast<const sockaddr*>(&a), sizeof a);
}

bool find_group(const std::string& group, gid_t& out) {
  const char* end = group.data() + group.size();
  if (const auto r = std::from_chars(group.data(), end, out); r.ec == std::errc{} && r.ptr == end)
    return true;
  std::array<char, 4096> buf;
  struct ::group g {};
  struct ::group* found = nullptr;
  if (getgrnam_r(group.c_str(), &g, buf.data(), buf.size(), &found) != 0 || found == nullptr)
    return false;
  out = g.gr_gid;
  return true;
}

void make_parent(const std::string& path) {
  const auto slash = path.rfind('/');
  // An error shows when the lock file is opened.
  if (slash != std::string::npos && slash != 0) ::mkdir(path.substr(0, slash).c_str(), 0755);
}

}  // namespace

bool ListenSocket::take_lock(std::string& error) {
  const std::string name = path_ + ".lock";
  lock_.reset(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock_) {
    error = failed("cannot open " + name, errno) + "; choose another socket path";
    return false;
  }
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    error = "another daemon serves " + path_ + ": stop it or choose another socket path";
    return false;
  }
  return true;
}

// We hold the lock: what is left at the path is a dead daemon's socket or somebody else's file.
bool ListenSocket::remove_stale(std::string& error) const {
  struct stat st {};
  if (::lstat(path_.c_str(), &st) != 0) return true;
  if (!S_ISSOCK(st.st_mode)) {
    error = path_ + " exists and is no socket: remove it or choose another socket path";
    return false;
  }
  sockaddr_un a;
  make_address(path_, a);
  const UniqueFd probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect_or_bind(::connect, probe.get(), a) == 0 || errno == EAGAIN || errno == EPROTOTYPE) {
    error = "another program serves " + path_ + ": stop it or choose another socket path";
    return false;
  }
  if (::unlink(path_.c_str()) != 0) {
    error = failed("cannot remove the stale socket " + path_, errno);
    return false;
  }
  return true;
}

bool ListenSocket::claim(const std::string& path, std::string& error) {
  sockaddr_un a;
  if (!make_address(path, a)) {
    error = "socket path '" + path + "' must have 1 to " + std::to_string(sizeof a.sun_path - 1) +
            " bytes";
    return false;
  }
  path_ = path;
  make_parent(path);
  if (take_lock(error) && remove_stale(error)) return true;
  lock_.reset();
  return false;
}

bool ListenSocket::open(const std::string& path, unsigned mode, const std::string& group,
                        std::string& error) {
  if ((!lock_ || path != path_) && !claim(path, error)) return false;
  sockaddr_un a;
  make_address(path, a);
  gid_t gid = static_cast<gid_t>(-1);
  if (!group.empty() && !find_group(group, gid)) {
    error =
        "group '" + group + "' of socket " + path + " does not exist: create it or name another";
    lock_.reset();
    return false;
  }
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The mode of an unbound socket becomes that of its file (less umask).
  if (!fd || ::fchmod(fd.get(), 0600) != 0 || connect_or_bind(::bind, fd.get(), a) != 0) {
    error = failed("cannot create socket " + path, errno);
    lock_.reset();
    return false;
  }
  fd_ = std::move(fd);
  if ((!group.empty() && ::chown(path.c_str(), static_cast<uid_t>(-1), gid) != 0) ||
      ::chmod(path.c_str(), mode) != 0 || ::listen(fd_.get(), kBacklog) != 0) {
    error = failed("cannot give socket " + path + " its group and mode", errno);
    close();
    return false;
  }
  return true;
}

void ListenSocket::close() {
  if (fd_) ::unlink(path_.c_str());
  fd_.reset();
  lock_.reset();
}

}  // namespace metaroce
