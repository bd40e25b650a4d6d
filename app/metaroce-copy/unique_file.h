// A file descriptor with an owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace metaroce::copy {

class UniqueFile {
 public:
  UniqueFile() = default;
  explicit UniqueFile(int fd) : fd_(fd) {}
  UniqueFile(UniqueFile&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  UniqueFile& operator=(UniqueFile&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~UniqueFile() { reset(); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace metaroce::copy
