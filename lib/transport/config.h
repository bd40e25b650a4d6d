// Parameters of the transport. Defaults are those of doc/spec, chapter 11; lib/config maps YAML
// onto this struct and documents ranges. Read-only after start.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace metaroce {

struct TransportConfig {
  // Paths and packets.
  std::uint32_t paths_per_plane = 32;
  std::uint32_t packets_per_path = 2;  // of window, for each path that carries data; 0 = all do
  std::uint32_t payload_mtu = 4096;    // bytes of payload per DATA packet
  std::uint16_t base_udp_port = 47910;
  std::uint16_t source_port_min = 49152, source_port_max = 65535;
  bool crc = false;  // negotiate the CRC32C trailer
  std::uint8_t data_dscp = 0, control_dscp = 46;
  // Streams.
  std::uint32_t spn_window = 2048;  // packets; power of two, 64 .. 65536
  std::uint32_t max_connections = 4096;
  std::uint32_t max_streams = 32768;  // per worker group
  std::uint32_t max_streams_per_connection = 4096;
  std::uint32_t max_half_open = 1024;
  std::uint32_t max_clients = 256;
  std::uint32_t max_cqs = 16384;            // ids are [0, max_cqs)
  std::uint32_t max_regions = 65536;        // key index is [0, max_regions); at most 2^20
  std::uint32_t ordered_hold_packets = 64;  // ORD packets held per connection
  // Loss recovery.
  Nanos probe_timeout_floor = 200 * kMicrosecond;
  Nanos probe_timeout_max = 64 * kMillisecond;
  Nanos max_ack_delay = 300;
  std::uint32_t ack_every_packets = 8;
  std::uint32_t retry_limit = 16;  // gap-declared losses of one packet
  Nanos dead_peer_timeout = 4 * kSecond;
  std::uint32_t rnr_retry = 7;  // 7 = for ever, as verbs
  // Congestion control.
  Mbps line_rate = 100000;
  Bytes initial_window = 0;  // 0: 0.8 x handshake RTT x line rate
  Bytes min_window = 2 * 4096;
  Bytes max_window = 64 << 20;  // per connection
  Nanos idle_restart = kMillisecond;
  std::uint32_t pacing_burst_packets = 16;
  bool rate_hints = true;  // receivers give them, senders follow them
  Nanos hint_interval = 10 * kMicrosecond;
  std::uint32_t hint_capacity_permille = 990;  // of the line rate, shared out
  Nanos hint_window_slack = 2 * kMicrosecond;  // in flight: hint x (RTT + this)
  Nanos delay_guard = 200 * kMicrosecond;  // queue without marks at which windows shrink; 0: off
  // Control.
  Nanos ctrl_retry_first = 10 * kMillisecond;
  std::uint32_t ctrl_retries = 8;
  Nanos half_open_lifetime = kSecond;
  Nanos stream_linger = kSecond;
  Nanos keepalive = 2 * kSecond;  // idle connection is probed; 0 = off
};

}  // namespace metaroce
