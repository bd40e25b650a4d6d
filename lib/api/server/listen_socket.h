// The Unix socket on which a daemon waits for applications.
//
// Whether another daemon lives is decided by a lock on `<path>.lock`, which the kernel drops with
// its owner however that died. Rejected: only trying to connect; two daemons that start at the
// same time on a dead one's socket would each remove the other's. Order of permissions: the
// socket is nobody's until owner, group and mode are set, and cannot be connected to before
// listen(). The lock file stays behind: removing it would reopen the race.
#pragma once

#include <string>

#include "api/unique_fd.h"

namespace metaroce {

class ListenSocket {
 public:
  // Takes the path for this process, without a socket yet: for a daemon that opens its ports
  // before it can serve, and should not get so far when another one has them. open() does it
  // otherwise. False with one sentence in `error`.
  bool claim(const std::string& path, std::string& error);
  // `mode`: of the socket file, 0600 or 0660 are sensible. `group`: name or number; empty keeps
  // the daemon's. False with one sentence in `error`.
  bool open(const std::string& path, unsigned mode, const std::string& group, std::string& error);
  ListenSocket() = default;
  ListenSocket(ListenSocket&&) noexcept = default;
  ListenSocket& operator=(ListenSocket&&) noexcept = default;  // to one that is not open
  ~ListenSocket() { close(); }
  void close();
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  bool take_lock(std::string& error);
  bool remove_stale(std::string& error) const;

  std::string path_;
  UniqueFd lock_, fd_;
};

}  // namespace metaroce
