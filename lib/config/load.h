// Entry points of lib/config. Any thread; nothing is kept between calls.
//
// Errors are one printable line, `file:line: key.path: what is wrong; accepted: ...; nearest known
// key "x"`, and the caller exits with status 2. The first error ends loading: later ones are
// often its echoes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/daemon_config.h"

namespace metaroce::config {

struct Error {
  std::string message;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}
  [[nodiscard]] bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  // Only when ok().
  [[nodiscard]] T& value() { return *std::get_if<T>(&state_); }
  [[nodiscard]] const T& value() const { return *std::get_if<T>(&state_); }
  // Only when not ok().
  [[nodiscard]] const std::string& error() const { return std::get_if<Error>(&state_)->message; }

 private:
  std::variant<T, Error> state_;
};

struct LoadOptions {
  // CPUs that the file may name and from which unnamed ones are taken. Empty: those on which the
  // calling thread may run (so load before EAL narrows its affinity).
  std::vector<std::uint32_t> allowed_cpus;
};

Result<DaemonConfig> load_file(const std::string& path, const LoadOptions& options = {});
// `name` stands for the file in messages.
Result<DaemonConfig> load_text(std::string_view name, std::string_view text,
                               const LoadOptions& options = {});

// The configuration as YAML that loads to the same configuration.
std::string print_config(const DaemonConfig& config);
// The defaults as commented YAML; loads, and equals the defaults.
std::string print_defaults();
// The page doc/reference/configuration.md.
std::string reference_markdown();
// One host on a looped-back ring, without root or huge pages; the control socket lies in
// $XDG_RUNTIME_DIR, else in /tmp. For programs started without a configuration file.
std::string default_config_text();

}  // namespace metaroce::config
