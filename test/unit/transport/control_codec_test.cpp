#include "transport/ctrl_codec.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "transport/cookie.h"
#include "transport/params.h"
#include "transport/serial_window.h"

namespace metaroce::control {
namespace {

using wire::CtrlType;

ConnInfo conn_info(Rng& r, unsigned planes, bool v6) {
  ConnInfo c;
  c.payload_mtu = 256 + r.below(8000);
  c.n_planes = planes;
  for (unsigned i = 0; i < planes; ++i) {
    c.planes[i].number = PlaneId{static_cast<std::uint8_t>(i * 3)};
    c.planes[i].address.v6 = v6;
    for (unsigned k = 0; k < (v6 ? 16U : 4U); ++k)
      c.planes[i].address.b[k] = static_cast<std::uint8_t>(r.next());
  }
  c.pseq_seed = r.next();
  c.max_streams = r.below(5000);
  c.spn_window = 64U << r.below(11);
  c.paths_per_plane = static_cast<std::uint16_t>(1 + r.below(256));
  c.line_rate = 1 + r.below(800000);
  c.worker_port = static_cast<std::uint16_t>(1 + r.below(65535));
  c.capabilities = r.below(2);
  c.instance = {r.next(), r.next()};
  c.group = static_cast<std::uint8_t>(r.below(32));
  c.attempt = static_cast<std::uint32_t>(r.next());
  c.first_serial = static_cast<std::uint32_t>(r.next());
  c.rtt_us = r.below(3);
  return c;
}

CtrlMessage random_message(Rng& r) {
  static constexpr CtrlType kTypes[] = {CtrlType::kConnReq,     CtrlType::kConnRsp,
                                        CtrlType::kConnRtu,     CtrlType::kConnRtuAck,
                                        CtrlType::kConnClose,   CtrlType::kConnCloseRsp,
                                        CtrlType::kStreamOpen,  CtrlType::kStreamOpenRsp,
                                        CtrlType::kStreamClose, CtrlType::kStreamCloseRsp};
  CtrlMessage m;
  m.type = kTypes[r.below(10)];
  m.crc = r.below(2) != 0;
  m.dcid = static_cast<std::uint32_t>(r.next());
  m.scid = static_cast<std::uint32_t>(r.next());
  m.serial = static_cast<std::uint32_t>(r.next());
  m.conn_epoch = r.next();
  m.cookie = r.next();
  m.conn = conn_info(r, 1 + r.below(kMaxPlanes), r.below(2) != 0);
  m.stream.service = static_cast<std::uint32_t>(r.next());
  m.stream.window = 64U << r.below(11);
  m.stream.initial_spn = StreamSeq{static_cast<std::uint32_t>(r.next())};
  m.stream.credits = r.below(1000);
  m.stream.flags = static_cast<std::uint8_t>(r.below(2));
  m.stream.to = static_cast<std::uint16_t>(r.next());
  m.stream.from = static_cast<std::uint16_t>(r.next());
  m.stream.open_serial = static_cast<std::uint32_t>(r.next());
  m.stream.private_data.length = r.below(kMaxPrivateData + 1);
  for (auto& x : m.stream.private_data.bytes) x = static_cast<std::uint8_t>(r.next());
  m.stream.has_final = r.below(2) != 0;
  m.stream.final_spn = StreamSeq{static_cast<std::uint32_t>(r.next())};
  return m;
}

std::vector<std::uint8_t> encode(const CtrlMessage& m) {
  CtrlBytes b;
  const std::uint32_t n = encode_ctrl(m, WireTime{5}, b);
  return {b.begin(), b.begin() + n};
}

}  // namespace

// [MR-3.9.3] [MR-5.4.1] [MR-5.4.2]
TEST(CtrlCodec, every_message_encodes_to_what_decodes_to_the_same_bytes) {
  Rng r(1);
  for (int i = 0; i < 5000; ++i) {
    const std::vector<std::uint8_t> bytes = encode(random_message(r));
    ASSERT_LE(bytes.size(), wire::kMaxCtrlBytes);
    CtrlMessage back;
    ASSERT_EQ(decode_ctrl(bytes, back), DropReason::kNone);
    ASSERT_EQ(encode(back), bytes);
  }
}

// [MR-3.9.1] [MR-5.4.1] [MR-5.5.1]
TEST(CtrlCodec, golden_bytes_of_a_stream_close) {
  CtrlMessage m;
  m.type = CtrlType::kStreamClose;
  m.dcid = 0x00000102;
  m.scid = 0x00000304;
  m.serial = 0x11223344;
  m.conn_epoch = 0x0102030405060708;
  m.stream.to = 0x0a0b;
  m.stream.from = 0x0c0d;
  m.stream.open_serial = 0x21222324;
  m.stream.has_final = true;
  m.stream.final_spn = StreamSeq{0x31323334};
  const std::vector<std::uint8_t> want = {
      0x17, 0, 0,    0,    0,    0,   1, 2,  0x11, 0x22, 0x33, 0x44, 0,    0,    0,    5,  // common
      10,   0, 0,    16,   0,    0,   3, 4,  1,    2,    3,    4,    5,    6,    7,    8,    0,
      0,    0, 0,    0,    0,    0,   0, 34, 8,    0x0a, 0x0b, 0x0c, 0x0d, 0x21, 0x22, 0x23, 0x24,
      36,   4, 0x31, 0x32, 0x33, 0x34};
  EXPECT_EQ(encode(m), want);
}

// [MR-3.9.3]
TEST(CtrlCodec, largest_request_fits) {
  Rng r(2);
  CtrlMessage m;
  m.type = CtrlType::kConnReq;
  m.crc = true;
  m.conn = conn_info(r, kMaxPlanes, true);
  m.conn.rtt_us = 9;
  EXPECT_LE(encode(m).size(), wire::kMaxCtrlBytes);
}

// [MR-3.9.4] [MR-4.1.4]
TEST(CtrlCodec, every_truncation_is_dropped_by_name) {
  Rng r(3);
  for (int i = 0; i < 50; ++i) {
    CtrlMessage m = random_message(r);
    m.crc = false;
    const std::vector<std::uint8_t> bytes = encode(m);
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      // A vector of exactly n bytes: a read beyond is an error under AddressSanitizer.
      const std::vector<std::uint8_t> cut(bytes.begin(),
                                          bytes.begin() + static_cast<std::ptrdiff_t>(n));
      CtrlMessage back;
      ASSERT_NE(decode_ctrl(cut, back), DropReason::kNone) << n;
    }
  }
}

