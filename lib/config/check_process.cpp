// CPUs: every one that the file names must be one on which the process may run, which EAL would
// otherwise find out in its own words, or not at all. And names of things that exist once.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "config/check.h"
#include "config/failure.h"

namespace metaroce::config {
namespace {

// Workers named in the file; those that resolve() chose are allowed by construction.
void check_group(const GroupConfig& group, const std::string& path, const EalConfig& eal,
                 const Locations& at, const std::vector<std::uint32_t>& cpus) {
  const std::pair<const char*, std::optional<std::uint32_t>> roles[] = {
      {"rx", group.rx}, {"tx", group.tx}, {"timer", group.timer}};
  for (const auto& [role, cpu] : roles) {
    const std::string role_path = fmt::format("{}.{}", path, role);
    if (!at.has(role_path)) continue;
    if (eal.progress == Progress::kInline)
      throw Failure(at.line(role_path), role_path,
                    "a CPU, but eal.progress is inline: the application's thread does the work; "
                    "accepted: no CPUs with progress inline");
    check_cpu(role_path, at, *cpu, cpus);
  }
}

// Two roles on one lcore cannot idle in two ways.
void check_idle(const DaemonConfig& config, const Locations& at) {
  std::map<std::uint32_t, IdlePolicy> idle_of;
  for (std::size_t h = 0; h < config.hosts.size(); ++h) {
    for (std::size_t g = 0; g < config.hosts[h].groups.size(); ++g) {
      const GroupConfig& group = config.hosts[h].groups[g];
      for (const auto cpu : {group.rx, group.tx, group.timer}) {
        if (!cpu) continue;
        const auto [first, fresh] = idle_of.emplace(*cpu, group.idle);
        const std::string path = fmt::format("hosts[{}].groups[{}].idle", h, g);
        if (!fresh && first->second != group.idle)
          throw Failure(at.line(path), path,
                        fmt::format("another group on CPU {} has another idle policy; accepted: "
                                    "one policy for all groups that share a CPU",
                                    *cpu));
      }
    }
  }
}

}  // namespace

void check_cpu(const std::string& path, const Locations& at, std::uint32_t cpu,
               const std::vector<std::uint32_t>& cpus) {
  if (std::find(cpus.begin(), cpus.end(), cpu) != cpus.end()) return;
  throw Failure(at.line(path), path,
                fmt::format("CPU {} is not one on which this process may run; accepted: {}", cpu,
                            cpu_set_text(cpus)));
}

std::string cpu_set_text(const std::vector<std::uint32_t>& cpus) {
  std::string out;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i;
    while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1) ++end;
    if (!out.empty()) out += ',';
    out += end == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[end]);
    i = end + 1;
  }
  return out;
}

void check_process(const DaemonConfig& config, const Locations& at,
                   const std::vector<std::uint32_t>& cpus) {
  const EalConfig& eal = config.eal;
  std::set<std::uint32_t> seen;
  for (std::size_t i = 0; i < eal.control_cpus.size(); ++i) {
    const std::string path = fmt::format("eal.control_cpus[{}]", i);
    check_cpu(path, at, eal.control_cpus[i], cpus);
    if (!seen.insert(eal.control_cpus[i]).second)
      throw Failure(at.line(path), path,
                    fmt::format("CPU {} is listed twice; accepted: once", eal.control_cpus[i]));
  }
  std::set<std::string> names;
  for (std::size_t h = 0; h < config.hosts.size(); ++h) {
    const HostConfig& host = config.hosts[h];
    const std::string path = fmt::format("hosts[{}]", h);
    if (!names.insert(host.name).second)
      throw Failure(
          at.line(path + ".name"), path + ".name",
          fmt::format("another host is called \"{}\"; accepted: names that differ", host.name));
    for (std::size_t g = 0; g < host.groups.size(); ++g)
      check_group(host.groups[g], fmt::format("{}.groups[{}]", path, g), eal, at, cpus);
  }
  check_idle(config, at);
}

}  // namespace metaroce::config
