// TX role: the bytes of a data packet, and its way to the port. [MR-3.4]
#pragma once

#include "transport/tx_role.h"

namespace metaroce {

template <typename Q, typename Io, typename Cc>
std::uint32_t TxRole<Q, Io, Cc>::write_header(std::uint8_t* out, Conn& c, std::uint8_t path,
                                              SendStream& s, const WorkState& w, StreamSeq spn,
                                              std::uint32_t offset, std::uint32_t bytes,
                                              bool resend, PathSeq pseq) {
  const Path& p = c.paths[path];
  const bool last = spn + 1 == w.end();
  auto& d = *reinterpret_cast<wire::Data*>(out);
  d.c.set(wire::Type::kData);
  // [MR-7.3.8]
  d.c.flags = static_cast<std::uint8_t>((resend ? wire::kFlagRtx : 0) |
                                        (c.params.crc ? wire::kFlagCrc : 0));
  d.c.path = path;
  d.c.epoch = p.epoch;
  d.c.dcid = c.params.peer_dcid;
  d.c.pseq = pseq.v;
  d.c.timestamp = to_wire_time(now_).v;
  // [MR-2.3.1]
  d.floor_delta = static_cast<std::uint8_t>(pseq - p.seq.floor);
  // The sequence space is about to end: ask, so that it opens again. [MR-2.3.5]
  if (d.floor_delta == PathWindow::kDataLimit - 1) d.c.flags |= wire::kFlagAckReq;
  d.stream = s.params.peer_number;
  d.spn = spn.v;
  d.demand = resend ? demand(c, 0, 1) : demand(c, bytes, 0);
  d.msn = w.msn;
  // [MR-3.4.3]
  std::uint8_t op =
      static_cast<std::uint8_t>((offset == 0 ? wire::kOpFirst : 0) | (last ? wire::kOpLast : 0));
  switch (w.op) {
    case WorkOp::kWrite:
    case WorkOp::kWriteImm: {
      // [MR-3.4.4]
      const bool imm = last && w.op == WorkOp::kWriteImm;
      auto& x = *reinterpret_cast<wire::WriteImm*>(out);
      // [MR-3.4.12]
      x.w.va = w.remote + offset;
      x.w.rkey = w.rkey;
      x.w.message_length = w.length;
      op |= static_cast<std::uint8_t>(wire::Op::kWrite);
      // [MR-6.4.3]
      if (last && s.params.ordered_last) d.c.flags |= wire::kFlagOrd;
      if (!imm) {
        d.op = op;
        return sizeof(wire::Write);
      }
      d.op = op | wire::kOpImm;
      x.imm = w.imm;
      x.rqn = w.rqn.v;
      return sizeof(wire::WriteImm);
    }
    default: {
      auto& x = *reinterpret_cast<wire::SendImm*>(out);
      x.s.rqn = w.rqn.v;
      x.s.offset = offset;
      x.s.message_length = w.length;
      (void)bytes;
      if (w.op == WorkOp::kSend) {
        d.op = op | static_cast<std::uint8_t>(wire::Op::kSend);
        return sizeof(wire::Send);
      }
      d.op = op | static_cast<std::uint8_t>(wire::Op::kSendImm);
      // [MR-3.4.6]
      x.imm = w.imm;
      return sizeof(wire::SendImm);
    }
  }
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::finish_packet(Conn& c, std::uint8_t path, std::uint8_t* header,
                                      std::uint32_t header_bytes, const std::uint8_t* payload,
                                      std::uint32_t payload_bytes, std::uint32_t work,
                                      bool control) {
  wire::Be32 crc;
  const std::uint8_t* trailer = nullptr;
  // [MR-3.2.1]
  if (c.params.crc) {
    crc = crc32c(crc32c(0, header, header_bytes), payload, payload_bytes);
    trailer = reinterpret_cast<const std::uint8_t*>(&crc);
  }
  io_.commit(header_bytes, payload, payload_bytes, trailer, c.rest[path].source_port,
             c.params.peer_port, work, control);
}

}  // namespace metaroce
