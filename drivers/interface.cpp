#include "drivers/interface.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace metaroce::drivers {

bool valid_interface_name(const std::string& n) {
  return !n.empty() && n.size() < IFNAMSIZ &&
         std::none_of(n.begin(), n.end(), [](char c) { return c == '/' || c == ',' || c <= ' '; });
}

Status check_interface(const std::string& port, const std::string& interface,
                       std::uint32_t ip_bytes) {
  if (!valid_interface_name(interface))
    return Status::error(
        Errc::kInvalid, fmt::format("port {}: \"{}\" is not an interface name (1 to 15 characters)",
                                    port, interface));
  if (if_nametoindex(interface.c_str()) == 0)
    return Status::error(
        Errc::kNoDevice,
        fmt::format("port {}: no interface {} here: see `ip link`", port, interface));
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  ifreq r{};
  std::strncpy(r.ifr_name, interface.c_str(), IFNAMSIZ - 1);
  const bool known = ioctl(fd, SIOCGIFMTU, &r) == 0;
  ::close(fd);
  if (known && static_cast<std::uint32_t>(r.ifr_mtu) < ip_bytes)
    return Status::error(
        Errc::kTooLarge,
        fmt::format(
            "port {}: interface {} has MTU {}, packets need {}: run `ip link set {} mtu {}` on "
            "both ends or lower the payload MTU",
            port, interface, r.ifr_mtu, ip_bytes, interface, ip_bytes));
  return {};
}

}  // namespace metaroce::drivers
