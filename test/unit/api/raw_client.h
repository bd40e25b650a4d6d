// A client without a library: says whatever it likes to the daemon.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "api/client/socket_backend.h"

namespace metaroce {

inline UniqueFd raw_connect(const std::string& path) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  std::memcpy(a.sun_path, path.data(), path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0) fd.reset();
  return fd;
}

inline abi::Request raw_request(abi::RequestKind kind, std::uint64_t token = 1) {
  abi::Request r{};
  r.magic = abi::kMagic;
  r.version = abi::kVersion;
  r.kind = static_cast<std::uint16_t>(kind);
  r.token = token;
  return r;
}

}  // namespace metaroce
