// The socket on which the driver of a server port listens. Whoever knocks there and leaves at once
// ends the process (the driver of DPDK 22.11 answers with SIGPIPE, or makes EAL's interrupt thread
// panic), so that it has no name: the driver binds it inside a directory of ours, which is gone a
// moment later. What is left is a handle through which /proc lets us connect.
// Rejected: an abstract name, which every user of the network namespace can knock at.
#pragma once

#include <memory>
#include <string>

#include "api/unique_fd.h"
#include "dataplane/status.h"

namespace metaroce::drivers::memif {

class PrivateSocket {
 public:
  // nullptr with the reason in `s`. Control thread.
  static std::shared_ptr<PrivateSocket> make(Status& s);
  ~PrivateSocket();

  // Where the driver shall listen.
  [[nodiscard]] const std::string& path() const { return path_; }
  // The driver listens: take the name away.
  Status adopt();
  // Without waiting; invalid when its queue is full.
  [[nodiscard]] UniqueFd connect() const;

 private:
  Status choose_path();
  void remove_name();

  std::string directory_, path_;
  UniqueFd handle_;
};

}  // namespace metaroce::drivers::memif
