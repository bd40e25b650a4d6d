#include "metaroce-perf/statistics.h"

#include <algorithm>
#include <map>

namespace metaroce::perf {
namespace {

// A path that was replaced in between restarts its counters: never a negative difference.
std::uint64_t since(std::uint64_t now, std::uint64_t before) {
  return now >= before ? now - before : now;
}

}  // namespace

void PathCounts::add(const PathCounts& o) {
  active = active || o.active;
  source_port = o.source_port;
  srtt_ns = o.srtt_ns;
  tx_packets += o.tx_packets;
  tx_bytes += o.tx_bytes;
  retransmitted += o.retransmitted;
  lost += o.lost;
  spurious += o.spurious;
  rx_packets += o.rx_packets;
  rx_bytes += o.rx_bytes;
  out_of_order += o.out_of_order;
}

std::string Statistics::snapshot(metaroce_stream* stream, std::vector<metaroce_path_stats>& out) {
  out.assign(kMaxPaths, {});
  const int n = metaroce_get_path_stats(stream, out.data(), static_cast<int>(kMaxPaths));
  out.resize(n < 0 ? 0 : std::min<std::size_t>(kMaxPaths, static_cast<std::size_t>(n)));
  metaroce_conn_stats conn{};
  if (metaroce_get_conn_stats(stream, &conn) < 0) return "";
  conn.peer[sizeof conn.peer - 1] = '\0';
  return conn.peer;
}

void Statistics::end(metaroce_stream* stream) {
  std::vector<metaroce_path_stats> now;
  if (std::string name = snapshot(stream, now); !name.empty()) peer_ = name;
  for (const metaroce_path_stats& p : now) {
    metaroce_path_stats b{};
    for (const metaroce_path_stats& x : before_)
      if (x.path == p.path && x.plane == p.plane) b = x;
    PathCounts c;
    c.path = p.path;
    c.plane = p.plane;
    c.active = p.active != 0;
    c.source_port = p.udp_source_port;
    c.srtt_ns = p.srtt_ns;
    c.tx_packets = since(p.tx_packets, b.tx_packets);
    c.tx_bytes = since(p.tx_bytes, b.tx_bytes);
    c.retransmitted = since(p.rtx_packets, b.rtx_packets);
    c.lost = since(p.lost_packets, b.lost_packets);
    c.spurious = since(p.spurious_packets, b.spurious_packets);
    c.rx_packets = since(p.rx_packets, b.rx_packets);
    c.rx_bytes = since(p.rx_bytes, b.rx_bytes);
    c.out_of_order = since(p.rx_out_of_order, b.rx_out_of_order);
    if (c.tx_packets == 0 && c.rx_packets == 0) continue;
    const auto same = std::find_if(paths_.begin(), paths_.end(), [&c](const PathCounts& x) {
      return x.path == c.path && x.plane == c.plane;
    });
    if (same == paths_.end())
      paths_.push_back(c);
    else
      same->add(c);
  }
}

std::vector<PathCounts> Statistics::planes() const {
  std::map<unsigned, PathCounts> by_plane;
  for (const PathCounts& p : paths_) {
    PathCounts& sum = by_plane[p.plane];
    sum.plane = p.plane;
    ++sum.path;  // here: how many
    sum.add(p);
  }
  std::vector<PathCounts> out;
  for (const auto& [plane, sum] : by_plane) out.push_back(sum);
  return out;
}

PathCounts Statistics::total() const {
  PathCounts sum;
  for (const PathCounts& p : paths_) sum.add(p);
  return sum;
}

}  // namespace metaroce::perf
