// Strings, choices and addresses in files. Strings that end up in a DPDK device argument may not
// hold its separators, which would smuggle in further arguments.
#include <algorithm>
#include <array>

#include "config/address_text.h"
#include "config/codec.h"
#include "config/failure.h"
#include "config/yaml_tree.h"

namespace metaroce::config {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

std::string name_rule(std::string_view s) {
  const auto bad = std::find_if_not(s.begin(), s.end(), is_word);
  return bad == s.end() ? "" : "holds a character that a name may not have";
}

std::string interface_rule(std::string_view s) {
  if (s == "." || s == "..") return "is not the name of an interface";
  return name_rule(s);
}

std::string path_rule(std::string_view s) {
  if (!s.empty() && s.front() != '/') return "is not an absolute path";
  if (s.ends_with('/')) return "names a directory";
  return {};
}

std::string memif_socket_rule(std::string_view s) {
  if (s.find_first_of(",=[]() \t") != std::string_view::npos)
    return "holds a separator of DPDK device arguments";
  return s.starts_with('/') ? path_rule(s) : name_rule(s);
}

// Options that follow from other keys, or that this program cannot be run with. getopt_long takes
// unambiguous prefixes of long options, so prefixes are refused with them.
struct RefusedOption {
  std::string_view name, instead;
};
constexpr std::array<RefusedOption, 20> kRefused = {{
    {"--proc-type", "the daemon is always a primary process"},
    {"--file-prefix", "use eal.file_prefix"},
    {"--in-memory", "use eal.memory"},
    {"--no-huge", "use eal.memory"},
    {"--no-shconf", "use eal.memory"},
    {"--huge-dir", "use eal.memory"},
    {"--socket-mem", "use eal.memory_size"},
    {"-m", "use eal.memory_size"},
    {"--vdev", "list ports below hosts"},
    {"--allow", "list ports below hosts"},
    {"-a", "list ports below hosts"},
    {"--block", "list ports below hosts"},
    {"-b", "list ports below hosts"},
    {"--no-pci", "list ports below hosts"},
    {"--lcores", "set CPUs in hosts[].groups"},
    {"-l", "set CPUs in hosts[].groups"},
    {"-c", "set CPUs in hosts[].groups"},
    {"-s", "set CPUs in hosts[].groups"},
    {"--main-lcore", "set CPUs in hosts[].groups"},
    {"--help", "see the DPDK documentation"},
}};

std::string eal_argument_rule(std::string_view s) {
  const std::string_view name = s.substr(0, s.find('='));
  if (name == "--") return "ends the options of DPDK";
  for (const RefusedOption& r : kRefused) {
    const bool is_long = r.name.starts_with("--");
    const bool hit = is_long ? name.size() > 2 && r.name.starts_with(name)
                             : s.starts_with(r.name) && !s.starts_with("--");
    if (hit) return fmt::format("is not an extra argument ({})", r.instead);
  }
  return {};
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out;
  for (const char c : text) {
    if (out.size() >= kMost && (static_cast<unsigned char>(c) & 0xc0U) != 0x80U) return out + "...";
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return out;
}

std::string comma_list(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

bool BoolCodec::read(const Scalar& s) const {
  if (s.quoted)
    throw ValueError(fmt::format("\"{}\" is a quoted string, not a boolean", shown(s.text)));
  if (s.text == "true") return true;
  if (s.text == "false") return false;
  throw ValueError(fmt::format("{} is not a boolean", shown(s.text)));
}

void refuse_choice(const Scalar& s, const std::vector<std::string>& names) {
  const std::string hint = nearest(s.text, names);
  throw ValueError(fmt::format("\"{}\" is not one of the choices{}", shown(s.text),
                               hint.empty() ? "" : fmt::format(", nearest is \"{}\"", hint)));
}

std::string TextCodec::read(const Scalar& s) const {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::string wrong;
  if (std::any_of(s.text.begin(), s.text.end(), control))
    wrong = "holds a line break or control character";
  else if (s.text.size() < min_)
    wrong = "is empty";
  else if (s.text.size() > max_)
    wrong = fmt::format("has {} bytes, more than {}", s.text.size(), max_);
  else
    wrong = rule_(s.text);
  if (!wrong.empty()) throw ValueError(fmt::format("\"{}\" {}", shown(s.text), wrong));
  return std::string(s.text);
}
std::string TextCodec::print(const std::string& v) const { return yaml_string(v); }

TextCodec name_text(std::size_t max) {
  return {"string", fmt::format("1 to {} letters, digits, '.', '_', '-'", max), 1, max, name_rule};
}
TextCodec interface_text() {
  return {"string", "an interface name of 1 to 15 letters, digits, '.', '_', '-'", 1, 15,
          interface_rule};
}
TextCodec socket_path_text() {
  return {"path", "an absolute path of at most 107 bytes", 1, 107, path_rule};
}
TextCodec memif_socket_text() {
  return {"string",
          "an absolute path, or an abstract name of letters, digits, '.', '_', '-'; at most 107 "
          "bytes",
          1, 107, memif_socket_rule};
}
TextCodec group_text() {
  return {"string", "the name of a Unix group, at most 32 letters, digits, '.', '_', '-'", 0, 32,
          name_rule};
}
TextCodec eal_argument_text() {
  return {"string", "one argument of rte_eal_init, at most 255 bytes", 1, 255, eal_argument_rule};
}

std::string PciCodec::read(const Scalar& s) const {
  if (auto pci = parse_pci(s.text)) return *pci;
  throw ValueError(fmt::format("\"{}\" is not a PCI address", shown(s.text)));
}

std::uint32_t ModeCodec::read(const Scalar& s) const {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  if (s.text.size() != 4 || s.text[0] != '0' || !std::all_of(s.text.begin(), s.text.end(), octal))
    throw ValueError(fmt::format("\"{}\" is not a file mode", shown(s.text)));
  std::uint32_t mode = 0;
  for (const char c : s.text) mode = mode * 8 + static_cast<std::uint32_t>(c - '0');
  if ((mode & 0600) != 0600)
    throw ValueError(fmt::format("\"{}\" locks the daemon out of its own socket", s.text));
  return mode;
}

IpAddress IpCodec::read(const Scalar& s) const {
  const auto ip = parse_ip(s.text);
  if (!ip) {
    std::string_view why = "is not an IP address";
    if (s.text.find('%') != std::string_view::npos)
      why = "has a zone (%...)";
    else if (s.text.starts_with('['))
      why = "has brackets or a port";
    else if (std::count(s.text.begin(), s.text.end(), ':') == 1)
      why = "has a port";
    else if (s.text.find('/') != std::string_view::npos)
      why = "has a prefix length";
    throw ValueError(fmt::format("\"{}\" {}", shown(s.text), why));
  }
  if (const auto why = not_unicast(*ip); !why.empty())
    throw ValueError(fmt::format("{} {}", s.text, why));
  return *ip;
}
std::string IpCodec::print(const IpAddress& v) const { return "\"" + to_text(v) + "\""; }

IpPrefix PrefixCodec::read(const Scalar& s) const {
  const auto slash = s.text.find('/');
  const IpAddress ip = IpCodec{}.read({s.text.substr(0, slash), s.quoted});
  if (slash == std::string_view::npos)
    throw ValueError(fmt::format("{} has no prefix length", s.text));
  const std::string_view length = s.text.substr(slash + 1);
  if (length.find('.') != std::string_view::npos)
    throw ValueError(fmt::format("\"{}\" has a netmask; write a prefix length", shown(s.text)));
  std::uint64_t n = 0;
  try {
    n = count(1, ip.v6 ? 128 : 32).read({length, false});
  } catch (const ValueError&) {
    throw ValueError(fmt::format("\"{}\" has a bad prefix length", shown(s.text)));
  }
  if (!ip.v6 && n <= 30) {
    const std::uint32_t v4 = static_cast<std::uint32_t>(ip.b[0]) << 24 |
                             static_cast<std::uint32_t>(ip.b[1]) << 16 |
                             static_cast<std::uint32_t>(ip.b[2]) << 8 | ip.b[3];
    const std::uint32_t host_bits = 0xffffffffU >> n;
    if ((v4 & host_bits) == 0) throw ValueError(fmt::format("{} is the network itself", s.text));
    if ((v4 & host_bits) == host_bits)
      throw ValueError(fmt::format("{} is the network's broadcast address", s.text));
  }
  return {ip, static_cast<std::uint8_t>(n)};
}
std::string PrefixCodec::print(const IpPrefix& v) const { return "\"" + to_text(v) + "\""; }

MacAddress MacCodec::read(const Scalar& s) const {
  const auto mac = parse_mac(s.text);
  if (!mac) throw ValueError(fmt::format("\"{}\" is not a MAC address", shown(s.text)));
  if (const auto why = not_unicast(*mac); !why.empty())
    throw ValueError(fmt::format("{} {}", s.text, why));
  return *mac;
}
std::string MacCodec::print(const MacAddress& v) const { return "\"" + to_text(v) + "\""; }

}  // namespace metaroce::config
