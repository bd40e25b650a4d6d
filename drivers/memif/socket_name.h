// "/path", or the name of an abstract socket, as an address.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <string>

namespace metaroce::drivers::memif {

class SocketName {
 public:
  static constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;

  // 1 to kLongest characters.
  explicit SocketName(const std::string& name) {
    address_.sun_family = AF_UNIX;
    const std::size_t zero = name.front() == '/' ? 0 : 1;
    std::memcpy(address_.sun_path + zero, name.data(), name.size());
    // A path is followed by a zero; an abstract name has one in front and none behind.
    bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1);
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  [[nodiscard]] socklen_t bytes() const { return bytes_; }

 private:
  sockaddr_un address_{};
  socklen_t bytes_ = 0;
};

}  // namespace metaroce::drivers::memif
