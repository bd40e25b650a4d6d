// The emulated fabric in the configuration: its keys, its time line and the ports' places in it.
#include "config_text.h"

namespace metaroce::config {
namespace {

constexpr std::string_view kTwoHosts =
    "hosts:\n"
    "  - {name: a, ports: [{kind: fabric, address: 10.0.0.1/24}]}\n"
    "  - {name: b, ports: [{kind: fabric, address: 10.0.0.2/24}]}\n";

Result<DaemonConfig> load_fabric(const std::string& keys, std::string_view hosts = kTwoHosts) {
  return load_text("f.yaml", "fabric: {" + keys + "}\n" + std::string(hosts), test_options());
}

TEST(FabricConfig, what_the_file_leaves_out) {
  const auto r = load_fabric("");
  ASSERT_TRUE(r.ok()) << r.error();
  const DaemonConfig& c = r.value();
  EXPECT_EQ(c.hosts[0].ports[0].host, 0U);
  EXPECT_EQ(c.hosts[1].ports[0].host, 1U);
  EXPECT_EQ(c.fabric.lcore, 2U);  // behind the two groups
  EXPECT_EQ(c.fabric.socket, c.control.socket + ".fabric");
}

TEST(FabricConfig, keys_of_scenarios_stand_in_the_section) {
  const auto r = load_fabric(
      "topology: leaf_spine, planes: 2, host_rate: 10Gb/s, ecn: threshold, loss: 0.1%, seed: 7, "
      "port_packets: 200, lcore: 5, faults: [{kind: down, plane: 1, at: 2s}, "
      "{kind: rate, target: leaf0-spine1, rate: 1Gb/s}]");
  ASSERT_TRUE(r.ok()) << r.error();
  const FabricSection& f = r.value().fabric;
  EXPECT_EQ(f.model.planes, 2);
  EXPECT_EQ(f.model.host_rate_mbps, 10'000U);
  EXPECT_EQ(f.lcore, 5U);
  fabric::FabricConfig model;
  std::string key;
  ASSERT_EQ(fabric_model(f, model, key), "");
  ASSERT_EQ(model.faults.size(), 4U);  // loss, a plane, a cable in two planes
  EXPECT_EQ(model.faults[0].probability, 1'000'000U);
  EXPECT_EQ(model.faults[1].at_ns, 2 * kSecond);
  EXPECT_EQ(model.faults[1].target.scope, fabric::Scope::kPlane);
  EXPECT_EQ(model.faults[3].target.scope, fabric::Scope::kCable);
  // What is printed loads to the same.
  const std::string text = print_config(r.value());
  const auto again = load_text("f.yaml", text, test_options());
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_EQ(print_config(again.value()), text);
}

TEST(FabricConfig, mistakes_are_named_where_they_stand) {
  const auto refused = [](const std::string& keys, const char* path, const char* says,
                          std::string_view hosts = kTwoHosts) {
    const auto r = load_fabric(keys, hosts);
    ASSERT_FALSE(r.ok()) << keys;
    expect_one_line(r.error());
    EXPECT_NE(r.error().find(std::string(": ") + path + ": "), std::string::npos) << r.error();
    EXPECT_NE(r.error().find(says), std::string::npos) << r.error();
  };
  refused("lcore: 99", "fabric.lcore", "CPU 99");
  refused("ecn_min: 2MiB", "fabric", "ecn_max_bytes");
  refused("topology: fat_tree, fat_tree_k: 3", "fabric", "odd");
  refused("planes: 2, plane_rates: [1Gb/s]", "fabric", "plane_rate");
  refused("faults: [{kind: down, target: leaf9}]", "fabric.faults[0].target", "not in this fabric");
  refused("faults: [{kind: loss, probability: 1}]", "fabric.faults[0].probability", "percentage");
  refused("loss: 101%", "fabric.loss", "out of range");
  refused("", "hosts[0].ports[0].plane", "plane 1 of a fabric with 1",
          "hosts: [{ports: [{kind: fabric, plane: 1, address: 10.0.0.1/24}]}]\n");
  refused("", "hosts[0].ports[0].host", "host 2 of a fabric with 2",
          "hosts: [{ports: [{kind: fabric, host: 2, address: 10.0.0.1/24}]}]\n");
  refused("", "hosts[1].ports[0].host", "host 0 of the fabric in plane 0",
          "hosts: [{name: a, ports: [{kind: fabric, address: 10.0.0.1/24}]},"
          " {name: b, ports: [{kind: fabric, host: 0, address: 10.0.0.2/24}]}]\n");
  refused("", "hosts[0].ports[0].host", "kind",
          "hosts: [{ports: [{kind: 'null', host: 0, address: 10.0.0.1/24}]}]\n");
}

}  // namespace
}  // namespace metaroce::config
