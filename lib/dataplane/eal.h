// Starting DPDK's environment: which memory, which CPUs, which devices.
//
// Memory: `kAuto` takes hugepages without files (--in-memory) when enough are free, else normal
// pages (--no-huge --no-shconf: slower where many pools are touched, needs nothing). Neither
// leaves a file behind, so a killed process needs no cleaning. `kFilePrefix` is for tools that
// attach as secondary processes, and wants a mounted hugetlbfs.
// CPUs: polling lcores are pinned one to a CPU. The main lcore and EAL's own threads get the CPUs
// that remain (all allowed ones if none remains). rte_eal_init() narrows the affinity of the
// thread that calls it, which every thread created later would inherit: init_eal() restores it.
// Once per process, from one thread; EAL cannot be started twice.
#pragma once

#include <string>
#include <vector>

#include "dataplane/status.h"

namespace metaroce {

enum class MemoryMode : std::uint8_t { kAuto, kInMemory, kNoHuge, kFilePrefix };

struct LcorePin {
  unsigned lcore = 0;
  unsigned cpu = 0;
};

struct EalConfig {
  std::string program = "metaroce";
  MemoryMode memory = MemoryMode::kAuto;
  std::string file_prefix;  // kFilePrefix
  unsigned memory_mb = 512;
  unsigned main_lcore = 0;             // does not poll; its CPUs follow from `workers`
  std::vector<LcorePin> workers;       // polling lcores
  std::vector<std::string> pci_allow;  // empty: the PCI bus is not touched
  std::vector<std::string> vdevs;      // ports come from open_port(); this is for tools
  std::vector<std::string> extra;      // appended as they are; what we decide is refused
  bool iova_va = true;
  bool telemetry = false;
  unsigned log_level = 5;  // RTE_LOG_WARNING; only after a successful start
};

// What the arguments depend on; read from the machine, or made up by a test.
struct HostFacts {
  std::vector<unsigned> allowed_cpus;  // of this thread, ascending
  std::uint64_t free_hugepage_bytes = 0;
  std::uint64_t hugepage_bytes = 0;  // largest size with free pages, 0 if none
  bool hugetlbfs_mounted = false;
};
HostFacts read_host_facts();

// The argument vector for rte_eal_init(), or why there is none. Pure.
Status build_eal_arguments(const EalConfig& config, const HostFacts& host,
                           std::vector<std::string>& out);

struct EalInfo {
  MemoryMode memory = MemoryMode::kAuto;  // what kAuto became
  std::vector<std::string> arguments;
  std::vector<unsigned> housekeeping_cpus;  // for control threads: allowed and not polled
};
// Nothing undoes it but the end of the process: rte_eal_cleanup() takes the memory away in which
// EAL's interrupt thread, which it does not stop, looks up its descriptors (seen with 22.11: a
// crash after a memif server had been closed).
Status init_eal(const EalConfig& config, EalInfo* info = nullptr);

// CPUs that remain for threads which do not poll.
std::vector<unsigned> housekeeping_cpus(const EalConfig& config, const HostFacts& host);
// Affinity of the calling thread; false when the kernel refuses.
bool run_on_cpus(const std::vector<unsigned>& cpus);

}  // namespace metaroce
