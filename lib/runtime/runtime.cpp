#include "runtime/runtime.h"

#include <numa.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pause.h>

#include "drivers/registry.h"

namespace metaroce {
namespace {

MemoryMode memory_mode(config::EalMemory m) {
  switch (m) {
    case config::EalMemory::kAuto:
      return MemoryMode::kAuto;
    case config::EalMemory::kInMemory:
      return MemoryMode::kInMemory;
    case config::EalMemory::kNoHuge:
      return MemoryMode::kNoHuge;
    case config::EalMemory::kFile:
      return MemoryMode::kFilePrefix;
  }
  return MemoryMode::kAuto;
}

const char* name_of(MemoryMode m) {
  switch (m) {
    case MemoryMode::kInMemory:
      return "huge pages, no files";
    case MemoryMode::kNoHuge:
      return "ordinary pages (no huge pages free)";
    case MemoryMode::kFilePrefix:
      return "huge pages in hugetlbfs";
    case MemoryMode::kAuto:
      break;
  }
  return "auto";
}

// The configuration's port as the driver wants it.
PortConfig port_config(const config::DaemonConfig& all, const config::HostConfig& host,
                       const config::PortConfig& p, std::size_t index) {
  PortConfig r;
  r.name = fmt::format("{}p{}", host.name.substr(0, 8), index);
  for (char& ch : r.name)
    if ((ch < 'a' || ch > 'z') && (ch < '0' || ch > '9')) ch = '_';
  switch (p.kind) {
    case config::PortKind::kPci:
      r.kind = PortKind::kPci;
      r.device = p.device;
      break;
    case config::PortKind::kTap:
      r.kind = PortKind::kTap;
      r.device = p.interface;
      break;
    case config::PortKind::kNull:
      r.kind = PortKind::kNull;
      break;
    case config::PortKind::kRing:
      r.kind = PortKind::kRing;
      r.device = p.pair;
      break;
    case config::PortKind::kMemif:
      r.kind = PortKind::kMemif;
      r.device = p.socket;
      r.memif_server = p.role == config::MemifRole::kServer;
      r.memif_id = p.id;
      r.rx_descriptors = r.tx_descriptors = static_cast<std::uint16_t>(p.ring_size);
      break;
    case config::PortKind::kAfPacket:
      r.kind = PortKind::kAfPacket;
      r.device = p.interface;
      break;
    case config::PortKind::kAfXdp:
      r.kind = PortKind::kAfXdp;
      r.device = p.interface;
      break;
    case config::PortKind::kFabric:
      r.kind = PortKind::kFabric;
      r.fabric_host = static_cast<std::uint16_t>(*p.host);
      r.fabric_plane = p.plane;
      r.rx_descriptors = r.tx_descriptors = static_cast<std::uint16_t>(p.ring_size);
      break;
  }
  r.payload_mtu = all.transport.payload_mtu;
  r.ipv4 = !p.address.ip.v6;
  if (p.mac) r.mac = *p.mac;
  return r;
}

bool has_fabric(const config::DaemonConfig& config) {
  for (const config::HostConfig& h : config.hosts)
    for (const config::PortConfig& p : h.ports)
      if (p.kind == config::PortKind::kFabric) return true;
  return false;
}

// Speed of a port for pacing; 0: let the port or the transport say.
Mbps line_rate(const config::DaemonConfig& config, const config::PortConfig& p) {
  if (p.line_rate != 0 || p.kind != config::PortKind::kFabric) return p.line_rate;
  const fabric::FabricConfig& f = config.fabric.model;
  return f.plane_rate_mbps.empty() ? f.host_rate_mbps : f.plane_rate_mbps[p.plane];
}

FaultPlan fault_plan(const config::FaultsConfig& f, std::size_t host) {
  FaultPlan p;
  p.loss_ppm = f.loss_ppm;
  p.duplicate_ppm = f.duplicate_ppm;
  for (const auto& c : f.corrupt) p.flips.push_back({c.packet, c.offset});
  p.seed = f.seed + host;
  return p;
}

}  // namespace

std::unique_ptr<Runtime> Runtime::create(const config::DaemonConfig& config,
                                         const std::string& program, std::string& error) {
  std::unique_ptr<Runtime> r(new Runtime);
  r->inline_ = config.eal.progress == config::Progress::kInline;
  if (!r->start_eal(config, program, error)) return nullptr;
  r->clock_ = std::make_unique<Clock>();
  if (has_fabric(config) && !r->make_fabric(config, error)) return nullptr;
  for (const config::HostConfig& h : config.hosts)
    if (!r->open_host(config, h, error)) return nullptr;
  std::vector<PortCapabilities> rows;
  for (const auto& h : r->hosts_)
    for (const PortPlan& p : h->ports()) rows.push_back(p.port->capabilities());
  r->report_.push_back(capability_table(rows));
  for (auto& h : r->hosts_) {
    const Status s = h->start();
    if (!s.ok()) {
      error = s.message;
      return nullptr;
    }
  }
  if (!r->inline_) {
    r->plan_workers(config);
    r->warn_remote_memory();
    if (!r->launch(error)) return nullptr;
  }
  return r;
}

bool Runtime::start_eal(const config::DaemonConfig& config, const std::string& program,
                        std::string& error) {
  EalConfig e;
  e.program = program;
  e.memory = memory_mode(config.eal.memory);
  e.memory_mb = static_cast<unsigned>(config.eal.memory_size >> 20);
  e.file_prefix = config.eal.file_prefix;
  e.extra = config.eal.extra_args;
  unsigned lcore = 1;
  std::map<unsigned, unsigned> lcore_of_cpu;
  const auto use = [&](const std::optional<std::uint32_t>& cpu) {
    if (inline_ || !cpu || lcore_of_cpu.contains(*cpu)) return;
    lcore_of_cpu[*cpu] = lcore;
    e.workers.push_back({lcore++, *cpu});
  };
  for (const config::HostConfig& h : config.hosts) {
    for (const config::PortConfig& p : h.ports)
      if (p.kind == config::PortKind::kPci) e.pci_allow.push_back(p.device);
    for (const config::GroupConfig& g : h.groups)
      for (const auto& cpu : {g.rx, g.tx, g.timer}) use(cpu);
  }
  if (has_fabric(config)) use(config.fabric.lcore);
  EalInfo info;
  const Status s = init_eal(e, &info);
  if (!s.ok()) {
    error = s.message;
    return false;
  }
  housekeeping_ = info.housekeeping_cpus;
  if (!config.eal.control_cpus.empty())
    housekeeping_.assign(config.eal.control_cpus.begin(), config.eal.control_cpus.end());
  report_.push_back(fmt::format("memory: {}", name_of(info.memory)));
  for (const auto& [cpu, id] : lcore_of_cpu) {
    auto w = std::make_unique<Worker>();
    w->runtime = this;
    w->cpu = cpu;
    w->lcore = id;
    workers_.push_back(std::move(w));
  }
  return true;
}

bool Runtime::make_fabric(const config::DaemonConfig& config, std::string& error) {
  EmulatedFabricPlan plan;
  std::string key;
  error = config::fabric_model(config.fabric, plan.model, key);
  if (!error.empty()) return false;
  plan.seed = config.fabric.seed;
  plan.port_packets = config.fabric.port_packets;
  plan.frame_room = frame_bytes(config.transport.payload_mtu);
  plan.control_dscp = config.transport.control_dscp;
  const Status s = EmulatedFabric::create(plan, fabric_);
  if (!s.ok()) {
    error = s.message;
    return false;
  }
  report_.push_back(
      fmt::format("fabric: {} hosts, {} planes", fabric_->state().hosts(), plan.model.planes));
  // An embedded dataplane has no control socket to be found by; the fabric is no less useful.
  std::string why;
  fabric_admin_ = FabricAdmin::open(*fabric_, *config.fabric.socket, why);
  report_.push_back(fabric_admin_ != nullptr
                        ? fmt::format("fabric: changes are taken on {}", *config.fabric.socket)
                        : fmt::format("warning: fabric: cannot be changed live: {}", why));
  return true;
}

bool Runtime::open_host(const config::DaemonConfig& config, const config::HostConfig& host,
                        std::string& error) {
  HostPlan plan;
  plan.name = host.name;
  plan.transport = config.transport;
  plan.faults = fault_plan(config.faults, hosts_.size());
  for (const auto& n : host.neighbours) plan.neighbours.emplace_back(n.ip, n.mac);
  for (std::size_t i = 0; i < host.ports.size(); ++i) {
    const config::PortConfig& p = host.ports[i];
    PortPlan port;
    const Status s = open_port(port_config(config, host, p, i), port.port);
    if (!s.ok()) {
      error = s.message;
      return false;
    }
    port.plane = p.plane;
    port.address = LocalAddress{p.address.ip, p.address.length, p.gateway};
    port.line_rate = line_rate(config, p);
    plan.ports.push_back(std::move(port));
  }
  try {
    hosts_.push_back(std::make_unique<Host>(std::move(plan)));
  } catch (const std::bad_alloc&) {
    error = fmt::format("host {}: not enough DPDK memory for its rings; raise eal.memory_size",
                        host.name);
    return false;
  }
  return true;
}

void Runtime::plan_workers(const config::DaemonConfig& config) {
  for (auto& w : workers_) w->fabric = fabric_ != nullptr && config.fabric.lcore == w->cpu;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    const config::GroupConfig& g = config.hosts[i].groups.front();
    for (auto& w : workers_) {
      const Task t{&hosts_[i]->group(), g.rx == w->cpu, g.tx == w->cpu, g.timer == w->cpu};
      if (!t.rx && !t.tx && !t.timer) continue;
      w->tasks.push_back(t);
      w->idle = g.idle;
    }
  }
}