// [MR-1.2.1] [MR-5.4.3] [MR-5.4.4]
TEST(CtrlCodec, unknown_tlv_is_skipped_and_a_repeated_one_is_not) {
  CtrlMessage m, back;
  m.type = CtrlType::kConnRtu;
  std::vector<std::uint8_t> bytes = encode(m);
  bytes.insert(bytes.end(), {200, 3, 1, 2, 3});
  bytes[19] = 5;
  EXPECT_EQ(decode_ctrl(bytes, back), DropReason::kNone);
  m.type = CtrlType::kStreamClose;
  bytes = encode(m);
  const std::vector<std::uint8_t> again(bytes.begin() + 40, bytes.end());
  bytes.insert(bytes.end(), again.begin(), again.end());
  bytes[19] = static_cast<std::uint8_t>(bytes.size() - 40);
  EXPECT_EQ(decode_ctrl(bytes, back), DropReason::kCtrlMalformed);
}

// [MR-3.2.2]
TEST(CtrlCodec, crc_trailer_is_verified) {
  CtrlMessage m, back;
  m.type = CtrlType::kConnRtu;
  m.crc = true;
  std::vector<std::uint8_t> bytes = encode(m);
  EXPECT_EQ(decode_ctrl(bytes, back), DropReason::kNone);
  bytes[30] ^= 1;
  EXPECT_EQ(decode_ctrl(bytes, back), DropReason::kCrc);
}

