#include "config/load.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "config/check.h"
#include "config/failure.h"
#include "config/reader.h"
#include "config/yaml_tree.h"

namespace metaroce::config {
namespace {

// Messages quote the file and its name, which may hold anything but must stay on one line.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

std::string located(std::string_view name, int line, const std::string& path,
                    const std::string& text) {
  return one_line(fmt::format("{}:{}: {}: {}", name, line, path, text));
}

std::vector<std::uint32_t> own_cpus() {
  constexpr std::uint32_t kMost = 8192;
  std::vector<std::uint32_t> cpus;
  cpu_set_t* set = CPU_ALLOC(kMost);
  if (set == nullptr) return {0};
  const std::size_t bytes = CPU_ALLOC_SIZE(kMost);
  CPU_ZERO_S(bytes, set);
  if (sched_getaffinity(0, bytes, set) == 0)
    for (std::uint32_t i = 0; i < kMost; ++i)
      if (CPU_ISSET_S(i, bytes, set)) cpus.push_back(i);
  CPU_FREE(set);
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

DaemonConfig load(std::string_view name, std::string_view text, const LoadOptions& options) {
  const auto cpus = options.allowed_cpus.empty() ? own_cpus() : options.allowed_cpus;
  DaemonConfig config;
  Locations at;
  std::vector<Warning> warnings;
  read_config(parse_yaml(text), config, at);
  resolve(config, cpus);
  check_process(config, at, cpus);
  check_hosts(config, at, warnings);
  check_transport(config, at);
  check_fabric(config, at, cpus);
  for (const Warning& w : warnings)
    config.warnings.push_back(located(name, w.line, w.path, w.text));
  return config;
}

}  // namespace

Result<DaemonConfig> load_text(std::string_view name, std::string_view text,
                               const LoadOptions& options) {
  try {
    return load(name, text, options);
  } catch (const Failure& f) {
    return Error{located(name, f.line, f.path, f.what())};
  } catch (const std::exception& e) {  // out of memory, or a case that yaml-cpp does not name
    return Error{located(name, 1, "YAML", e.what())};
  }
}

Result<DaemonConfig> load_file(const std::string& path, const LoadOptions& options) {
  const auto refuse = [&](const std::string& why) {
    return Error{located(path, 0, "file", why + "; accepted: a readable YAML file")};
  };
  // Not blocking: the name may be that of a pipe which nobody writes.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return refuse(fmt::format("cannot be opened: {}", std::strerror(errno)));
  std::string text;
  int error = 0;
  struct stat status {};
  if (fstat(fd, &status) != 0) {
    error = errno;
  } else if (!S_ISREG(status.st_mode)) {
    close(fd);
    return refuse("is not a regular file");
  }
  // One byte more than allowed, so that parse_yaml() sees that it is too long.
  text.resize(kMaxFileBytes + 1);
  std::size_t length = 0;
  while (error == 0 && length < text.size()) {
    const ssize_t n = read(fd, text.data() + length, text.size() - length);
    if (n > 0)
      length += static_cast<std::size_t>(n);
    else if (n == 0)
      break;
    else if (errno != EINTR)
      error = errno;
  }
  close(fd);
  if (error != 0) return refuse(fmt::format("cannot be read: {}", std::strerror(error)));
  text.resize(length);
  return load_text(path, text, options);
}

}  // namespace metaroce::config
