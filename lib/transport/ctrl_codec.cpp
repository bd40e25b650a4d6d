#include "transport/ctrl_codec.h"

#include <bit>
#include <cstring>

#include "base/crc32c.h"

namespace metaroce::control {
namespace {

using wire::CtrlType;

enum Tlv : std::uint8_t {
  kVersions = 1,
  kPayloadMtu = 2,
  kPlane = 3,
  kPseqSeed = 4,
  kStreams = 5,
  kSpnWindow = 6,
  kPathsPerPlane = 7,
  kLineRate = 8,
  kWorkerPort = 9,
  kCapabilities = 10,
  kInstance = 11,
  kSerials = 12,
  kRoundTrip = 13,
  kService = 32,
  kStream = 33,
  kNumbers = 34,
  kPrivate = 35,
  kFinal = 36,
  kPort = 48,
};

constexpr std::uint64_t bit(unsigned t) { return std::uint64_t{1} << t; }
constexpr std::uint64_t kConnMandatory = bit(kVersions) | bit(kPayloadMtu) | bit(kPlane) |
                                         bit(kPseqSeed) | bit(kStreams) | bit(kSpnWindow) |
                                         bit(kPathsPerPlane) | bit(kLineRate) | bit(kWorkerPort) |
                                         bit(kCapabilities) | bit(kInstance) | bit(kSerials);

// The largest packet is a CONN_REQ with 16 IPv6 planes, round trip and CRC trailer. [MR-3.9.3]
constexpr std::size_t kConnTlvBytes = 4 + 6 + 10 + 6 + 6 + 4 + 6 + 4 + 6 + 19 + 10 + 6;
static_assert(sizeof(wire::Ctrl) + kConnTlvBytes + kMaxPlanes * 20 + wire::kCrcBytes <=
              wire::kMaxCtrlBytes);
static_assert(kMaxPrivateData <= 255);

class Writer {
 public:
  explicit Writer(std::uint8_t* p) : p_(p) {}
  // [MR-5.4.1]
  void tlv(Tlv type, std::uint8_t length) {
    put(std::uint64_t{type}, 1);
    put(length, 1);
  }
  void put(std::uint64_t v, unsigned bytes) {
    for (unsigned i = bytes; i-- > 0;) p_[n_++] = static_cast<std::uint8_t>(v >> (8 * i));
  }
  void bytes(const std::uint8_t* b, std::size_t n) {
    std::memcpy(p_ + n_, b, n);
    n_ += n;
  }
  [[nodiscard]] std::size_t size() const { return n_; }

 private:
  std::uint8_t* p_;
  std::size_t n_ = 0;
};

// Reads big-endian integers from a value whose length was checked.
class Reader {
 public:
  explicit Reader(const std::uint8_t* p) : p_(p) {}
  template <typename T>
  T get() {
    T v{};
    for (unsigned i = 0; i < sizeof(T); ++i) v = static_cast<T>((std::uint64_t{v} << 8) | *p_++);
    return v;
  }

