// What the dataplane counted for the connection during a run, as differences: connections are
// shared by all streams between two hosts and outlive a run.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "metaroce/metaroce.h"

namespace metaroce::perf {

struct PathCounts {
  unsigned path = 0, plane = 0;
  bool active = false;
  std::uint16_t source_port = 0;
  std::uint32_t srtt_ns = 0;
  std::uint64_t tx_packets = 0, tx_bytes = 0, retransmitted = 0, lost = 0, spurious = 0;
  std::uint64_t rx_packets = 0, rx_bytes = 0, out_of_order = 0;
  void add(const PathCounts& other);
};

class Statistics {
 public:
  void begin(metaroce_stream* stream) { peer_ = snapshot(stream, before_); }
  // Adds what happened since begin().
  void end(metaroce_stream* stream);

  const std::string& peer() const { return peer_; }
  const std::vector<PathCounts>& paths() const { return paths_; }  // that carried anything
  std::vector<PathCounts> planes() const;
  PathCounts total() const;

 private:
  static constexpr std::size_t kMaxPaths = 256;
  static std::string snapshot(metaroce_stream* stream, std::vector<metaroce_path_stats>& out);

  std::string peer_;
  std::vector<metaroce_path_stats> before_;
  std::vector<PathCounts> paths_;
};

}  // namespace metaroce::perf
