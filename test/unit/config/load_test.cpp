#include "config/load.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "config/check.h"
#include "config_text.h"

namespace metaroce::config {
namespace {

std::string resolved_defaults() {
  DaemonConfig config;
  resolve(config, test_options().allowed_cpus);
  return print_config(config);
}

TEST(PrintDefaults, loads_and_equals_the_defaults) {
  const auto result = load_text("f.yaml", print_defaults(), test_options());
  ASSERT_TRUE(result.ok()) << result.error();
  EXPECT_EQ(print_config(result.value()), resolved_defaults());
  EXPECT_TRUE(result.value().warnings.empty());
}

TEST(PrintConfig, loads_to_the_same_configuration) {
  const auto first = load_before_hosts(
      "eal: {memory: file, memory_size: 2GiB, control_cpus: [1, 2],"
      " extra_args: [\"--log-level=a:\\\"b\\\\\", x]}\n"
      "control: {socket: \"/a b/#c: d\", mode: 0600, group: no}\n"
      "transport: {crc: true, keepalive: 1500ms, max_window: 3MiB, line_rate: 2500Mb/s}\n"
      "limits: {memory: 3MiB}\n"
      "faults: {loss_ppm: 5, corrupt: [{packet: 7, offset: 9}]}\n");
  ASSERT_TRUE(first.ok()) << first.error();
  const std::string text = print_config(first.value());
  const auto second = load_text("f.yaml", text, test_options());
  ASSERT_TRUE(second.ok()) << second.error() << "\n" << text;
  EXPECT_EQ(print_config(second.value()), text);
  EXPECT_NE(text, resolved_defaults());
  EXPECT_EQ(second.value().eal.control_cpus, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(second.value().eal.extra_args.at(0), "--log-level=a:\"b\\");
  EXPECT_EQ(second.value().control.socket, "/a b/#c: d");
  EXPECT_EQ(second.value().control.mode, 0600U);
  EXPECT_EQ(second.value().transport.keepalive, 1500 * kMillisecond);
  EXPECT_EQ(second.value().transport.line_rate, 2500U);
}

TEST(DefaultConfigText, needs_no_root_and_loads) {
  const auto result = load_text("built-in", default_config_text(), test_options());
  ASSERT_TRUE(result.ok()) << result.error();
  EXPECT_EQ(result.value().eal.memory, EalMemory::kNoHuge);
  EXPECT_EQ(result.value().hosts.at(0).ports.at(0).kind, PortKind::kRing);
  EXPECT_FALSE(result.value().control.socket.starts_with("/run/metaroce"));
}

TEST(LoadFile, every_example_loads_without_warning) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(METAROCE_CONFIG_DIR)) {
    if (entry.path().extension() != ".yaml") continue;
    const auto result = load_file(entry.path(), test_options());
    ASSERT_TRUE(result.ok()) << result.error();
    EXPECT_TRUE(result.value().warnings.empty()) << result.value().warnings[0];
    ++files;
  }
  EXPECT_GE(files, 7U);
}

TEST(LoadFile, two_hosts_examples_match_plane_by_plane) {
  const std::string dir = METAROCE_CONFIG_DIR;
  const auto a = load_file(dir + "/two_hosts_a.yaml", test_options());
  const auto b = load_file(dir + "/two_hosts_b.yaml", test_options());
  ASSERT_TRUE(a.ok() && b.ok());
  const auto& pa = a.value().hosts[0].ports;
  const auto& pb = b.value().hosts[0].ports;
  ASSERT_EQ(pa.size(), 4U);
  ASSERT_EQ(pb.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(pa[i].plane, pb[i].plane);
    EXPECT_EQ(pa[i].id, pb[i].id);
    EXPECT_EQ(pa[i].socket, pb[i].socket);
    EXPECT_NE(pa[i].role, pb[i].role);
    EXPECT_FALSE(pa[i].address == pb[i].address);
  }
  EXPECT_NE(a.value().control.socket, b.value().control.socket);
  EXPECT_NE(a.value().eal.file_prefix, b.value().eal.file_prefix);
}

TEST(LoadFile, names_what_cannot_be_read) {
  const auto missing = load_file("/nonexistent/m.yaml");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error(),
            "/nonexistent/m.yaml:0: file: cannot be opened: No such file or directory; accepted: a "
            "readable YAML file");
  const auto directory = load_file("/");
  ASSERT_FALSE(directory.ok());
  EXPECT_NE(directory.error().find("not a regular file"), std::string::npos);
  const auto odd = load_file("/nonexistent/a\nb");
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.error().find('\n'), std::string::npos);
}

TEST(LoadFile, does_not_wait_for_the_writer_of_a_pipe) {
  char dir[] = "/tmp/metaroce-config-XXXXXX";
  ASSERT_NE(mkdtemp(dir), nullptr);
  const std::string pipe = std::string(dir) + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(load_file(pipe).ok());
  std::filesystem::remove_all(dir);
}

