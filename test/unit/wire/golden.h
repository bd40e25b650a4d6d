// Packets as bytes, written down from the specification's tables and not from the structures:
// field by field, big-endian, in the order of the wire.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "wire/packet.h"

namespace metaroce::wire::golden {

using ByteVector = std::vector<std::uint8_t>;

// Hex digits; blanks and '|' are for the reader.
inline ByteVector hex(std::string_view text) {
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
inline Checked check(const ByteVector& v) {
  const ByteVector copy(v);
  return check_packet(copy.data(), static_cast<std::uint32_t>(copy.size()));
}

inline Common common(Type t, std::uint8_t flags = 0) {
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
inline constexpr std::string_view kTail =
    "21 32 | abcdef12 | 80000001 | fffffffe |";  // after ver, flags
inline std::string packet(std::string_view ver_type_flags, std::string_view rest) {
  return std::string(ver_type_flags) + std::string(kTail) + std::string(rest);
}

inline Data data(std::uint8_t op, std::uint8_t flags = 0) {
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
inline constexpr std::string_view kData =
    "fd 0102 03040506 15 0a0b0c |";  // after the operation byte
inline std::string data_hex(std::string_view flags, std::string_view op, std::string_view rest) {
  return packet("11" + std::string(flags),
                std::string(op) + std::string(kData) + std::string(rest));
}

inline Write write(std::uint8_t op, std::uint8_t flags = 0) {
  Write w{};
  w.d = data(op, flags);
  w.va = 0x1122334455667788;
  w.rkey = 0x99aabbcc;
  w.message_length = 0x80000000;
  return w;
}
inline constexpr std::string_view kWrite = "1122334455667788 99aabbcc 80000000";

inline Send send(std::uint8_t op) {
  Send s{};
  s.d = data(op);
  s.rqn = 0xfedcba98;
  s.offset = 0x00001000;
  s.message_length = 0x00002345;
  return s;
}
inline constexpr std::string_view kSend = "fedcba98 00001000 00002345";

// One packet of each kind, only its fixed part.
struct Sample {
  const char* name;
  ByteVector bytes;  // the fixed part
};
inline std::vector<Sample> samples() {
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

}  // namespace metaroce::wire::golden