// An lcore on another NUMA node than its port pays for every packet: said once, at start.
void Runtime::warn_remote_memory() {
  if (numa_available() < 0) return;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    for (const auto& w : workers_) {
      const bool works = std::any_of(w->tasks.begin(), w->tasks.end(),
                                     [&](const Task& t) { return t.group == &hosts_[i]->group(); });
      const int node = numa_node_of_cpu(static_cast<int>(w->cpu));
      for (const PortPlan& p : hosts_[i]->ports()) {
        if (!works || node < 0 || p.port->socket() < 0 || p.port->socket() == node) continue;
        report_.push_back(fmt::format(
            "warning: host {}: CPU {} is on NUMA node {}, port of plane {} on node {}; give the "
            "group a CPU of node {}",
            hosts_[i]->name(), w->cpu, node, p.plane, p.port->socket(), p.port->socket()));
      }
    }
  }
}

bool Runtime::launch(std::string& error) {
  for (auto& w : workers_) {
    w->running.store(true, std::memory_order_release);
    const int rc = rte_eal_remote_launch(&Runtime::worker_main, w.get(), w->lcore);
    if (rc != 0) {
      w->running.store(false, std::memory_order_release);
      error = fmt::format("lcore {} on CPU {} does not start (error {})", w->lcore, w->cpu, rc);
      return false;
    }
    report_.push_back(fmt::format("lcore {} on CPU {}: {} role sets{}", w->lcore, w->cpu,
                                  w->tasks.size(), w->fabric ? ", the fabric" : ""));
  }
  return true;
}