TEST(LoadFile, uses_the_cpus_of_the_process_unless_told) {
  char dir[] = "/tmp/metaroce-config-XXXXXX";
  ASSERT_NE(mkdtemp(dir), nullptr);
  const std::string file = std::string(dir) + "/f.yaml";
  std::ofstream(file) << kGoodHosts << "    groups: [{rx: 8191}]\n";
  const auto result = load_file(file);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().find(":4: hosts[0].groups[0].rx: CPU 8191 is not one"),
            std::string::npos)
      << result.error();
  std::filesystem::remove_all(dir);
}

TEST(LoadText, strings_stay_strings) {
  for (const char* name : {"no", "NO", "null", "Null", "~x", "1e2", "0x10", "true", "010"}) {
    const std::string text = std::string("hosts:\n  - name: ") + name +
                             "\n    ports:\n      - {kind: null, address: 10.0.0.1/24}\n";
    const auto result = load_text("f.yaml", text, test_options());
    if (std::string_view(name) == "~x") {  // not a character of names, but a string all the same
      ASSERT_FALSE(result.ok());
      EXPECT_NE(result.error().find("\"~x\""), std::string::npos) << result.error();
      continue;
    }
    ASSERT_TRUE(result.ok()) << result.error();
    EXPECT_EQ(result.value().hosts[0].name, name);
    const auto again = load_text("f.yaml", print_config(result.value()), test_options());
    ASSERT_TRUE(again.ok()) << again.error();
    EXPECT_EQ(again.value().hosts[0].name, name);
  }
}

TEST(LoadText, takes_crlf_and_byte_order_mark) {
  const auto result = load_text(
      "f.yaml",
      "\xef\xbb\xbfhosts:\r\n  - ports:\r\n      - {kind: null, address: 10.0.0.1/24}\r\n",
      test_options());
  EXPECT_TRUE(result.ok()) << result.error();
}

// Every byte pattern that a scanner might look back or ahead over for long.
TEST(LoadText, hostile_repetition_ends) {
  for (const char* pattern : {"\t",    " ",           "[",    "{",      "- ",  "? ",  "\n",
                              "# \n",  "a: ",         "a:\n", "-\n",    "'",   "\"",  "\\",
                              "[]",    "{}",          "a ",   ",",      "|\n", "&a ", "%",
                              "---\n", "x: {a: 1}\n", "a\n ", "- - \n", "[a,", "{a,"}) {
    std::string text;
    while (text.size() + 16 < 256 * 1024) text += pattern;
    const auto result = load_text("f.yaml", text, test_options());
    ASSERT_FALSE(result.ok()) << pattern;
    expect_one_line(result.error());
  }
}

TEST(LoadText, fills_in_cpus_and_mtu) {
  const auto result = load_text("f.yaml",
                                "hosts:\n"
                                "  - name: a\n"
                                "    ports: [{kind: memif, role: server, address: 10.0.0.1/24}]\n"
                                "  - name: b\n"
                                "    ports: [{kind: null, address: 10.0.0.2/24}]\n"
                                "    groups: [{rx: 5}]\n"
                                "  - name: c\n"
                                "    ports: [{kind: null, mtu: 9000, address: 10.0.0.3/24}]\n"
                                "    groups: [{rx: 5, tx: 6}]\n"
                                "  - name: d\n"
                                "    ports: [{kind: null, address: 10.0.0.4/24}]\n",
                                {{2, 5, 6}});
  ASSERT_TRUE(result.ok()) << result.error();
  const auto& hosts = result.value().hosts;
  EXPECT_EQ(hosts[0].groups[0].rx, 2U);
  EXPECT_EQ(hosts[0].groups[0].timer, 2U);
  EXPECT_EQ(hosts[1].groups[0].tx, 5U);
  EXPECT_EQ(hosts[2].groups[0].timer, 6U);
  EXPECT_EQ(hosts[3].groups[0].rx, 2U);  // the fourth host on three CPUs
  EXPECT_EQ(hosts[0].ports[0].mtu, 4180U);
  EXPECT_EQ(hosts[2].ports[0].mtu, 9000U);
}

TEST(LoadText, inline_progress_has_no_cpus) {
  const auto result = load_before_hosts("eal: {progress: inline}\n");
  ASSERT_TRUE(result.ok()) << result.error();
  EXPECT_FALSE(result.value().hosts[0].groups[0].rx.has_value());
}

TEST(LoadText, memif_server_and_client_may_share_a_link) {
  const auto result = load_text("f.yaml",
                                "hosts:\n"
                                "  - name: a\n"
                                "    ports: [{kind: memif, role: server, address: 10.0.0.1/24}]\n"
                                "  - name: b\n"
                                "    ports: [{kind: memif, role: client, address: 10.0.0.2/24}]\n",
                                test_options());
  EXPECT_TRUE(result.ok()) << result.error();
}

TEST(LoadText, warns_of_two_planes_in_one_network) {
  const auto result = load_port(
      "      - {kind: null, address: 10.0.0.1/24}\n"
      "      - {kind: null, plane: 1, address: 10.0.0.2/24}\n");
  ASSERT_TRUE(result.ok()) << result.error();
  ASSERT_EQ(result.value().warnings.size(), 1U);
  EXPECT_TRUE(result.value().warnings[0].starts_with(
      "f.yaml:4: hosts[0].ports[1].address: same network as hosts[0].ports[0]"))
      << result.value().warnings[0];
}

}  // namespace
}  // namespace metaroce::config
