// Everything that a person configures, as one typed struct. table.cpp maps YAML onto it; the
// defaults are the member initialisers below and exist nowhere else. Read-only after loading.
//
// "set by the loader" marks optionals that hold a value in every configuration that load_file()
// or load_text() returns: the file may leave them out, the dataplane never sees them empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "config/fault_spec.h"
#include "transport/address.h"
#include "transport/config.h"

namespace metaroce::config {

enum class EalMemory : std::uint8_t {
  kAuto,      // in_memory when the kernel has free huge pages for memory_size, else no_huge
  kInMemory,  // huge pages, no file system
  kNoHuge,    // ordinary pages
  kFile,      // huge pages in a mounted hugetlbfs: other DPDK processes may attach
};
enum class Progress : std::uint8_t { kLcore, kInline };

struct EalConfig {
  EalMemory memory = EalMemory::kAuto;
  Bytes memory_size = 512 << 20;  // whole MiB
  std::string file_prefix = "metaroce";
  Progress progress = Progress::kLcore;
  std::vector<std::uint32_t> control_cpus;  // empty: those without a worker
  std::vector<std::string> extra_args;
};

struct ControlConfig {
  std::string socket = "/run/metaroce/metaroced.sock";
  std::uint32_t mode = 0660;
  std::string group;  // empty: the daemon's own
  std::uint32_t max_clients = 64;
};

enum class PortKind : std::uint8_t { kPci, kTap, kNull, kRing, kMemif, kAfPacket, kAfXdp, kFabric };
enum class MemifRole : std::uint8_t { kServer, kClient };

struct IpPrefix {
  IpAddress ip;
  std::uint8_t length = 0;
  bool operator==(const IpPrefix&) const = default;
};

// One port is one plane of its host.
struct PortConfig {
  PortKind kind = PortKind::kNull;
  std::uint8_t plane = 0;
  IpPrefix address{IpAddress::v4(10, 0, 0, 1), 24};
  std::optional<IpAddress> gateway;
  std::optional<std::uint32_t> mtu;  // bytes of an IP packet, for checks only; set by the loader
  std::optional<MacAddress> mac;     // unset: the port's own
  Mbps line_rate = 0;                // 0: what the port reports, else transport.line_rate
  std::string device;                // pci: full lower-case address, 0000:03:00.0
  std::string interface;             // tap, af_packet, af_xdp
  std::string pair;                  // ring
  MemifRole role = MemifRole::kServer;
  std::uint32_t id = 0;
  std::string socket = "metaroce";  // memif: absolute path, else an abstract name
  std::uint32_t ring_size = 512;
  std::optional<std::uint32_t> host;  // fabric: the host's number in it; set by the loader
};

enum class IdlePolicy : std::uint8_t { kPoll, kYield, kSleep };

struct GroupConfig {
  // CPUs of the roles; equal ones are one lcore. Set by the loader, except in inline progress.
  std::optional<std::uint32_t> rx, tx, timer;
  IdlePolicy idle = IdlePolicy::kYield;
};

struct NeighbourConfig {
  IpAddress ip = IpAddress::v4(10, 0, 0, 2);
  MacAddress mac{{0x02, 0, 0, 0, 0, 0x02}};
};

struct HostConfig {
  std::string name = "host0";
  std::vector<PortConfig> ports{1};
  std::vector<GroupConfig> groups{1};  // exactly one so far
  std::vector<NeighbourConfig> neighbours;
};

struct LimitsConfig {  // of one client
  Bytes memory = Bytes{4} << 30;
  std::uint32_t streams = 4096;
  std::uint32_t cqs = 1024;
  std::uint32_t regions = 1024;
};

struct FlipByte {
  std::uint64_t packet = 1;  // ordinal of a host's transmitted DATA packet, from 1
  std::uint32_t offset = 0;  // byte of its UDP payload
};
struct FaultsConfig {
  std::uint32_t loss_ppm = 0, duplicate_ppm = 0;
  std::vector<FlipByte> corrupt;
  std::uint64_t seed = 1;
  [[nodiscard]] bool any() const { return loss_ppm != 0 || duplicate_ppm != 0 || !corrupt.empty(); }
};

// The emulated fabric that joins ports of kind fabric.
struct FabricSection {
  fabric::FabricConfig model;  // its time line stays empty: see `loss` and `faults`
  std::uint32_t loss = 0;      // in 10^-9
  std::vector<FaultSpec> faults;
  std::uint64_t seed = 1;
  std::optional<std::uint32_t> lcore;  // CPU; set by the loader, except in inline progress
  std::uint32_t port_packets = 1024;
  std::optional<std::string> socket;  // set by the loader
};
// The model with its time line. What is wrong with it, at which key below `fabric`, or "".
std::string fabric_model(const FabricSection& section, fabric::FabricConfig& out, std::string& key);

struct DaemonConfig {
  EalConfig eal;
  ControlConfig control;
  std::vector<HostConfig> hosts{1};
  TransportConfig transport;
  LimitsConfig limits;
  FaultsConfig faults;
  FabricSection fabric;
  std::vector<std::string> warnings;  // complete lines for the log: legal, perhaps not meant
};

}  // namespace metaroce::config