int Runtime::worker_main(void* arg) {
  auto& w = *static_cast<Worker*>(arg);
  w.runtime->work(w);
  w.running.store(false, std::memory_order_release);
  return 0;
}

void Runtime::work(Worker& w) {
  std::uint32_t empty = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    // Sequentially consistent, and looked at again after `paused` was taken back: a worker that was
    // descheduled here may not run into the next pause believed to be paused still.
    if (pause_.load()) [[unlikely]] {
      w.paused.store(true);
      while (pause_.load() && !stop_.load(std::memory_order_relaxed)) sched_yield();
      w.paused.store(false);
      continue;
    }
    const Nanos now = clock_->now();
    std::uint32_t moved = 0;
    for (const Task& t : w.tasks) {
      if (t.rx) moved += t.group->rx_pass(now);
      if (t.timer) t.group->timer_pass(now);
      if (t.tx) moved += t.group->tx_pass(now);
    }
    if (w.fabric) moved += fabric_->pass(clock_->now());
    if (moved != 0) {
      empty = 0;
      continue;
    }
    ++empty;
    switch (w.idle) {
      case config::IdlePolicy::kPoll:
        rte_pause();
        break;
      case config::IdlePolicy::kYield:
        sched_yield();
        break;
      case config::IdlePolicy::kSleep:
        if (empty > 1000)
          usleep(50);
        else
          sched_yield();
        break;
    }
  }
}

int Runtime::inline_pass() {
  const Nanos now = clock_->now();
  std::uint32_t moved = 0;
  for (auto& h : hosts_) {
    moved += h->group().rx_pass(now);
    h->group().timer_pass(now);
    moved += h->group().tx_pass(now);
  }
  if (fabric_ != nullptr) moved += fabric_->pass(now);
  if (now >= control_at_) {
    control_pass(now);
    control_at_ = now + 100 * kMicrosecond;
  }
  return static_cast<int>(moved);
}

void Runtime::control_pass(Nanos now) {
  for (auto& h : hosts_) h->control_pass(now);
  if (fabric_admin_ != nullptr) fabric_admin_->poll();
  if (fabric_ != nullptr && now >= fabric_links_at_) {
    fabric_links_at_ = now + 5 * kMillisecond;
    fabric_->watch_links();
  }
  if (now >= reconnect_at_) reconnect_ports(now);
}

// A port whose peer came or went changes while no lcore touches it. Where that is not possible in
// time, or the port cannot, the next attempt comes in 100 ms.
void Runtime::reconnect_ports(Nanos now) {
  bool needed = false;
  for (auto& h : hosts_) needed |= h->needs_reconnect();
  if (!needed) return;
  pause_.store(true);
  const auto all_paused = [&] {
    return std::all_of(workers_.begin(), workers_.end(), [](const auto& w) {
      return w->paused.load() || !w->running.load(std::memory_order_acquire);
    });
  };
  while (!all_paused() && clock_->now() - now < 50 * kMillisecond) sched_yield();
  bool done = all_paused();
  if (done)
    for (auto& h : hosts_) done &= h->reconnect();
  pause_.store(false);
  if (!done) reconnect_at_ = clock_->now() + 100 * kMillisecond;
}

Runtime::~Runtime() { stop(); }

void Runtime::stop() {
  stop_.store(true, std::memory_order_relaxed);
  for (auto& w : workers_) {
    if (!w->running.load(std::memory_order_acquire)) continue;
    rte_eal_wait_lcore(w->lcore);
    while (w->running.load(std::memory_order_acquire)) sched_yield();
  }
}

}  // namespace metaroce
