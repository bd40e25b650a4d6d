#include "scenario/load.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "config/failure.h"
#include "config/fault_spec.h"
#include "config/probability_codec.h"
#include "fabric/topology.h"

namespace metaroce::scenario {
namespace {

namespace fs = std::filesystem;
using config::FaultSpec;
using config::ProbabilityCodec;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "metaroce-scenario-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

Loaded good(const std::string& text, const std::vector<std::string>& set = {}) {
  auto r = load_text("s.yaml", text, ".", set);
  if (!r) {
    ADD_FAILURE() << r.error();
    return {};
  }
  return std::move(r.value());
}
std::string bad(const std::string& text, const std::vector<std::string>& set = {}) {
  const auto r = load_text("s.yaml", text, ".", set);
  EXPECT_FALSE(r.ok());
  return r.ok() ? "" : r.error();
}

TEST(Load, what_is_not_said_is_a_default) {
  const Loaded l = good("seed: 1\n");
  const sim::Scenario& s = l.scenario;
  EXPECT_EQ(s.name, "unnamed");
  EXPECT_EQ(l.workload.flows.size(), 2U);
  EXPECT_EQ(transport_hash(s.transport), transport_hash(TransportConfig{}));
}

TEST(Load, presets_are_refined_by_the_keys_after_them) {
  const Loaded l = good(
      "fabric: {queue: 1MiB, preset: ls64, planes: 2}\nworkload: {kind: incast, senders: 63}\n");
  const sim::Scenario& s = l.scenario;
  EXPECT_EQ(s.fabric.leaves, 8);
  EXPECT_EQ(s.fabric.planes, 2);
  EXPECT_EQ(s.fabric.queue_bytes, 1U << 20);  // the table's order counts, not the file's
  EXPECT_EQ(l.workload.flows.size(), 63U);
}

TEST(Load, overrides_come_last_and_in_order) {
  const Loaded l =
      good("seed: 3\ntransport: {paths_per_plane: 8}\n",
           {"seed=4", "transport.paths_per_plane=16", "seed=5", "loss=0.5%",
            "faults=[{kind: down, target: host0, at: 5us}, {kind: up, target: host0, at: 9us}]"});
  const sim::Scenario& s = l.scenario;
  EXPECT_EQ(s.seed, 5U);
  EXPECT_EQ(s.transport.paths_per_plane, 16U);
  ASSERT_EQ(s.fabric.faults.size(), 3U);
  EXPECT_EQ(s.fabric.faults[0].probability, 5'000'000U);
  EXPECT_EQ(s.fabric.faults[2].at_ns, 9000 + s.host.warm_idle);
  EXPECT_EQ(s.fabric.faults[2].kind, fabric::FaultKind::kUp);
}

TEST(Load, an_include_is_read_first_and_relative_to_its_file) {
  const Folder folder;
  folder.write("transport.yaml", "transport: {paths_per_plane: 8, keepalive: 1s}\n");
  const auto file = folder.write("a.yaml", "include: transport.yaml\ntransport: {keepalive: 3s}\n");
  const auto r = load_file(file);
  ASSERT_TRUE(r.ok()) << r.error();
  EXPECT_EQ(r.value().scenario.transport.paths_per_plane, 8U);
  EXPECT_EQ(r.value().scenario.transport.keepalive, 3 * kSecond);
}

TEST(Load, errors_name_the_file_and_line_that_holds_the_key) {
  const Folder folder;
  const auto inner = folder.write("transport.yaml", "# first\ntransport:\n  crc: 7\n");
  const auto outer = folder.write("a.yaml", "include: transport.yaml\n");
  auto r = load_file(outer);
  ASSERT_FALSE(r.ok());
  EXPECT_TRUE(r.error().starts_with(inner + ":3: transport.crc: ")) << r.error();

  folder.write("transport.yaml", "transport:\n\n  paths_per_plane: 200\n");
  const auto planes = folder.write("b.yaml", "include: transport.yaml\nfabric: {planes: 2}\n");
  r = load_file(planes);
  ASSERT_FALSE(r.ok());
  EXPECT_TRUE(r.error().starts_with(inner + ":3: transport.paths_per_plane: ")) << r.error();

  folder.write("loop.yaml", "include: loop.yaml\n");
  EXPECT_NE(load_file(folder.path() + "/loop.yaml").error().find("files deep"), std::string::npos);
  EXPECT_FALSE(load_file(folder.path()).ok());
  EXPECT_FALSE(load_file(folder.path() + "/none.yaml").ok());
}

TEST(Load, messages_say_what_is_accepted) {
  EXPECT_EQ(bad("fabric:\n  plains: 3\n").substr(0, 36), "s.yaml:2: fabric.plains: unknown key");
  EXPECT_NE(bad("fabric:\n  plains: 3\n").find("nearest known key \"planes\""), std::string::npos);
  EXPECT_NE(bad("loss: 101%\n").find("accepted: 0% to 100%"), std::string::npos);
  EXPECT_NE(bad("workload: {kind: incest}\n").find("permutation, incast, "), std::string::npos);
  EXPECT_NE(bad("workload: {kind: incast, slices: 3}\n").find("not a key of kind incast"),
            std::string::npos);
  EXPECT_TRUE(
      bad("\nworkload:\n  kind: incast\n  senders: 9\n").starts_with("s.yaml:2: workload: "));
  EXPECT_TRUE(bad("\nfaults:\n  - kind: down\n    target: leaf0\n")
                  .starts_with("s.yaml:4: faults[0].target: leaf0 is not in this fabric"));
  EXPECT_TRUE(bad("seed: 1\n", {"seed=x"}).starts_with("--set seed=x: seed: "));
  EXPECT_TRUE(bad("seed: 1\n", {"seed"}).starts_with("--set seed: override: "));
  EXPECT_TRUE(bad("seed: 1\n", {"fabric.planes=0"}).starts_with("--set fabric.planes=0: "));
  EXPECT_TRUE(bad("seed: 1\n", {"transport.=3"}).starts_with("--set "));
  EXPECT_TRUE(bad("seed: 1\n", {"seed="}).starts_with("--set seed=: seed: has no value"));
  EXPECT_TRUE(bad("seed: 1\n", {"seed=[1"}).starts_with("--set "));
  EXPECT_TRUE(bad("host: {ring_size: 3}\n").starts_with("s.yaml:1: host.ring_size: "));
}

TEST(Load, data_files_are_found_beside_the_scenario) {
  const Folder folder;
  folder.write("flows.csv", "1,0,1,100,0,\n");
  const auto file = folder.write("a.yaml", "workload: {kind: flows, file: flows.csv}\n");
  auto r = load_file(file);
  ASSERT_TRUE(r.ok()) << r.error();
  EXPECT_EQ(r.value().workload.flows.size(), 1U);
  folder.write("flows.csv", "1,0,1,100\n");
  r = load_file(file);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().find("flows.csv: line 1 "), std::string::npos) << r.error();
}

TEST(Load, slower_ports_become_faults) {
  const Loaded l = good("fabric: {hosts: 4}\nhost: {line_rates: [400Gb/s, 100Gb/s]}\n");
  const sim::Scenario& s = l.scenario;
  ASSERT_EQ(s.fabric.faults.size(), 4U);
  EXPECT_EQ(s.fabric.faults[3].rate_mbps, 100000U);
  EXPECT_EQ(s.fabric.faults[3].target.id, 3U);
  EXPECT_EQ(sim::port_rate(s, 2, 0), 400000U);
}

TEST(Faults, targets_by_name) {
  fabric::FabricConfig c = fabric::ls64();
  c.planes = 2;
  const auto shape = fabric::make_shape(c);
  const auto of = [&](const char* target, fabric::FaultKind kind = fabric::FaultKind::kDown) {
    FaultSpec s;
    s.kind = kind;
    s.target = target;
    std::vector<fabric::Fault> out;
    EXPECT_EQ(add_faults(s, c, out), "") << target;
    return out;
  };
  EXPECT_EQ(of("all")[0].target.scope, fabric::Scope::kAll);
  EXPECT_EQ(of("host5")[0].target.scope, fabric::Scope::kHost);
  EXPECT_EQ(of("host5")[0].target.id, 5U);
  EXPECT_EQ(of("spine0")[0].target.scope, fabric::Scope::kSwitch);
  const auto links = of("leaf0->spine3");
  ASSERT_EQ(links.size(), 2U);  // one per plane
  EXPECT_EQ(links[0].target.scope, fabric::Scope::kLink);
  EXPECT_EQ(links[1].target.id, links[0].target.id + shape.links.size());
  EXPECT_EQ(fabric::node_name(shape, shape.links[links[0].target.id].from), "leaf0");
  EXPECT_EQ(fabric::node_name(shape, shape.links[links[0].target.id].to), "spine3");
  EXPECT_EQ(of("spine3-leaf0")[0].target.scope, fabric::Scope::kCable);
  const auto pair = of("host0->host9", fabric::FaultKind::kBlackhole);
  EXPECT_EQ(pair[0].target.dst, 9);
  EXPECT_EQ(pair[0].probability, fabric::kCertain);
  for (const char* wrong :
       {"", "host64", "leaf0->leaf1", "host0->host9", "leaf0->", "-", "all->all"}) {
    FaultSpec s;
    s.kind = fabric::FaultKind::kDown;
    s.target = wrong;
    std::vector<fabric::Fault> out;
    EXPECT_NE(add_faults(s, c, out), "") << wrong;
  }
}

TEST(Probability, both_ways) {
  const ProbabilityCodec p;
  for (const char* text : {"0%", "1%", "12.5%", "100%", "0.0000001%", "0.01%"})
    EXPECT_EQ(p.print(p.read({text, false})), text);
  EXPECT_EQ(p.read({"0.1%", false}), 1'000'000U);
  for (const char* text : {"1", "%", "-1%", "1.%", "100.1%", "0.00000001%", "1e1%", " 1%"})
    EXPECT_THROW(static_cast<void>(p.read({text, false})), config::ValueError) << text;
  EXPECT_THROW(static_cast<void>(p.read({"1%", true})), config::ValueError);
}

TEST(TransportHash, changes_with_any_key) {
  TransportConfig t;
  const auto plain = transport_hash(t);
  t.ack_every_packets = 9;
  EXPECT_NE(transport_hash(t), plain);
  EXPECT_EQ(transport_differences(t), std::vector<std::string>{"ack_every_packets: 9"});
}

// Every scenario that we ship loads, with the one transport block unless it says why not.
TEST(Shipped, scenarios_load_and_run_one_transport_block) {
  const fs::path folder = METAROCE_SCENARIO_DIR;
  const auto common = load_file((folder / "transport.yaml").string());
  ASSERT_TRUE(common.ok()) << common.error();
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (entry.path().extension() != ".yaml" || name == "targets.yaml" || name == "transport.yaml")
      continue;
    ++files;
    const auto r = load_file(entry.path().string());
    ASSERT_TRUE(r.ok()) << r.error();
    EXPECT_EQ(r.value().scenario.name + ".yaml", name);
    EXPECT_NE(r.value().scenario.description, "") << name;
    const bool own = name.starts_with("wan-");
    EXPECT_EQ(transport_hash(r.value().scenario.transport) ==
                  transport_hash(common.value().scenario.transport),
              !own)
        << name;
  }
  EXPECT_GT(files, 20);
}

}  // namespace
}  // namespace metaroce::scenario
