#include "dataplane/eal.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>

#include "dataplane/compat.h"

namespace metaroce {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::uint64_t read_number(const std::filesystem::path& p) {
  std::ifstream f(p);
  std::uint64_t v = 0;
  f >> v;
  return v;
}

std::string join(const std::vector<unsigned>& v) {
  std::string s;
  for (const unsigned x : v) s += (s.empty() ? "" : ",") + std::to_string(x);
  return s;
}
std::string join(const std::vector<std::string>& v) {
  std::string s;
  for (const std::string& x : v) s += (s.empty() ? "" : " ") + x;
  return s;
}

bool contains(const std::vector<unsigned>& v, unsigned x) {
  return std::find(v.begin(), v.end(), x) != v.end();
}

Status check_lcores(const EalConfig& c, const HostFacts& host) {
  std::set<unsigned> lcores = {c.main_lcore};
  for (const LcorePin& w : c.workers) {
    if (w.lcore >= RTE_MAX_LCORE || c.main_lcore >= RTE_MAX_LCORE)
      return Status::error(Errc::kInvalid,
                           fmt::format("lcore {} is out of range: use 0 to {}",
                                       std::max(w.lcore, c.main_lcore), RTE_MAX_LCORE - 1));
    if (!lcores.insert(w.lcore).second)
      return Status::error(Errc::kInvalid,
                           fmt::format("lcore {} is named twice, or is the main lcore", w.lcore));
    if (!contains(host.allowed_cpus, w.cpu))
      return Status::error(
          Errc::kInvalid,
          fmt::format("lcore {} wants CPU {}, but this process may use CPUs {} only "
                      "(see taskset, cpuset)",
                      w.lcore, w.cpu, join(host.allowed_cpus)));
  }
  return {};
}

// Options that this file decides; two opinions would end in EAL's own, less clear, errors.
Status check_extra(const EalConfig& c) {
  static constexpr const char* kOurs[] = {"-l",
                                          "-c",
                                          "-m",
                                          "--lcores",
                                          "--main-lcore",
                                          "--in-memory",
                                          "--no-huge",
                                          "--no-shconf",
                                          "--file-prefix",
                                          "--no-pci",
                                          "-a",
                                          "--allow",
                                          "--iova-mode",
                                          "--proc-type",
                                          "--legacy-mem",
                                          "--socket-mem",
                                          "--no-telemetry"};
  for (const std::string& e : c.extra)
    for (const char* o : kOurs)
      if (e == o || e.starts_with(std::string(o) + "="))
        return Status::error(
            Errc::kInvalid,
            fmt::format("EAL option {} is decided by the configuration: use its own "
                        "key instead of the extra arguments",
                        e));
  return {};
}

Status choose_memory(const EalConfig& c, const HostFacts& host, MemoryMode& mode) {
  const std::uint64_t wanted = c.memory_mb * kMiB;
  if (c.memory_mb == 0)
    return Status::error(Errc::kInvalid, "memory: 0 MB is not enough, use 256 or more");
  mode = c.memory;
  if (mode == MemoryMode::kAuto)
    mode = host.free_hugepage_bytes >= wanted ? MemoryMode::kInMemory : MemoryMode::kNoHuge;
  if (mode == MemoryMode::kNoHuge) return {};
  if (host.free_hugepage_bytes < wanted) {
    const std::uint64_t page = host.hugepage_bytes != 0 ? host.hugepage_bytes : 2 * kMiB;
    return Status::error(
        Errc::kNoMemory,
        fmt::format("hugepages: {} MB wanted, {} MB free (pages of {} KiB): run "
                    "`sysctl vm.nr_hugepages={}` or set the memory mode to no_huge",
                    c.memory_mb, host.free_hugepage_bytes / kMiB, page / 1024,
                    (wanted + page - 1) / page));
  }
  if (mode != MemoryMode::kFilePrefix) return {};
  if (c.file_prefix.empty() || c.file_prefix.find('/') != std::string::npos)
    return Status::error(Errc::kInvalid, "memory mode file_prefix needs a file prefix without '/'");
  if (!host.hugetlbfs_mounted)
    return Status::error(Errc::kNoMemory,
                         "memory mode file_prefix needs hugetlbfs: run `mkdir -p /dev/hugepages && "
                         "mount -t hugetlbfs nodev /dev/hugepages`, or use in_memory");
  return {};
}

std::string lcore_map(const EalConfig& c, const HostFacts& host) {
  std::string s = fmt::format("{}@({})", c.main_lcore, join(housekeeping_cpus(c, host)));
  for (const LcorePin& w : c.workers) s += fmt::format(",{}@{}", w.lcore, w.cpu);
  return s;
}

// The last line of EAL's log that reads like a reason.
std::string reason_of(const std::string& log) {
  std::string best;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    const std::string line = log.substr(at, end - at);
    if (line.find("Cannot") != std::string::npos || line.find("rror") != std::string::npos ||
        line.find("nvalid") != std::string::npos || line.find("ailed") != std::string::npos ||
        line.find("not ") != std::string::npos)
      best = line;
    at = end + 1;
  }
  return best;
}

}  // namespace