 private:
  const std::uint8_t* p_;
};

void write_conn(Writer& w, const ConnInfo& c) {
  w.tlv(kVersions, 2);
  w.put(c.version_min, 1);
  w.put(c.version_max, 1);
  w.tlv(kPayloadMtu, 4);
  w.put(c.payload_mtu, 4);
  for (std::uint32_t i = 0; i < c.n_planes; ++i) {
    const PlaneAddress& a = c.planes[i];
    const std::size_t n = a.address.v6 ? 16 : 4;
    w.tlv(kPlane, static_cast<std::uint8_t>(2 + n));
    w.put(a.number.v, 1);
    w.put(a.address.v6 ? 6 : 4, 1);
    w.bytes(a.address.b.data(), n);
  }
  w.tlv(kPseqSeed, 8);
  w.put(c.pseq_seed, 8);
  w.tlv(kStreams, 4);
  w.put(c.max_streams, 4);
  w.tlv(kSpnWindow, 4);
  w.put(c.spn_window, 4);
  w.tlv(kPathsPerPlane, 2);
  w.put(c.paths_per_plane, 2);
  w.tlv(kLineRate, 4);
  w.put(c.line_rate, 4);
  w.tlv(kWorkerPort, 2);
  w.put(c.worker_port, 2);
  w.tlv(kCapabilities, 4);
  w.put(c.capabilities, 4);
  w.tlv(kSerials, 8);
  w.put(c.attempt, 4);
  w.put(c.first_serial, 4);
  if (c.rtt_us != 0) {
    w.tlv(kRoundTrip, 4);
    w.put(c.rtt_us, 4);
  }
}

void write_instance(Writer& w, const ConnInfo& c) {
  w.tlv(kInstance, 17);
  w.put(c.instance.hi, 8);
  w.put(c.instance.lo, 8);
  w.put(c.group, 1);
}

void write_stream(Writer& w, const CtrlMessage& m) {
  const StreamInfo& s = m.stream;
  w.tlv(kNumbers, 8);
  w.put(s.to, 2);
  w.put(s.from, 2);
  w.put(s.open_serial, 4);
  const bool open = m.type == CtrlType::kStreamOpen;
  if (open) {
    w.tlv(kService, 4);
    w.put(s.service, 4);
  }
  if (open || (m.type == CtrlType::kStreamOpenRsp && m.status == CtrlStatus::kOk)) {
    w.tlv(kStream, 13);
    w.put(s.window, 4);
    w.put(s.initial_spn.v, 4);
    w.put(s.credits, 4);
    w.put(s.flags, 1);
    if (s.private_data.length != 0) {
      w.tlv(kPrivate, static_cast<std::uint8_t>(s.private_data.length));
      w.bytes(s.private_data.bytes.data(), s.private_data.length);
    }
  }
  if (s.has_final) {
    w.tlv(kFinal, 4);
    w.put(s.final_spn.v, 4);
  }
}

void write_ports(Writer& w, const PortInfo& ports) {
  for (std::uint32_t i = 0; i < ports.n; ++i) {
    w.tlv(kPort, 2);
    w.put(ports.planes[i].plane.v, 1);
    w.put(ports.planes[i].up ? 1 : 0, 1);
  }
}

bool read_port(PortInfo& ports, const std::uint8_t* v) {
  if (ports.n == kMaxPlanes || v[1] > 1) return false;
  ports.planes[ports.n++] = {PlaneId{v[0]}, v[1] == 1};
  return true;
}

bool read_plane(ConnInfo& c, const std::uint8_t* v, unsigned n) {
  if (n < 2 || c.n_planes == kMaxPlanes) return false;
  const bool v6 = v[1] == 6;
  if ((!v6 && v[1] != 4) || n != (v6 ? 18U : 6U)) return false;
  PlaneAddress& a = c.planes[c.n_planes++];
  a = {};
  a.number = PlaneId{v[0]};
  a.address.v6 = v6;
  std::memcpy(a.address.b.data(), v + 2, n - 2);
  return true;
}

// Length that a known type must have; -1 = checked by its reader, -2 = unknown type. [MR-5.4.4]
int value_bytes(unsigned type) {
  switch (type) {
    case kVersions:
    case kPathsPerPlane:
    case kWorkerPort:
    case kPort:
      return 2;
    case kPayloadMtu:
    case kStreams:
    case kSpnWindow:
    case kLineRate:
    case kCapabilities:
    case kRoundTrip:
    case kService:
    case kFinal:
      return 4;
    case kPseqSeed:
    case kSerials:
    case kNumbers:
      return 8;
    case kInstance:
      return 17;
    case kStream:
      return 13;
    case kPlane:
    case kPrivate:
      return -1;
    default:
      return -2;
  }
}

bool read_value(CtrlMessage& m, unsigned type, const std::uint8_t* v, unsigned n) {
  ConnInfo& c = m.conn;
  StreamInfo& s = m.stream;
  Reader r(v);
  switch (type) {
    case kVersions:
      c.version_min = r.get<std::uint8_t>();
      c.version_max = r.get<std::uint8_t>();
      break;
    case kPayloadMtu:
      c.payload_mtu = r.get<std::uint32_t>();
      break;
    case kPlane:
      return read_plane(c, v, n);
    case kPseqSeed:
      c.pseq_seed = r.get<std::uint64_t>();
      break;
    case kStreams:
      c.max_streams = r.get<std::uint32_t>();
      break;
    case kSpnWindow:
      c.spn_window = r.get<std::uint32_t>();
      break;
    case kPathsPerPlane:
      c.paths_per_plane = r.get<std::uint16_t>();
      break;
    case kLineRate:
      c.line_rate = r.get<std::uint32_t>();
      break;
    case kWorkerPort:
      c.worker_port = r.get<std::uint16_t>();
      break;
    case kCapabilities:
      c.capabilities = r.get<std::uint32_t>();
      break;
    case kInstance:
      c.instance.hi = r.get<std::uint64_t>();
      c.instance.lo = r.get<std::uint64_t>();
      c.group = r.get<std::uint8_t>();
      break;
    case kSerials:
      c.attempt = r.get<std::uint32_t>();
      c.first_serial = r.get<std::uint32_t>();
      break;
    case kRoundTrip:
      c.rtt_us = r.get<std::uint32_t>();
      break;
    case kService:
      s.service = r.get<std::uint32_t>();
      break;
    case kStream:
      s.window = r.get<std::uint32_t>();
      s.initial_spn = StreamSeq{r.get<std::uint32_t>()};
      s.credits = r.get<std::uint32_t>();
      s.flags = r.get<std::uint8_t>();
      break;
    case kNumbers:
      s.to = r.get<std::uint16_t>();
      s.from = r.get<std::uint16_t>();
      s.open_serial = r.get<std::uint32_t>();
      break;
    case kPrivate:
      if (n > kMaxPrivateData) return false;
      s.private_data.length = n;
      std::memcpy(s.private_data.bytes.data(), v, n);
      break;
    case kFinal:
      s.has_final = true;
      s.final_spn = StreamSeq{r.get<std::uint32_t>()};
      break;
    case kPort:
      return read_port(m.ports, v);
    default:
      break;
  }
  return true;
}

// TLVs seen, as a bit set over types; 0 when malformed.
std::uint64_t read_tlvs(CtrlMessage& m, const std::uint8_t* p, std::uint32_t n) {
  std::uint64_t seen = bit(0);  // not a type: marks success
  std::uint32_t i = 0;
  while (i < n) {
    if (n - i < 2 || n - i - 2 < p[i + 1]) return 0;
    const unsigned type = p[i], length = p[i + 1];
    const int want = value_bytes(type);
    // [MR-5.4.3]
    if (want != -2) {
      if (want >= 0 && static_cast<unsigned>(want) != length) return 0;
      if (type != kPlane && type != kPort && (seen & bit(type)) != 0) return 0;
      if (!read_value(m, type, p + i + 2, length)) return 0;
      seen |= bit(type);
    }
    i += 2 + length;
  }
  return seen;
}

// [MR-5.4.4]
std::uint64_t mandatory(const CtrlMessage& m) {
  switch (m.type) {
    case CtrlType::kConnReq:
      return kConnMandatory;
    case CtrlType::kConnRsp:
      if (m.status == CtrlStatus::kOk) return kConnMandatory;
      return m.status == CtrlStatus::kRetry ? bit(kInstance) : 0;
    case CtrlType::kStreamOpen:
      return bit(kService) | bit(kStream) | bit(kNumbers);
    case CtrlType::kStreamOpenRsp:
      return bit(kNumbers) | (m.status == CtrlStatus::kOk ? bit(kStream) : 0);
    case CtrlType::kStreamClose:
    case CtrlType::kStreamCloseRsp:
      return bit(kNumbers);
    case CtrlType::kPortStatus:
      return bit(kPort);
    default:
      return 0;
  }
}

// [MR-2.2.7]
bool window_ok(std::uint32_t w) { return w >= 64 && w <= 65536 && std::has_single_bit(w); }

bool values_ok(const CtrlMessage& m, std::uint64_t seen) {
  const ConnInfo& c = m.conn;
  if ((seen & bit(kVersions)) != 0 && c.version_min > c.version_max) return false;
  if ((seen & bit(kSpnWindow)) != 0 && !window_ok(c.spn_window)) return false;
  if ((seen & bit(kPathsPerPlane)) != 0 && c.paths_per_plane == 0) return false;
  if ((seen & bit(kWorkerPort)) != 0 && c.worker_port == 0) return false;
  if ((seen & bit(kLineRate)) != 0 && c.line_rate == 0) return false;
  return (seen & bit(kStream)) == 0 || window_ok(m.stream.window);
}

}  // namespace

std::uint32_t encode_ctrl(const CtrlMessage& m, WireTime now, CtrlBytes& out) {
  wire::Ctrl h{};  // [MR-3.3.5]
  Writer w(out.data() + sizeof h);
  const bool conn =
      m.type == CtrlType::kConnReq || (m.type == CtrlType::kConnRsp && m.status == CtrlStatus::kOk);
  if (conn) write_conn(w, m.conn);
  if (conn || (m.type == CtrlType::kConnRsp && m.status == CtrlStatus::kRetry))
    write_instance(w, m.conn);
  if (m.type >= CtrlType::kStreamOpen && m.type <= CtrlType::kStreamCloseRsp) write_stream(w, m);
  if (m.type == CtrlType::kPortStatus) write_ports(w, m.ports);

  h.c.set(wire::Type::kCtrl);
  h.c.flags = m.crc ? wire::kFlagCrc : std::uint8_t{0};
  h.c.dcid = m.dcid;
  h.c.pseq = m.serial;  // [MR-5.5.1]
  h.c.timestamp = now.v;
  h.ctype = static_cast<std::uint8_t>(m.type);
  h.status = static_cast<std::uint8_t>(m.status);
  h.length = static_cast<std::uint16_t>(w.size());
  h.scid = m.scid;
  h.conn_epoch = m.conn_epoch;
  h.cookie = m.cookie;
  std::memcpy(out.data(), &h, sizeof h);
  std::size_t n = sizeof h + w.size();
  if (m.crc) {
    const wire::Be32 trailer = crc32c(0, out.data(), n);
    std::memcpy(out.data() + n, &trailer, sizeof trailer);
    n += sizeof trailer;
  }
  return static_cast<std::uint32_t>(n);
}

DropReason decode_ctrl(std::span<const std::uint8_t> b, CtrlMessage& m) {
  const auto n = static_cast<std::uint32_t>(b.size());
  const wire::Checked checked = wire::check_packet(b.data(), n);
  if (checked.drop != DropReason::kNone) return checked.drop;
  wire::Ctrl h;
  if ((b[0] & 0x0f) != static_cast<int>(wire::Type::kCtrl)) return DropReason::kType;
  if (n > wire::kMaxCtrlBytes) return DropReason::kOversize;  // [MR-3.9.3]
  std::memcpy(&h, b.data(), sizeof h);
  m = {};
  m.crc = (h.c.flags & wire::kFlagCrc) != 0;
  if (m.crc) {
    wire::Be32 trailer;
    std::memcpy(&trailer, b.data() + n - wire::kCrcBytes, sizeof trailer);
    if (trailer != crc32c(0, b.data(), n - wire::kCrcBytes)) return DropReason::kCrc;  // [MR-3.2.2]
  }
  m.type = static_cast<CtrlType>(h.ctype);
  m.status = static_cast<CtrlStatus>(h.status);
  m.dcid = h.c.dcid;
  m.serial = h.c.pseq;
  m.scid = h.scid;
  m.conn_epoch = h.conn_epoch;
  m.cookie = h.cookie;
  if (h.length != checked.payload_bytes) return DropReason::kCtrlMalformed;  // [MR-3.9.4]
  if (h.status > static_cast<std::uint8_t>(CtrlStatus::kAborted)) return DropReason::kCtrlMalformed;
  const std::uint64_t seen = read_tlvs(m, b.data() + sizeof h, checked.payload_bytes);
  const std::uint64_t want = mandatory(m);
  if (seen == 0 || (seen & want) != want || !values_ok(m, seen)) return DropReason::kCtrlMalformed;
  return DropReason::kNone;
}

}  // namespace metaroce::control