TEST(Cookie, siphash_known_answer) {
  // Appendix A of the SipHash paper: key 00..0f, input 00..0e.
  std::uint8_t in[15];
  for (std::uint8_t i = 0; i < 15; ++i) in[i] = i;
  EXPECT_EQ(siphash24(0x0706050403020100, 0x0f0e0d0c0b0a0908, in, 15), 0xa129ca6149be45e5ULL);
}

// [MR-5.2.4] [MR-5.2.18]
TEST(Cookie, binds_every_part_of_its_scope_and_expires) {
  CookieJar jar;
  jar.set_key(0, 1, 2);
  CookieScope s{IpAddress::v4(10, 0, 0, 1), 47910, {3, 4}, 5};
  const Nanos t = 100 * kSecond;
  const std::uint64_t cookie = jar.make(t, s);
  EXPECT_TRUE(jar.check(t, cookie, s));
  EXPECT_TRUE(jar.check(t + CookieJar::kSlot, cookie, s));
  EXPECT_FALSE(jar.check(t + 2 * CookieJar::kSlot, cookie, s));
  EXPECT_FALSE(jar.check(t, cookie ^ 8, s));
  EXPECT_FALSE(jar.check(t, 0, s));
  for (int i = 0; i < 6; ++i) {
    CookieScope o = s;
    if (i == 0) o.source.b[3] ^= 1;
    if (i == 1) o.worker_port ^= 1;
    if (i == 2) o.instance.hi ^= 1;
    if (i == 3) o.instance.lo ^= 1;
    if (i == 4) o.conn_epoch ^= 1;
    if (i == 5) o.source.v6 = true;
    EXPECT_FALSE(jar.check(t, cookie, o)) << i;
  }
}

TEST(Cookie, previous_key_is_accepted_once) {
  CookieJar jar;
  CookieScope s{IpAddress::v4(10, 0, 0, 1), 47910, {3, 4}, 5};
  EXPECT_TRUE(jar.key_due(0));
  jar.set_key(0, 1, 2);
  const std::uint64_t cookie = jar.make(10, s);
  jar.set_key(20, 3, 4);
  EXPECT_TRUE(jar.check(30, cookie, s));
  jar.set_key(40, 5, 6);
  EXPECT_FALSE(jar.check(50, cookie, s));
}

// [MR-5.5.8]
TEST(SerialWindow, remembers_answers_within_its_span_only) {
  SerialWindow w;
  const std::uint32_t first = 0xffffff00;  // across the wrap
  w.start(first);
  using Verdict = SerialWindow::Verdict;
  EXPECT_EQ(w.look(first - 1), Verdict::kNew);  // a request sent before may still come
  EXPECT_EQ(w.look(first + SerialWindow::kSpan), Verdict::kOutside);
  for (std::uint32_t i = 0; i < 1000; i += 2) {
    ASSERT_EQ(w.look(first + i), Verdict::kNew);
    w.mark(first + i, static_cast<std::uint8_t>(i % 7));
    ASSERT_EQ(w.look(first + i), Verdict::kSeen);
    ASSERT_EQ(w.answer(first + i), i % 7);
  }
  EXPECT_EQ(w.look(first + 997), Verdict::kNew);  // skipped, in span
  EXPECT_EQ(w.look(first), Verdict::kOutside);
}

// [MR-5.3.2]
TEST(Params, initial_pseq_is_the_same_on_both_sides_and_differs_by_path) {
  EXPECT_EQ(initial_pseq(1, PathId{0}).v, static_cast<std::uint32_t>(mix64(1)));
  EXPECT_NE(initial_pseq(1, PathId{0}), initial_pseq(1, PathId{1}));
}

}  // namespace metaroce::control
