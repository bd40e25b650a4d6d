// Golden bytes of every packet, written down from the specification's tables and not from the
// structures: field by field, big-endian, in the order of the wire.
#include "wire/packet.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "support/seed.h"

namespace metaroce::wire {
namespace {

using ByteVector = std::vector<std::uint8_t>;

// Hex digits; blanks and '|' are for the reader.
ByteVector hex(std::string_view text) {
  ByteVector v;
  int high = -1;
  for (const char c : text) {
    if (c == ' ' || c == '|') continue;
    const int d = c <= '9' ? c - '0' : c - 'a' + 10;
    if (high < 0) {
      high = d;
    } else {
      v.push_back(static_cast<std::uint8_t>(high * 16 + d));
      high = -1;
    }
  }
  return v;
}

template <typename T>
ByteVector bytes(const T& t) {
  ByteVector v(sizeof(T));
  std::memcpy(v.data(), &t, sizeof(T));
  return v;
}
template <typename T>
T overlay(const ByteVector& v) {
  T t;
  std::memcpy(&t, v.data(), sizeof(T));
  return t;
}

// On a heap copy of exactly its size, so that the address sanitizer sees one byte too many.
Checked check(const ByteVector& v) {
  const ByteVector copy(v);
  return check_packet(copy.data(), static_cast<std::uint32_t>(copy.size()));
}

Common common(Type t, std::uint8_t flags = 0) {
  Common c{};
  c.set(t);
  c.flags = flags;
  c.path = 0x21;
  c.epoch = 0x32;
  c.dcid = 0xabcdef12;
  c.pseq = 0x80000001;
  c.timestamp = 0xfffffffe;
  return c;
}
constexpr std::string_view kTail = "21 32 | abcdef12 | 80000001 | fffffffe |";  // after ver, flags
std::string packet(std::string_view ver_type_flags, std::string_view rest) {
  return std::string(ver_type_flags) + std::string(kTail) + std::string(rest);
}

Data data(std::uint8_t op, std::uint8_t flags = 0) {
  Data d{};
  d.c = common(Type::kData, flags);
  d.op = op;
  d.floor_delta = 0xfd;
  d.stream = 0x0102;
  d.spn = 0x03040506;
  d.demand = 0x15;
  d.msn = 0x0a0b0c;
  return d;
}
constexpr std::string_view kData = "fd 0102 03040506 15 0a0b0c |";  // after the operation byte
std::string data_hex(std::string_view flags, std::string_view op, std::string_view rest) {
  return packet("11" + std::string(flags),
                std::string(op) + std::string(kData) + std::string(rest));
}

Write write(std::uint8_t op, std::uint8_t flags = 0) {
  Write w{};
  w.d = data(op, flags);
  w.va = 0x1122334455667788;
  w.rkey = 0x99aabbcc;
  w.message_length = 0x80000000;
  return w;
}
constexpr std::string_view kWrite = "1122334455667788 99aabbcc 80000000";

Send send(std::uint8_t op) {
  Send s{};
  s.d = data(op);
  s.rqn = 0xfedcba98;
  s.offset = 0x00001000;
  s.message_length = 0x00002345;
  return s;
}
constexpr std::string_view kSend = "fedcba98 00001000 00002345";

template <typename T>
void expect_golden(const T& t, const std::string& text) {
  const ByteVector expected = hex(text);
  ASSERT_EQ(sizeof(T), expected.size());
  EXPECT_EQ(bytes(t), expected);
  const Checked c = check(expected);
  EXPECT_EQ(c.drop, DropReason::kNone);
  EXPECT_EQ(c.header_bytes, sizeof(T));
  EXPECT_EQ(c.payload_bytes, 0U);
}

TEST(Packet, golden__write) {
  expect_golden(write(0x81), data_hex("00", "81", kWrite));                          // FIRST
  expect_golden(write(0x01), data_hex("00", "01", kWrite));                          // middle
  expect_golden(write(0x41, kFlagOrd), data_hex("10", "41", kWrite));                // LAST, ORD
  expect_golden(write(0xc1, kFlagAckReq | kFlagRtx), data_hex("03", "c1", kWrite));  // only
}

TEST(Packet, golden__write_with_immediate) {
  WriteImm w{};
  w.w = write(0x61, kFlagEndOfBurst);
  w.imm = 0xcafebabe;
  w.rqn = 0x00000007;
  expect_golden(w, data_hex("04", "61", std::string(kWrite) + "cafebabe 00000007"));
}

TEST(Packet, golden__send) { expect_golden(send(0x82), data_hex("00", "82", kSend)); }

TEST(Packet, golden__send_with_immediate_and_invalidate) {
  SendImm s{};
  s.imm = 0xdeadbeef;
  s.s = send(0xc3);
  expect_golden(s, data_hex("00", "c3", std::string(kSend) + "deadbeef"));
  s.s = send(0xc4);
  expect_golden(s, data_hex("00", "c4", std::string(kSend) + "deadbeef"));
}

TEST(Packet, golden__flush) {
  Flush f{};
  f.c = common(Type::kFlush, kFlagAckReq);
  f.floor_delta = 0xff;
  f.demand = 0x1f;
  expect_golden(f, packet("1201", "ff 1f 0000"));
}

TEST(Packet, golden__ack) {
  Ack a{};
  a.c = common(Type::kAck);
  a.rate_hint = 400000;  // Mb/s = 0x061a80
  a.hint_epoch = 0x44;
  a.receive_load = 0xe6;
  a.host_pressure = 0x07;
  a.n_paths = 2;
  a.n_streams = 3;
  expect_golden(a, packet("1300", "061a80 44 e6 07 02 03"));
}

TEST(Packet, golden__ack_blocks) {
  AckPath p{};
  p.path = 0x0c;
  p.epoch = 0x0d;
  p.flags = kAckSack;
  p.cum = 0x01020304;
  p.highest = 0x05060708;
  p.timestamp_echo = 0x090a0b0c;
  p.ack_delay = kNoDelaySample;
  p.late = 0x1112;
  p.rejects = 0x1314;
  p.ce_packets = 0x15161718;
  p.received_packets = 0x191a1b1c;
  EXPECT_EQ(bytes(p), hex("0c 0d 01 00 | 01020304 | 05060708 | 090a0b0c | ffff 1112 | 1314 0000 |"
                          "15161718 | 191a1b1c"));
  AckStream s{};
  s.stream = 0x2122;
  s.flags = kAckStreamResponse;
  s.cum_spn = 0x23242526;
  s.rqn_limit = 0x2728292a;
  EXPECT_EQ(bytes(s), hex("2122 0001 | 23242526 | 2728292a"));
  static_assert(sizeof(AckSack) == 32);
}

TEST(Packet, golden__nack) {
  Nack k{};
  k.c = common(Type::kNack);
  k.reason = static_cast<std::uint8_t>(NackReason::kRnr);
  k.wait = 0x0280;
  k.stream = 0xffff;
  k.spn = 0x01020304;
  k.pseq = 0x05060708;
  expect_golden(k, packet("1400", "01 00 0280 | ffff 0000 | 01020304 | 05060708"));
}

TEST(Packet, golden__probe_and_reply) {
  Probe p{};
  p.nonce = 0x0102030405060708;
  p.timestamp_echo = 0x090a0b0c;
  p.delay = 0x0d0e;
  p.kind = static_cast<std::uint8_t>(ProbeKind::kFullSize);
  p.state = 0x03;
  p.stream = 0x0f10;
  const std::string rest = "0102030405060708 | 090a0b0c | 0d0e 02 03 | 0f10 0000";
  p.c = common(Type::kProbe);
  expect_golden(p, packet("1500", rest));
  p.c = common(Type::kProbeReply);
  expect_golden(p, packet("1600", rest));
}

TEST(Packet, golden__ctrl) {
  Ctrl c{};
  c.c = common(Type::kCtrl);
  c.ctype = static_cast<std::uint8_t>(CtrlType::kStreamOpen);
  c.status = 0x05;
  c.length = 0x0180;
  c.scid = 0x13141516;
  c.conn_epoch = 0x1718191a1b1c1d1e;
  c.cookie = 0x2021222324252627;
  expect_golden(c, packet("1700", "08 05 0180 | 13141516 | 1718191a1b1c1d1e | 2021222324252627"));
}

// The other direction: what is read is what stands there.
TEST(Packet, fields_are_read_from_golden_bytes) {
  const auto w =
      overlay<WriteImm>(hex(data_hex("1f", "61", std::string(kWrite) + "cafebabe 00000007")));
  EXPECT_EQ(w.w.d.c.type(), Type::kData);
  EXPECT_EQ(w.w.d.c.flags, kFlagAckReq | kFlagRtx | kFlagEndOfBurst | kFlagCrc | kFlagOrd);
  EXPECT_EQ(w.w.d.c.path, 0x21);
  EXPECT_EQ(w.w.d.c.epoch, 0x32);
  EXPECT_EQ(w.w.d.c.dcid, 0xabcdef12);
  EXPECT_EQ(w.w.d.c.pseq, 0x80000001);
  EXPECT_EQ(w.w.d.c.timestamp, 0xfffffffe);
  EXPECT_EQ(w.w.d.code(), Op::kWrite);
  EXPECT_EQ(w.w.d.stream, 0x0102);
  EXPECT_EQ(w.w.d.spn, 0x03040506U);
  EXPECT_EQ(w.w.d.msn, 0x0a0b0cU);
  EXPECT_EQ(w.w.va, 0x1122334455667788U);
  EXPECT_EQ(w.w.rkey, 0x99aabbcc);
  EXPECT_EQ(w.w.message_length, 0x80000000);
  EXPECT_EQ(w.imm, 0xcafebabe);
  EXPECT_EQ(w.rqn, 7U);
}

TEST(Packet, integers_round_trip__any_value) {
  const test::Seed seed(20);
  SCOPED_TRACE(seed.replay());
  Rng rng(seed.value());
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t v = rng.next() >> rng.below(64);
    ASSERT_EQ(std::uint16_t{Be16(static_cast<std::uint16_t>(v))}, static_cast<std::uint16_t>(v));
    ASSERT_EQ(std::uint32_t{Be32(static_cast<std::uint32_t>(v))}, static_cast<std::uint32_t>(v));
    ASSERT_EQ(std::uint64_t{Be64(v)}, v);
    Be24 b24;
    b24 = static_cast<std::uint32_t>(v);
    ASSERT_EQ(std::uint32_t{b24}, v & 0xffffff);
  }
}

TEST(Packet, nack_reasons__final_from_16_on) {
  for (const auto r : {NackReason::kRnr, NackReason::kNotReady, NackReason::kNoResource,
                       NackReason::kStreamWindow})
    EXPECT_FALSE(is_final(r));
  for (const auto r : {NackReason::kBadKey, NackReason::kBounds, NackReason::kAccess,
                       NackReason::kBadStream, NackReason::kLength, NackReason::kOperation})
    EXPECT_TRUE(is_final(r));
}

// ---- check_packet ------------------------------------------------------------------------------

struct Sample {
  const char* name;
  ByteVector bytes;  // the fixed part
};
std::vector<Sample> samples() {
  const std::string imm = "cafebabe 00000007";
  return {
      {"write first", hex(data_hex("00", "81", kWrite))},
      {"write middle", hex(data_hex("00", "01", kWrite))},
      {"write last", hex(data_hex("00", "41", kWrite))},
      {"write last imm", hex(data_hex("00", "61", std::string(kWrite) + imm))},
      {"write only imm", hex(data_hex("00", "e1", std::string(kWrite) + imm))},
      {"send", hex(data_hex("00", "c2", kSend))},
      {"send imm", hex(data_hex("00", "c3", std::string(kSend) + "deadbeef"))},
      {"send inv", hex(data_hex("00", "c4", std::string(kSend) + "deadbeef"))},
      {"flush", hex(packet("1200", "00000000"))},
      {"ack", hex(packet("1300", "061a80 44 e6 07 00 00"))},
      {"nack", hex(packet("1400", "01 00 0280 | ffff 0000 | 01020304 | 05060708"))},
      {"probe", hex(packet("1500", "0102030405060708 | 090a0b0c | 0d0e 02 03 | 0f10 0000"))},
      {"probe reply", hex(packet("1600", "0102030405060708 | 090a0b0c | 0d0e 02 03 | 0f10 0000"))},
      {"ctrl", hex(packet("1700", "08 05 0180 | 13141516 | 1718191a1b1c1d1e | 2021222324252627"))},
  };
}

// Total header sizes of the specification's tables.
TEST(CheckPacket, header_sizes) {
  const std::uint16_t expected[] = {44, 44, 44, 52, 52, 40, 44, 44, 20, 24, 32, 36, 36, 40};
  std::size_t i = 0;
  for (const Sample& s : samples()) EXPECT_EQ(check(s.bytes).header_bytes, expected[i++]) << s.name;
}

TEST(CheckPacket, every_truncation_is_too_short) {
  for (const Sample& s : samples()) {
    for (std::size_t n = 0; n < s.bytes.size(); ++n) {
      const ByteVector cut(s.bytes.begin(), s.bytes.begin() + static_cast<std::ptrdiff_t>(n));
      const Checked c = check(cut);
      ASSERT_EQ(c.drop, DropReason::kTooShort) << s.name << " cut to " << n;
      ASSERT_EQ(c.header_bytes, 0) << s.name;
      ASSERT_EQ(c.payload_bytes, 0U) << s.name;
    }
  }
}

TEST(CheckPacket, payload_is_what_follows) {
  for (const Sample& s : samples()) {
    for (const std::size_t extra : {1U, 3U, 4U, 4096U, 65000U}) {
      ByteVector v = s.bytes;
      v.resize(v.size() + extra, 0x5a);
      const Checked c = check(v);
      ASSERT_EQ(c.drop, DropReason::kNone) << s.name;
      ASSERT_EQ(c.header_bytes, s.bytes.size()) << s.name;
      ASSERT_EQ(c.payload_bytes, extra) << s.name;
    }
  }
}

TEST(CheckPacket, trailer__not_payload_and_must_fit) {
  for (const Sample& s : samples()) {
    ByteVector v = s.bytes;
    v[1] |= kFlagCrc;
    for (std::size_t extra = 0; extra < 4; ++extra) {
      v.resize(s.bytes.size() + extra);
      ASSERT_EQ(check(v).drop, DropReason::kTooShort) << s.name << " + " << extra;
    }
    for (std::size_t extra = 4; extra < 12; ++extra) {
      v.resize(s.bytes.size() + extra);
      const Checked c = check(v);
      ASSERT_EQ(c.drop, DropReason::kNone) << s.name;
      ASSERT_EQ(c.header_bytes, s.bytes.size()) << s.name;
      ASSERT_EQ(c.payload_bytes, extra - 4) << s.name;
    }
  }
}

TEST(CheckPacket, version__all_others_are_dropped) {
  for (const Sample& s : samples()) {
    for (unsigned version = 0; version < 16; ++version) {
      ByteVector v = s.bytes;
      v[0] = static_cast<std::uint8_t>((version << 4) | (v[0] & 0x0f));
      ASSERT_EQ(check(v).drop, version == 1 ? DropReason::kNone : DropReason::kVersion) << s.name;
    }
  }
}

TEST(CheckPacket, type__unknown_is_dropped_whatever_the_length) {
  for (unsigned type = 0; type < 16; ++type) {
    ByteVector v(200, 0);
    v[0] = static_cast<std::uint8_t>(0x10 | type);
    v[16] = 0x81;  // an operation for DATA
    ASSERT_EQ(check(v).drop, type >= 1 && type <= 7 ? DropReason::kNone : DropReason::kType)
        << type;
    v.resize(16);
    ASSERT_EQ(check(v).drop, type >= 1 && type <= 7 ? DropReason::kTooShort : DropReason::kType)
        << type;
  }
}

// All 256 operation bytes: the ones of this version, and IMM only on the last packet of a Write.
// Reads and atomics (5..8) are not part of this version's data path.
TEST(CheckPacket, operation__all_values) {
  for (unsigned op = 0; op < 256; ++op) {
    ByteVector v = hex(data_hex("00", "00", ""));
    v[16] = static_cast<std::uint8_t>(op);
    v.resize(100);
    const unsigned code = op & 0x1f;
    const bool imm = (op & 0x20) != 0, last = (op & 0x40) != 0;
    const bool known = imm ? code == 1 && last : code >= 1 && code <= 4;
    ASSERT_EQ(check(v).drop, known ? DropReason::kNone : DropReason::kType) << op;
  }
}

TEST(CheckPacket, unknown_flags_are_ignored) {
  for (const Sample& s : samples()) {
    ByteVector v = s.bytes;
    v[1] |= 0xe0;
    EXPECT_EQ(check(v).drop, DropReason::kNone) << s.name;
  }
}

// Whatever arrives: no byte read outside (sanitizer), one of the reasons above, and header and
// payload that add up to the packet.
TEST(CheckPacket, mutated_packets__always_a_verdict_that_adds_up) {
  const test::Seed seed(21);
  SCOPED_TRACE(seed.replay());
  Rng rng(seed.value());
  const auto all = samples();
  int kept = 0;
  for (int round = 0; round < 50000; ++round) {
    ByteVector v = all[rng.below(static_cast<std::uint32_t>(all.size()))].bytes;
    v.resize(v.size() + rng.below(64));
    for (std::uint32_t k = rng.below(4); k > 0; --k) {
      // The first 17 bytes decide; hit them more often.
      const std::uint32_t at =
          rng.below(2) != 0 ? rng.below(17) : rng.below(static_cast<std::uint32_t>(v.size()));
      v[at] = static_cast<std::uint8_t>(rng.next());
    }
    if (rng.below(3) == 0) v.resize(rng.below(static_cast<std::uint32_t>(v.size()) + 1));
    const Checked c = check(v);
    if (c.drop == DropReason::kNone) {
      ++kept;
      const std::size_t trailer = (v[1] & kFlagCrc) != 0 ? 4 : 0;
      ASSERT_EQ(c.header_bytes + c.payload_bytes + trailer, v.size());
      ASSERT_GE(c.header_bytes, sizeof(Flush));
      ASSERT_EQ(v[0] >> 4, 1);
    } else {
      ASSERT_TRUE(c.drop == DropReason::kTooShort || c.drop == DropReason::kVersion ||
                  c.drop == DropReason::kType)
          << static_cast<int>(c.drop);
      ASSERT_EQ(c.header_bytes, 0);
      ASSERT_EQ(c.payload_bytes, 0U);
    }
  }
  EXPECT_GT(kept, 10000);
  EXPECT_LT(kept, 45000);
}

}  // namespace
}  // namespace metaroce::wire
