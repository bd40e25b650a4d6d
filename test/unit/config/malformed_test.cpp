// Files that must be refused, each with the line, the key and the words that help.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config_text.h"

namespace metaroce::config {
namespace {

struct Case {
  const char* name;
  std::string text;
  int line;
  const char* path;
  const char* phrase;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

std::string before_hosts(const std::string& text) { return text + std::string(kGoodHosts); }
std::string port(const std::string& keys) { return "hosts:\n  - ports:\n      - {" + keys + "}\n"; }
std::string two_ports(const std::string& a, const std::string& b) {
  return "hosts:\n  - ports:\n      - {" + a + "}\n      - {" + b + "}\n";
}
std::string null_port(const std::string& keys) { return port("kind: null, " + keys); }
std::string transport(const std::string& line) {
  return before_hosts("transport:\n  " + line + "\n");
}
const char* const kAddress = "address: 10.0.0.1/24";
std::string with_address(const std::string& keys) { return port(keys + ", " + kAddress); }

std::string nested(int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += "[";
  return "eal: " + text + "\n";
}

const std::vector<Case>& file_cases() {
  static const std::vector<Case> cases = {
      {"empty_file", "", 1, "YAML", "empty file"},
      {"only_comment", "# nothing\n", 1, "YAML", "empty file"},
      {"only_null", "~\n", 1, "file", "a single value where keys belong"},
      {"scalar_file", "hello\n", 1, "file", "accepted: eal, control, hosts"},
      {"list_file", "- hosts\n", 1, "file", "a list where keys belong"},
      {"no_hosts", "eal: {memory: auto}\n", 1, "file", "no hosts"},
      {"second_document", before_hosts("") + "---\neal: {}\n", 4, "YAML", "second document"},
      {"latin1", "# caf\xe9\n", 1, "YAML", "not UTF-8"},
      {"utf16", std::string("h\0o\0", 4), 1, "YAML", "control character 0x00"},
      {"overlong_utf8", "a: 1\nb: \xc0\xaf\n", 2, "YAML", "not UTF-8"},
      {"surrogate", "a: \xed\xa0\x80\n", 1, "YAML", "not UTF-8"},
      {"escape_character", "eal:\n  memory: \x1b[31m\n", 2, "YAML", "control character 0x1b"},
      {"lone_cr", "eal:\r  memory: auto\n", 1, "YAML", "carriage return"},
      {"tab_indent", "eal:\n\tmemory: auto\n", 2, "YAML", "a tab in the indentation"},
      {"unclosed_list", "eal:\n  extra_args: [a, b\n", 3, "YAML", "end of sequence"},
      {"anchor", before_hosts("eal: &x {memory: auto}\n"), 1, "YAML", "an anchor"},
      {"alias", "a: &x 1\nb: *x\n", 1, "YAML", "an anchor"},
      {"billion_laughs", "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", 1, "YAML", "an anchor"},
      {"merge_key", before_hosts("eal:\n  <<: {memory: auto}\n"), 2, "eal.<<", "unknown key"},
      {"tag", before_hosts("eal:\n  memory: !!str auto\n"), 2, "YAML", "a tag"},
      {"deep", nested(100), 1, "YAML", "levels deep"},
      {"very_deep", nested(100000), 1, "YAML", ""},
      {"huge", std::string(300 * 1024, '#'), 1, "YAML", "larger than 256 KiB"},
      {"complex_key", "? [a, b]\n: 1\n", 1, "YAML", "not a word"},
  };
  return cases;
}

const std::vector<Case>& key_cases() {
  static const std::vector<Case> cases = {
      {"unknown_top", before_hosts("ea1: {}\n"), 1, "ea1", "nearest known key \"eal\""},
      {"unknown_nested", transport("payload-mtu: 1024"), 2, "transport.payload-mtu",
       "nearest known key \"payload_mtu\""},
      {"wrong_case", transport("CRC: true"), 2, "transport.CRC", "nearest known key \"crc\""},
      {"trailing_space", transport("\"crc \": true"), 2, "transport.crc ",
       "nearest known key \"crc\""},
      {"wrong_level", before_hosts("payload_mtu: 1024\n"), 1, "payload_mtu",
       "belongs to transport.payload_mtu"},
      {"wrong_level_list", before_hosts("ports: []\n"), 1, "ports", "belongs to hosts[].ports"},
      {"far_unknown", before_hosts("zzzzzzzz: 1\n"), 1, "zzzzzzzz", "accepted: eal, control"},
      {"key_with_newline", before_hosts("\"a\\nb\": 1\n"), 1, "a b", "unknown key"},
      {"null_key", before_hosts("null: 1\n"), 1, "null", "unknown key"},
      {"duplicate_top", before_hosts("eal: {}\nlimits: {}\neal: {}\n"), 3, "eal",
       "first in line 1"},
      {"duplicate_nested", transport("crc: true\n  crc: false"), 3, "transport.crc",
       "first in line 2"},
      {"duplicate_flow", null_port("plane: 1, plane: 2, address: 10.0.0.1/24"), 3,
       "hosts[0].ports[0].plane", "first in line 3"},
      {"duplicate_ports", "hosts:\n  - ports: []\n    ports: []\n", 3, "hosts[0].ports",
       "first in line 2"},
      {"duplicate_unknown", before_hosts("x: 1\nx: 2\n"), 2, "x", "twice"},
      {"section_without_value", before_hosts("eal:\n"), 1, "eal", "has no value"},
      {"key_without_value", transport("crc:"), 2, "transport.crc", "has no value"},
      {"list_for_scalar", transport("crc: [true]"), 2, "transport.crc",
       "a list where one boolean belongs"},
      {"map_for_scalar", transport("crc: {a: b}"), 2, "transport.crc",
       "a mapping where one boolean belongs"},
      {"scalar_for_section", before_hosts("eal: auto\n"), 1, "eal",
       "a single value where keys belong"},
      {"map_for_list", "hosts:\n  name: a\n", 2, "hosts", "a mapping where a list belongs"},
      {"scalar_for_list", before_hosts("eal: {extra_args: --x}\n"), 1, "eal.extra_args",
       "accepted: a list"},
      {"nested_list", before_hosts("eal:\n  extra_args: [[a]]\n"), 2, "eal.extra_args[0]",
       "a list where one"},
      {"empty_list_item", "hosts:\n  - ports:\n      -\n", 3, "hosts[0].ports[0]",
       "nothing where keys belong"},
      {"no_items", "hosts: []\n", 1, "hosts", "0 items; accepted: 1 to 64"},
      {"no_ports", "hosts:\n  - name: a\n", 2, "hosts[0]", "no ports"},
      {"no_kind", port(kAddress), 3, "hosts[0].ports[0]", "no kind; accepted: pci, tap"},
      {"no_address", port("kind: null"), 3, "hosts[0].ports[0]", "no address"},
      {"no_device", with_address("kind: pci"), 3, "hosts[0].ports[0]", "no device"},
      {"no_role", with_address("kind: memif"), 3, "hosts[0].ports[0]",
       "no role; accepted: server, client"},
      {"key_of_other_kind", with_address("kind: tap, interface: a, role: server"), 3,
       "hosts[0].ports[0].role", "not a key of kind tap; accepted: with kind memif"},
      {"near_choice", with_address("kind: memfi"), 3, "hosts[0].ports[0].kind",
       "nearest is \"memif\""},
  };
  return cases;
}

const std::vector<Case>& scalar_cases() {
  static const std::vector<Case> cases = {
      {"octal", transport("base_udp_port: 047910"), 2, "transport.base_udp_port", "leading zero"},
      {"octal_invalid", transport("data_dscp: 08"), 2, "transport.data_dscp", "leading zero"},
      {"octal_prefix", transport("data_dscp: 0o32"), 2, "transport.data_dscp",
       "not a plain decimal number"},
      {"hex", transport("data_dscp: 0x10"), 2, "transport.data_dscp", "not a plain decimal number"},
      {"underscore", transport("base_udp_port: 47_910"), 2, "transport.base_udp_port",
       "not a plain decimal number"},
      {"exponent", transport("base_udp_port: 1e4"), 2, "transport.base_udp_port",
       "not a plain decimal number"},
      {"fraction", transport("data_dscp: 1.0"), 2, "transport.data_dscp",
       "not a plain decimal number"},
      {"plus", transport("data_dscp: +5"), 2, "transport.data_dscp", "not a plain decimal number"},
      {"minus", transport("data_dscp: -1"), 2, "transport.data_dscp", "accepted: 0 to 63"},
      {"sexagesimal", transport("base_udp_port: 12:30"), 2, "transport.base_udp_port",
       "not a plain decimal number"},
      {"quoted_number", transport("data_dscp: \"5\""), 2, "transport.data_dscp", "quoted string"},
      {"null_number", transport("data_dscp: null"), 2, "transport.data_dscp",
       "null is not a plain"},
      {"too_great", transport("data_dscp: 64"), 2, "transport.data_dscp",
       "64 is out of range; accepted: 0 to 63"},
      {"overflow", transport("data_dscp: 18446744073709551616"), 2, "transport.data_dscp",
       "out of range"},
      {"yes", transport("crc: yes"), 2, "transport.crc", "accepted: true or false"},
      {"on", transport("crc: on"), 2, "transport.crc", "not a boolean"},
      {"capital_true", transport("crc: True"), 2, "transport.crc", "not a boolean"},
      {"quoted_false", transport("crc: \"false\""), 2, "transport.crc", "quoted string"},
      {"zero_boolean", transport("crc: 0"), 2, "transport.crc", "not a boolean"},
      {"no_unit", transport("keepalive: 10"), 2, "transport.keepalive", "has no unit"},
      {"space_unit", transport("keepalive: 10 s"), 2, "transport.keepalive",
       "right after an integer"},
      {"unknown_unit", transport("keepalive: 10sec"), 2, "transport.keepalive",
       "units ns, us, ms, s"},
      {"decimal_size", transport("max_window: 64MB"), 2, "transport.max_window",
       "units B, KiB, MiB, GiB"},
      {"fraction_unit", transport("line_rate: 2.5Gb/s"), 2, "transport.line_rate", "units Mb/s"},
      {"unit_overflow", transport("max_window: 18446744073709551615GiB"), 2, "transport.max_window",
       "out of range"},
      {"not_power_of_two", transport("spn_window: 1000"), 2, "transport.spn_window",
       "not a power of two"},
      {"not_mebibytes", before_hosts("eal:\n  memory_size: 100000000\n"), 2, "eal.memory_size",
       "whole number of MiB"},
      {"mode_decimal", before_hosts("control:\n  mode: 660\n"), 2, "control.mode",
       "four octal digits"},
      {"mode_digit", before_hosts("control:\n  mode: \"0680\"\n"), 2, "control.mode",
       "not a file mode"},
      {"mode_locked", before_hosts("control:\n  mode: \"0060\"\n"), 2, "control.mode",
       "locks the daemon out"},
      {"relative_socket", before_hosts("control:\n  socket: run/x\n"), 2, "control.socket",
       "not an absolute path"},
      {"long_socket", before_hosts("control:\n  socket: /" + std::string(107, 'a') + "\n"), 2,
       "control.socket", "108 bytes, more than 107"},
      {"multi_line_string", before_hosts("control:\n  socket: |\n    /a\n    b\n"), 2,
       "control.socket", "line break"},
      {"bad_name", "hosts:\n  - name: a b\n    ports: []\n", 2, "hosts[0].name",
       "a name may not have"},
      {"empty_name", "hosts:\n  - name: \"\"\n    ports: []\n", 2, "hosts[0].name", "is empty"},
      {"long_interface", with_address("kind: tap, interface: abcdefghijklmnop"), 3,
       "hosts[0].ports[0].interface", "16 bytes, more than 15"},
      {"vdev_injection", with_address("kind: memif, role: client, socket: \"a,id=3\""), 3,
       "hosts[0].ports[0].socket", "separator of DPDK device arguments"},
      {"bad_pci", with_address("kind: pci, device: \"0000:03:20.0\""), 3,
       "hosts[0].ports[0].device", "not a PCI address"},
  };
  return cases;
}

const std::vector<Case>& address_cases() {
  static const char* const at = "hosts[0].ports[0].address";
  static const char* const mac = "hosts[0].ports[0].mac";
  static const std::vector<Case> cases = {
      {"octet_256", null_port("address: 10.0.0.256/24"), 3, at, "not an IP address"},
      {"octet_octal", null_port("address: 010.0.0.1/24"), 3, at, "not an IP address"},
      {"prefix_33", null_port("address: 10.0.0.1/33"), 3, at, "bad prefix length"},
      {"prefix_0", null_port("address: 10.0.0.1/0"), 3, at, "bad prefix length"},
      {"prefix_024", null_port("address: 10.0.0.1/024"), 3, at, "bad prefix length"},
      {"no_prefix", null_port("address: 10.0.0.1"), 3, at, "has no prefix length"},
      {"netmask", null_port("address: 10.0.0.1/255.255.225.0"), 3, at, "has a netmask"},
      {"network", null_port("address: 10.0.0.0/24"), 3, at, "the network itself"},
      {"broadcast", null_port("address: 10.0.0.255/24"), 3, at, "broadcast address"},
      {"unspecified", null_port("address: 0.0.0.0/24"), 3, at, "0.0.0.0/8"},
      {"loopback", null_port("address: 127.0.0.1/8"), 3, at, "loopback"},
      {"multicast", null_port("address: 224.0.0.1/24"), 3, at, "multicast"},
      {"all_ones", null_port("address: 255.255.255.255/32"), 3, at, "reserved or broadcast"},
      {"v6_unspecified", null_port("address: \"::/64\""), 3, at, "unspecified"},
      {"v6_multicast", null_port("address: \"ff02::1/64\""), 3, at, "multicast"},
      {"v6_link_local", null_port("address: \"fe80::1/64\""), 3, at, "link-local"},
      {"v6_zone", null_port("address: \"fe80::1%tap0/64\""), 3, at, "has a zone"},
      {"v6_mapped", null_port("address: \"::ffff:10.0.0.1/96\""), 3, at,
       "IPv4 address written as IPv6"},
      {"v6_brackets", null_port("address: \"[fd00::1]:4791\""), 3, at, "has brackets or a port"},
      {"v4_port", null_port("address: 10.0.0.1:70000"), 3, at, "has a port"},
      {"host_name", null_port("address: localhost"), 3, at, "not an IP address"},
      {"mac_zero", null_port("address: 10.0.0.1/24, mac: \"00:00:00:00:00:00\""), 3, mac,
       "the zero address"},
      {"mac_multicast", null_port("address: 10.0.0.1/24, mac: \"01:00:5e:00:00:01\""), 3, mac,
       "multicast address"},
      {"mac_broadcast", null_port("address: 10.0.0.1/24, mac: \"ff:ff:ff:ff:ff:ff\""), 3, mac,
       "broadcast"},
      {"mac_short", null_port("address: 10.0.0.1/24, mac: \"02:00:00:00:00\""), 3, mac,
       "not a MAC address"},
      {"mac_sexagesimal", null_port("address: 10.0.0.1/24, mac: 02-00-00-00-00-01"), 3, mac,
       "not a MAC address"},
      {"gateway_prefix", null_port("address: 10.0.0.1/24, gateway: 10.0.0.254/24"), 3,
       "hosts[0].ports[0].gateway", "has a prefix length"},
      {"gateway_elsewhere", null_port("address: 10.0.0.1/24, gateway: 10.0.1.254"), 3,
       "hosts[0].ports[0].gateway", "not another host in the network of 10.0.0.1/24"},
      {"gateway_own", null_port("address: 10.0.0.1/24, gateway: 10.0.0.1"), 3,
       "hosts[0].ports[0].gateway", "not another host"},
  };
  return cases;
}

const std::vector<Case>& cross_cases() {
  static const std::string hosts =
      "hosts:\n  - ports:\n      - {kind: null, address: 10.0.0.1/24}\n";
  static const std::vector<Case> cases = {
      {"same_address",
       two_ports("kind: null, address: 10.0.0.1/24", "kind: null, plane: 1, address: 10.0.0.1/24"),
       4, "hosts[0].ports[1].address", "in use by hosts[0].ports[0].address in line 3"},
      {"same_plane",
       two_ports("kind: null, address: 10.0.0.1/24", "kind: null, plane: 0, address: 10.0.1.1/24"),
       4, "hosts[0].ports[1].plane", "plane 0 is also that of hosts[0].ports[0]"},
      {"plane_left_out",
       two_ports("kind: null, address: 10.0.0.1/24", "kind: null, address: 10.0.1.1/24"), 4,
       "hosts[0].ports[1].plane", "planes that differ"},
      {"mixed_families",
       two_ports("kind: null, address: 10.0.0.1/24",
                 "kind: null, plane: 1, address: \"fd00::1/64\""),
       4, "hosts[0].ports[1].address", "different families"},
      {"same_pci",
       two_ports("kind: pci, device: \"03:00.0\", address: 10.0.0.1/24",
                 "kind: pci, device: \"0000:03:00.0\", plane: 1, address: 10.0.1.1/24"),
       4, "hosts[0].ports[1].device", "PCI device 0000:03:00.0 is in use"},
      {"same_interface",
       two_ports("kind: af_packet, interface: v0, address: 10.0.0.1/24",
                 "kind: af_packet, interface: v0, plane: 1, address: 10.0.1.1/24"),
       4, "hosts[0].ports[1].interface", "interface v0 is in use"},
      {"same_memif",
       two_ports("kind: memif, role: client, address: 10.0.0.1/24",
                 "kind: memif, role: client, plane: 1, address: 10.0.1.1/24"),
       4, "hosts[0].ports[1].id", "memif socket metaroce id 0 as client is in use"},
      {"same_mac",
       two_ports("kind: null, mac: \"02:00:00:00:00:01\", address: 10.0.0.1/24",
                 "kind: null, mac: \"02:00:00:00:00:01\", plane: 1, address: 10.0.1.1/24"),
       4, "hosts[0].ports[1].mac", "is in use"},
      {"three_on_a_ring",
       "hosts:\n  - ports: [{kind: ring, pair: a, address: 10.0.0.1/24}]\n    name: a\n  - ports: "
       "[{kind: ring, pair: a, address: 10.0.0.2/24}]\n    name: b\n  - ports: [{kind: ring, pair: "
       "a, address: 10.0.0.3/24}]\n    name: c\n",
       6, "hosts[2].ports[0].pair", "accepted: two users"},
      {"same_host_name",
       "hosts:\n  - name: a\n    ports: [{kind: null, address: 10.0.0.1/24}]\n  - name: a\n    "
       "ports: [{kind: null, address: 10.0.0.2/24}]\n",
       4, "hosts[1].name", "another host is called \"a\""},
      {"cpu_not_allowed", hosts + "    groups:\n      - {rx: 1, tx: 8}\n", 5,
       "hosts[0].groups[0].tx", "CPU 8 is not one on which this process may run; accepted: 0-7"},
      {"cpu_range", hosts + "    groups:\n      - {rx: 0-3}\n", 5, "hosts[0].groups[0].rx",
       "not a plain decimal number"},
      {"cpu_mask", hosts + "    groups:\n      - {rx: 0x3}\n", 5, "hosts[0].groups[0].rx",
       "not a plain decimal number"},
      {"control_cpu", before_hosts("eal:\n  control_cpus: [128]\n"), 2, "eal.control_cpus[0]",
       "accepted: 0-7"},
      {"control_cpu_twice", before_hosts("eal:\n  control_cpus: [0, 0]\n"), 2,
       "eal.control_cpus[1]", "listed twice"},
      {"cpus_and_inline", "eal: {progress: inline}\n" + hosts + "    groups:\n      - {rx: 1}\n", 6,
       "hosts[0].groups[0].rx", "eal.progress is inline"},
      {"idle_conflict",
       "hosts:\n  - name: a\n    ports: [{kind: null, address: 10.0.0.1/24}]\n    groups: [{rx: 1, "
       "idle: poll}]\n  - name: b\n    ports: [{kind: null, address: 10.0.0.2/24}]\n    groups: "
       "[{rx: 1, idle: sleep}]\n",
       7, "hosts[1].groups[0].idle", "another idle policy"},
      {"two_groups", hosts + "    groups: [{rx: 1}, {rx: 2}]\n", 4, "hosts[0].groups",
       "2 items; accepted: exactly 1 item"},
      {"secondary", before_hosts("eal:\n  extra_args: [\"--proc-type=secondary\"]\n"), 2,
       "eal.extra_args[0]", "always a primary process"},
      {"secondary_prefix", before_hosts("eal:\n  extra_args: [\"--proc-t\", secondary]\n"), 2,
       "eal.extra_args[0]", "always a primary process"},
      {"extra_vdev", before_hosts("eal:\n  extra_args: [--log-level=8, --vdev=net_null0]\n"), 2,
       "eal.extra_args[1]", "list ports below hosts"},
      {"extra_lcores", before_hosts("eal:\n  extra_args: [-l0-1]\n"), 2, "eal.extra_args[0]",
       "set CPUs in hosts[].groups"},
      {"tap_payload_default", with_address("kind: tap, interface: t0"), 3, "hosts[0].ports[0].kind",
       "transport.payload_mtu up to 1408"},
      {"tap_payload", "transport: {payload_mtu: 1409}\n" + with_address("kind: tap, interface: t0"),
       1, "transport.payload_mtu", "up to 1408"},
      {"tap_payload_v6",
       "transport: {payload_mtu: 1400}\n" +
           port("kind: tap, interface: t0, address: \"fd00::1/64\""),
       1, "transport.payload_mtu", "up to 1396"},
      {"tap_mtu", with_address("kind: tap, interface: t0, mtu: 9000"), 3, "hosts[0].ports[0].mtu",
       "more than a port of kind tap carries"},
      {"mtu_too_small", with_address("kind: null, mtu: 1500"), 3, "hosts[0].ports[0].mtu",
       "or mtu from 4180"},
      {"neighbour_twice",
       hosts + "    neighbours:\n      - {ip: 10.0.0.2, mac: \"02:00:00:00:00:02\"}\n      - {ip: "
               "10.0.0.2, mac: \"02:00:00:00:00:03\"}\n",
       6, "hosts[0].neighbours[1].ip", "already in line 5"},
      {"neighbour_own",
       hosts + "    neighbours:\n      - {ip: 10.0.0.1, mac: \"02:00:00:00:00:02\"}\n", 5,
       "hosts[0].neighbours[0].ip", "the host's own address"},
      {"neighbour_elsewhere",
       hosts + "    neighbours:\n      - {ip: 10.0.9.1, mac: \"02:00:00:00:00:02\"}\n", 5,
       "hosts[0].neighbours[0].ip", "accepted: an address on one of 10.0.0.1/24"},
      {"source_ports", transport("source_port_min: 60000\n  source_port_max: 50000"), 2,
       "transport.source_port_min", "(60000) is more than transport.source_port_max (50000)"},
      {"few_source_ports", transport("source_port_min: 60000\n  source_port_max: 60001"), 3,
       "transport.source_port_max", "2 source ports for 32 paths"},
      {"rocev2_port", transport("base_udp_port: 4791"), 2, "transport.base_udp_port", "port 4791"},
      {"too_many_paths",
       "transport: {paths_per_plane: 200}\n" +
           two_ports("kind: null, address: 10.0.0.1/24",
                     "kind: null, plane: 1, address: 10.0.1.1/24"),
       1, "transport.paths_per_plane", "at most 256 in all, 128 per plane"},
      {"probe_timeouts", transport("probe_timeout_max: 100us"), 2, "transport.probe_timeout_max",
       "(200us) is more than transport.probe_timeout_max (100us)"},
      {"windows", transport("min_window: 1GiB"), 2, "transport.min_window",
       "(1GiB) is more than transport.max_window (64MiB)"},
      {"payload_over_window", transport("min_window: 1KiB"), 2, "transport.min_window",
       "transport.payload_mtu (4KiB)"},
      {"clients", transport("max_clients: 10"), 2, "transport.max_clients",
       "less than control.max_clients (64)"},
      {"cqs", transport("max_cqs: 1000"), 2, "transport.max_cqs", "less than limits.cqs (1024)"},
      {"regions", transport("max_regions: 2047"), 2, "transport.max_regions",
       "accepted: at least 2048"},
      {"streams", transport("max_streams: 100"), 2, "transport.max_streams",
       "accepted: max_streams_per_connection <= max_streams"},
  };
  return cases;
}

class Malformed : public testing::TestWithParam<Case> {};

TEST_P(Malformed, is_refused_at_its_line_and_key) {
  const Case& c = GetParam();
  const auto result = load_text("f.yaml", c.text, test_options());
  ASSERT_FALSE(result.ok());
  const std::string& message = result.error();
  expect_one_line(message);
  const std::string start = "f.yaml:" + std::to_string(c.line) + ": " + c.path + ": ";
  EXPECT_TRUE(message.starts_with(start)) << message << "\nwanted " << start;
  EXPECT_NE(message.find(c.phrase), std::string::npos) << message << "\nwanted " << c.phrase;
}

constexpr auto kName = [](const testing::TestParamInfo<Case>& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(File, Malformed, testing::ValuesIn(file_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Key, Malformed, testing::ValuesIn(key_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Scalar, Malformed, testing::ValuesIn(scalar_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Address, Malformed, testing::ValuesIn(address_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Cross, Malformed, testing::ValuesIn(cross_cases()), kName);

}  // namespace
}  // namespace metaroce::config
