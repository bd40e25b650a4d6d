// Every packet of the wire against its golden bytes, and back.
#include "wire/packet.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "golden.h"
#include "support/seed.h"

namespace metaroce::wire {
namespace {

using namespace golden;

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

}  // namespace
}  // namespace metaroce::wire
