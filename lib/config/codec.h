// Codecs: one documented rule per type of scalar, both ways. read() throws ValueError with what is
// wrong; `accepts` says what would be right, for messages and the reference page.
//
//   integer   decimal digits without leading zero, sign, exponent, `_` or `:`; not quoted
//   duration  integer and unit, no space: ns us ms s
//   size      integer and unit, no space: B KiB MiB GiB; bytes without a unit
//   rate      integer and unit, no space: Mb/s Gb/s Tb/s
//   boolean   true or false, not quoted
//   string    as written, quoted or not: `no`, `null`, `1e2` are strings where one is wanted
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "config/daemon_config.h"

namespace metaroce::config {

struct Scalar {
  std::string_view text;
  bool quoted = false;
};

// The candidate that a person most likely meant, or empty.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

// Integers with or without units; `units` empty: a bare count of `noun`.
class NumberCodec {
 public:
  using Value = std::uint64_t;
  NumberCodec(std::string type_name, std::vector<Unit> units, bool bare, std::uint64_t min,
              std::uint64_t max, std::string noun);
  [[nodiscard]] Value read(const Scalar& s) const;
  [[nodiscard]] std::string print(Value v) const;
  std::string type, accepts;

 private:
  std::vector<Unit> units_;
  bool bare_;  // a number without unit is allowed
  std::uint64_t min_, max_;
};
// Further rules on numbers, told in `accepts`.
class PowerOfTwoCodec : public NumberCodec {
 public:
  PowerOfTwoCodec(std::uint64_t min, std::uint64_t max, std::string noun);
  [[nodiscard]] Value read(const Scalar& s) const;
};
class MebibytesCodec : public NumberCodec {
 public:
  MebibytesCodec(std::uint64_t min, std::uint64_t max);
  [[nodiscard]] Value read(const Scalar& s) const;
};

NumberCodec count(std::uint64_t min, std::uint64_t max, std::string noun = {});
NumberCodec duration(Nanos min, Nanos max);
NumberCodec size(Bytes min, Bytes max);
NumberCodec rate(Mbps min, Mbps max);

struct BoolCodec {
  using Value = bool;
  [[nodiscard]] Value read(const Scalar& s) const;
  [[nodiscard]] std::string print(Value v) const { return v ? "true" : "false"; }
  std::string type = "boolean", accepts = "true or false";
};

template <typename E>
class ChoiceCodec {
 public:
  using Value = E;
  explicit ChoiceCodec(std::vector<std::pair<std::string, E>> choices);
  [[nodiscard]] Value read(const Scalar& s) const;
  [[nodiscard]] std::string print(Value v) const;
  std::string type = "choice", accepts;

 private:
  std::vector<std::pair<std::string, E>> choices_;
};

// Strings: printable, bounded, and `rule` returns what is wrong with one (empty: nothing).
class TextCodec {
 public:
  using Value = std::string;
  using Rule = std::string (*)(std::string_view);
  TextCodec(std::string type_name, std::string accepted, std::size_t min, std::size_t max,
            Rule rule)
      : type(std::move(type_name)),
        accepts(std::move(accepted)),
        min_(min),
        max_(max),
        rule_(rule) {}
  [[nodiscard]] Value read(const Scalar& s) const;
  [[nodiscard]] std::string print(const Value& v) const;
  std::string type, accepts;

 private:
  std::size_t min_, max_;
  Rule rule_;
};
TextCodec name_text(std::size_t max);  // letters, digits, . _ -
TextCodec interface_text();            // a Linux network interface
TextCodec socket_path_text();          // absolute path of a Unix socket
TextCodec memif_socket_text();         // absolute path or abstract name
TextCodec group_text();                // a Unix group, may be empty
TextCodec eal_argument_text();

struct PciCodec {
  using Value = std::string;
  [[nodiscard]] Value read(const Scalar& s) const;
  [[nodiscard]] std::string print(const Value& v) const { return "\"" + v + "\""; }
  std::string type = "PCI address",
              accepts =
                  "domain:bus:device.function in hexadecimal, as lspci -D prints: 0000:03:00.0";
};
struct ModeCodec {
  using Value = std::uint32_t;
  [[nodiscard]] Value read(const Scalar& s) const;
  [[nodiscard]] std::string print(Value v) const { return fmt::format("\"{:04o}\"", v); }
  std::string type = "file mode", accepts = "four octal digits from \"0600\" to \"0777\"";
};
struct IpCodec {
  using Value = IpAddress;
  [[nodiscard]] Value read(const Scalar& s) const;
  [[nodiscard]] std::string print(const Value& v) const;
  std::string type = "IP address", accepts = "an IPv4 or IPv6 unicast literal without port or zone";
};
struct PrefixCodec {
  using Value = IpPrefix;
  [[nodiscard]] Value read(const Scalar& s) const;
  [[nodiscard]] std::string print(const Value& v) const;
  std::string type = "IP prefix",
              accepts =
                  "a host's address and prefix length: 10.0.0.1/24 (/1 to /32), fd00::1/64 "
                  "(/1 to /128)";
};
struct MacCodec {
  using Value = MacAddress;
  [[nodiscard]] Value read(const Scalar& s) const;
  [[nodiscard]] std::string print(const Value& v) const;
  std::string type = "MAC address", accepts = "a unicast MAC address: 02:00:00:00:00:01";
};

// As it goes into a message: one line, printable, not longer than a person reads.
std::string shown(std::string_view text);
// "a, b, c". (fmt::join trips gcc 12's -Wstringop-overflow.)
std::string comma_list(const std::vector<std::string>& words);

// ---- templates
// -----------------------------------------------------------------------------------
[[noreturn]] void refuse_choice(const Scalar& s, const std::vector<std::string>& names);

template <typename E>
ChoiceCodec<E>::ChoiceCodec(std::vector<std::pair<std::string, E>> choices)
    : choices_(std::move(choices)) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices_) names.push_back(name);
  accepts = comma_list(names);
}
template <typename E>
E ChoiceCodec<E>::read(const Scalar& s) const {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices_) {
    if (s.text == name) return value;
    names.push_back(name);
  }
  refuse_choice(s, names);
}
template <typename E>
std::string ChoiceCodec<E>::print(E v) const {
  for (const auto& [name, value] : choices_)
    if (v == value) return name;
  return {};
}

}  // namespace metaroce::config
