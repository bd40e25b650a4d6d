// Statistics, asked for page by page, and what an application does about them: moving a path.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "api/address_text.h"
#include "api/client/context.h"
#include "api/client/errors.h"

using namespace metaroce;

namespace {

int ask(metaroce_stream* s, std::uint32_t first_path, Incoming& in) {
  abi::Request r = s->context->request(abi::RequestKind::kStats);
  r.id = s->handle;
  r.first_path = first_path;
  if (const int e = s->context->call(r, kAnswerLimit, in); e != 0) return e;
  if (in.has_stats && in.stats.entries <= abi::kPathsPerStats) return 0;
  return fail(EPROTO, "the daemon's statistics make no sense: install both from one release");
}

metaroce_path_stats to_path(const abi::PathEntry& e) {
  metaroce_path_stats p{};
  p.path = e.path;
  p.plane = e.plane;
  p.active = e.active;
  p.state = e.state;
  p.fault = e.fault;
  p.udp_source_port = e.source_port;
  p.srtt_ns = e.srtt_ns;
  p.tx_packets = e.tx_packets;
  p.tx_bytes = e.tx_bytes;
  p.rtx_packets = e.rtx_packets;
  p.lost_packets = e.lost_packets;
  p.spurious_packets = e.spurious_packets;
  p.rx_packets = e.rx_packets;
  p.rx_bytes = e.rx_bytes;
  p.rx_out_of_order = e.rx_out_of_order;
  p.rx_late = e.rx_late;
  p.rx_ce = e.rx_ce;
  p.window_bytes = e.window;
  return p;
}

}  // namespace

int metaroce_get_conn_stats(metaroce_stream* s, metaroce_conn_stats* out) {
  if (out == nullptr) return fail(EINVAL, "metaroce_get_conn_stats: out is NULL");
  Incoming in;
  if (const int e = ask(s, 0, in); e != 0) return e;
  *out = {};
  IpAddress peer;
  peer.b = in.head.peer;
  peer.v6 = in.head.peer_v6 != 0;
  const std::string text = format_address(peer);
  std::memcpy(out->peer, text.data(), std::min(text.size(), sizeof out->peer - 1));
  out->streams = in.stats.streams;
  out->paths = in.stats.paths;
  out->acked_bytes = in.stats.acked_bytes;
  out->tx_packets = in.stats.tx_packets;
  out->rtx_packets = in.stats.rtx_packets;
  out->lost_packets = in.stats.lost_packets;
  out->spurious_packets = in.stats.spurious_packets;
  out->rx_packets = in.stats.rx_packets;
  out->rx_bytes = in.stats.rx_bytes;
  out->rx_out_of_order = in.stats.rx_out_of_order;
  out->rx_duplicates = in.stats.rx_duplicates;
  out->rx_drops = in.stats.rx_drops;
  return 0;
}

int metaroce_get_path_stats(metaroce_stream* s, metaroce_path_stats* out, int n) {
  if (n < 0 || (out == nullptr && n != 0))
    return fail(EINVAL, "metaroce_get_path_stats: bad array");
  Incoming in;
  int filled = 0;
  do {
    if (const int e = ask(s, static_cast<std::uint32_t>(filled), in); e != 0) return e;
    const int more = std::min(static_cast<int>(in.stats.entries), n - filled);
    for (int i = 0; i < more; ++i)
      out[filled + i] = to_path(in.stats.path[static_cast<std::size_t>(i)]);
    filled += more;
  } while (filled < n && in.stats.entries != 0);
  return static_cast<int>(in.stats.paths);
}

int metaroce_move_path(metaroce_stream* s, std::uint8_t path, std::uint16_t udp_source_port) {
  abi::Request r = s->context->request(abi::RequestKind::kMovePath);
  r.id = s->handle;
  r.first_path = path;
  r.service = udp_source_port;
  Incoming in;
  return s->context->call(r, kAnswerLimit, in);
}
