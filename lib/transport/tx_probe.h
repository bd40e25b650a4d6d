// TX role: packets without data: FLUSH gives a path's last data packet a successor, PROBE asks
// whether the peer lives or what credit a stream has. [MR-2.4] [MR-3.5] [MR-3.8]
#pragma once

#include "transport/tx_role.h"

namespace metaroce {

// A FLUSH gives the path's last data packet a successor. Twice where packets are lost often: it, or
// its answer, may be lost like any other. Not under a hint: what is lost there waited in the queue
// that these would wait in. [MR-7.6.1] [MR-7.6.4]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::owe_flush(Conn& c, std::uint8_t path) {
  c.paths[path].flushes = worth_questions(c) && c.loss_mean.often() ? 2 : 1;
  c.flush_paths[path / 64] |= std::uint64_t{1} << (path % 64);
}

// On each dirty path. `waits`: nothing else is sent, so that the answer is what timeouts wait for.
// While data goes on, a dead route must not get a new delay with each question.
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::owe_flushes(Conn& c, bool waits) {
  for (unsigned i = 0; i < c.paths.size(); ++i) {
    Path& p = c.paths[i];
    if (!p.dirty || p.data_unresolved == 0) continue;
    owe_flush(c, static_cast<std::uint8_t>(i));
    if (waits) p.last_progress = now_;
  }
}

// False: a port has no room now, the rest is still owed. [MR-7.6.6]
template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::pay_flushes(Conn& c) {
  bool all = true;
  for (unsigned w = 0; w < 4; ++w) {
    for (std::uint64_t v = c.flush_paths[w]; v != 0; v &= v - 1) {
      const unsigned i = w * 64 + static_cast<unsigned>(std::countr_zero(v));
      Path& p = c.paths[i];
      while (p.flushes != 0 && p.data_unresolved != 0 &&
             io_.ready(c.params.index, c.plane_slots[i]) &&
             send_flush(c, static_cast<std::uint8_t>(i)))
        --p.flushes;
      if (p.flushes != 0 && p.data_unresolved != 0 &&
          !io_.ready(c.params.index, c.plane_slots[i])) {
        all = false;
        continue;
      }
      p.flushes = 0;
      c.flush_paths[w] &= ~(v & (~v + 1));
    }
  }
  return all;
}

// What timeouts could not send. False: some is still owed; one full port holds up no other.
// [MR-7.6.6]
template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::send_owed_questions(Conn& c) {
  bool all = true;
  for (unsigned i = 0; i < c.paths.size(); ++i) {
    Path& p = c.paths[i];
    if (!p.owes_question) continue;
    // Heard, or failed, meanwhile: nothing is asked any more.
    if (p.health.state != PathState::kSuspect || !c.planes[c.plane_slots[i]].up())
      p.owes_question = false;
    else if (send_flush(c, static_cast<std::uint8_t>(i)))
      p.last_progress = now_;  // its answer is waited for
    else
      all = false;
  }
  return all;
}

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::send_flush(Conn& c, std::uint8_t path, bool announces) {
  Path& p = c.paths[path];
  // [MR-2.3.4] [MR-8.1.3]
  if (p.seq.span() >= PathWindow::kLimit || !io_.ready(c.params.index, c.plane_slots[path]))
    return false;
  if (p.block == kNil) {
    p.block = blocks_.take();
    if (p.block == kNil) {
      ++counters_.no_block;
      return false;
    }
  }
  std::uint8_t* out = io_.begin(c.params.index, c.plane_slots[path]);
  if (out == nullptr) {
    ++counters_.no_buffer;
    settle_block(p);
    return false;
  }
  const PathSeq pseq = p.seq.take();
  wire::Flush f{};
  f.c.set(wire::Type::kFlush);
  f.c.flags = static_cast<std::uint8_t>(wire::kFlagAckReq | (c.params.crc ? wire::kFlagCrc : 0));
  f.c.path = path;
  f.c.epoch = p.epoch;
  f.c.dcid = c.params.peer_dcid;
  f.c.pseq = pseq.v;
  f.c.timestamp = to_wire_time(now_).v;
  f.floor_delta = static_cast<std::uint8_t>(pseq - p.seq.floor);
  f.demand = demand(c, 0, 0);
  std::memcpy(out, &f, sizeof f);
  finish_packet(c, path, out, sizeof f, nullptr, 0, kNil, announces);
  blocks_[p.block][pseq.v & 255] = TxRecord{0, {}, to_wire_time(now_).v, 0, 0, false};
  if (announces) p.announced = pseq;
  p.dirty = p.owes_question = false;  // [MR-7.6.4]
  ++counters_.flushes;
  update_open(c, path);
  return true;
}

// Ahead of a start that has more to send than its first window: each of the peer's ports hears of
// it from a small packet that does not wait behind anybody's first window, and answers with a hint
// within a round trip. Nothing is under way that it could overtake. [MR-8.2.9]
template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::announce(Conn& c) {
  if (c.start_room <= 0 || c.backlog <= static_cast<std::uint64_t>(c.start_room)) return;
  std::uint32_t told = 0;
  const auto all = static_cast<std::uint32_t>((1U << c.params.n_planes) - 1);
  for (unsigned i = 0; i < c.active_paths && told != all; ++i) {
    const std::uint32_t plane = 1U << c.plane_slots[i];
    if ((told & plane) == 0 && c.paths[i].health.carries() && c.paths[i].seq.span() == 0 &&
        send_flush(c, static_cast<std::uint8_t>(i), true))
      told |= plane;
  }
}

template <typename Q, typename Io, typename Cc>
bool TxRole<Q, Io, Cc>::send_probe(Conn& c, std::uint8_t path, std::uint16_t stream,
                                   std::uint64_t nonce, wire::ProbeKind kind) {
  if (!io_.ready(c.params.index, c.plane_slots[path])) return false;
  std::uint8_t* out = io_.begin(c.params.index, c.plane_slots[path]);
  if (out == nullptr) {
    ++counters_.no_buffer;
    return false;
  }
  wire::Probe q{};
  q.c.set(wire::Type::kProbe);
  q.c.flags = c.params.crc ? wire::kFlagCrc : 0;
  q.c.path = path;
  q.c.epoch = c.rests() ? c.rest[path].epoch : c.paths[path].epoch;
  q.c.dcid = c.params.peer_dcid;
  q.c.timestamp = to_wire_time(now_).v;
  q.nonce = nonce;
  q.kind = static_cast<std::uint8_t>(kind);
  q.state = c.rests() ? c.rest[path].state : static_cast<std::uint8_t>(c.paths[path].health.state);
  q.stream = stream;
  std::memcpy(out, &q, sizeof q);
  // [MR-3.8.4] As long as the longest DATA packet, and paced like one.
  std::uint32_t padding = 0;
  if (kind == wire::ProbeKind::kFullSize) {
    padding = c.params.payload_mtu + sizeof(wire::WriteImm) - sizeof q;
    charge(c, padding + sizeof q, true);
  }
  finish_packet(c, path, out, sizeof q, kProbePadding.data(), padding, kNil);
  ++counters_.probes;
  return true;
}

}  // namespace metaroce