HostFacts read_host_facts() {
  HostFacts h;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (unsigned i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) h.allowed_cpus.push_back(i);
  std::error_code ec;
  for (const auto& d : std::filesystem::directory_iterator("/sys/kernel/mm/hugepages", ec)) {
    const std::string name = d.path().filename();  // hugepages-2048kB
    const std::uint64_t size =
        std::strtoull(name.c_str() + std::min<std::size_t>(10, name.size()), nullptr, 10) * 1024;
    const std::uint64_t free = read_number(d.path() / "free_hugepages") * size;
    h.free_hugepage_bytes += free;
    if (free != 0) h.hugepage_bytes = std::max(h.hugepage_bytes, size);
  }
  std::ifstream mounts("/proc/mounts");
  for (std::string line; std::getline(mounts, line);)
    h.hugetlbfs_mounted = h.hugetlbfs_mounted || line.find(" hugetlbfs ") != std::string::npos;
  return h;
}

std::vector<unsigned> housekeeping_cpus(const EalConfig& c, const HostFacts& host) {
  std::vector<unsigned> rest;
  for (const unsigned cpu : host.allowed_cpus)
    if (std::none_of(c.workers.begin(), c.workers.end(),
                     [cpu](const LcorePin& w) { return w.cpu == cpu; }))
      rest.push_back(cpu);
  return rest.empty() ? host.allowed_cpus : rest;
}

bool run_on_cpus(const std::vector<unsigned>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const unsigned c : cpus)
    if (c < CPU_SETSIZE) CPU_SET(c, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

Status build_eal_arguments(const EalConfig& c, const HostFacts& host,
                           std::vector<std::string>& out) {
  if (Status s = check_lcores(c, host); !s.ok()) return s;
  if (Status s = check_extra(c); !s.ok()) return s;
  MemoryMode mode{};
  if (Status s = choose_memory(c, host, mode); !s.ok()) return s;
  out = {c.program,
         "--lcores",
         lcore_map(c, host),
         "--main-lcore",
         std::to_string(c.main_lcore),
         "-m",
         std::to_string(c.memory_mb)};
  switch (mode) {
    case MemoryMode::kInMemory:
      out.emplace_back("--in-memory");
      break;
    case MemoryMode::kFilePrefix:
      out.push_back("--file-prefix=" + c.file_prefix);
      break;
    // Not with --in-memory: no-huge implies legacy memory, which EAL refuses there.
    default:
      out.insert(out.end(), {"--no-huge", "--no-shconf"});
      break;
  }
  if (c.iova_va) out.emplace_back("--iova-mode=va");
  if (!c.telemetry) out.emplace_back("--no-telemetry");
  if (c.pci_allow.empty()) out.emplace_back("--no-pci");
  for (const std::string& a : c.pci_allow) out.insert(out.end(), {"-a", a});
  for (const std::string& v : c.vdevs) out.push_back("--vdev=" + v);
  out.insert(out.end(), c.extra.begin(), c.extra.end());
  return {};
}

Status init_eal(const EalConfig& config, EalInfo* info) {
  static bool started = false;
  if (started)
    return Status::error(Errc::kBusy,
                         "DPDK was started in this process before; it can be only once");
  const HostFacts host = read_host_facts();
  std::vector<std::string> args;
  if (Status s = build_eal_arguments(config, host, args); !s.ok()) return s;
  std::vector<char*> argv;
  for (std::string& a : args) argv.push_back(a.data());
  argv.push_back(nullptr);

  // EAL explains itself on its log only: keep it to name the reason in one line.
  char* text = nullptr;
  std::size_t length = 0;
  std::FILE* log = open_memstream(&text, &length);
  if (log != nullptr) rte_openlog_stream(log);
  started = true;
  const int r = rte_eal_init(static_cast<int>(argv.size() - 1), argv.data());
  const int error = rte_errno;
  rte_openlog_stream(stderr);
  std::string said;
  if (log != nullptr) {
    std::fclose(log);
    said.assign(text, length);
    std::free(text);
  }
  run_on_cpus(host.allowed_cpus);
  if (r < 0) {
    const std::string why = reason_of(said);
    return Status::error(
        error == EACCES || error == EPERM ? Errc::kPermission : Errc::kFailed,
        fmt::format("DPDK did not start ({}): {}; arguments: {}", rte_strerror(error),
                    why.empty() ? "no reason given" : why, join(args)));
  }
  rte_log_set_global_level(config.log_level);
  if (info != nullptr) {
    info->memory = config.memory;
    if (info->memory == MemoryMode::kAuto)
      info->memory = std::find(args.begin(), args.end(), "--in-memory") != args.end()
                         ? MemoryMode::kInMemory
                         : MemoryMode::kNoHuge;
    info->arguments = args;
    info->housekeeping_cpus = housekeeping_cpus(config, host);
  }
  return {};
}

}  // namespace metaroce
