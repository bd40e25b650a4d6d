// What travels in the slots: records, packed one after the other, so that thousands of small files
// share a slot and a large one fills many. A record never spans slots. Everything but file content
// carries a check value of its own; content is covered by the SHA-256 of its file.
//
//   manifest: kManifest (type, path) ... kManifestEnd      receiver answers with what it refuses
//   files:    kFile, kData..., kFileEnd (SHA-256) | kFileAbort
//             kDirectory ... kDirectoryEnd (mode and time last: filling it needs and changes them)
//             kSymlink
//   kEnd
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/rng.h"

namespace metaroce::copy {

static_assert(std::endian::native == std::endian::little, "records are memory images");

enum class RecordKind : std::uint32_t {
  kManifest = 1,
  kManifestEnd,
  kFile,
  kData,
  kFileEnd,
  kFileAbort,
  kDirectory,
  kDirectoryEnd,
  kSymlink,
  kEnd,
};
enum class EntryType : std::uint32_t { kFile = 1, kDirectory = 2, kSymlink = 3 };

struct RecordHeader {
  RecordKind kind{};
  std::uint32_t length = 0;  // of the payload; records start at multiples of 8
  std::uint64_t check = 0;
};
static_assert(sizeof(RecordHeader) == 16);

struct Metadata {
  std::uint64_t index = 0;  // in the manifest
  std::uint64_t size = 0;
  std::int64_t mtime_s = 0;
  std::uint32_t mtime_ns = 0, mode = 0;
  EntryType type{};
  std::uint32_t path_length = 0, target_length = 0, reserved = 0;
};
static_assert(sizeof(Metadata) == 48);

inline constexpr std::size_t kMaxPath = 4095;
inline constexpr std::size_t kMaxMetadata = sizeof(Metadata) + 2 * kMaxPath;
constexpr std::size_t record_size(std::size_t payload) {
  return sizeof(RecordHeader) + (payload + 7) / 8 * 8;
}

inline std::uint64_t check_value(RecordKind kind, std::uint32_t length,
                                 const std::uint8_t* payload) {
  std::uint64_t h = mix64(std::uint64_t{length} << 32 | static_cast<std::uint32_t>(kind));
  if (kind == RecordKind::kData) return h;
  for (std::uint32_t i = 0; i < length; i += 8) {
    std::uint64_t w = 0;
    std::memcpy(&w, payload + i, std::min<std::uint32_t>(8, length - i));
    h = mix64(h ^ w);
  }
  return h;
}

// Walks the records of one slot. Whatever the bytes are, it stays inside of them.
class RecordReader {
 public:
  RecordReader(const std::uint8_t* data, std::size_t length) : data_(data), left_(length) {}
  struct Record {
    RecordKind kind{};
    const std::uint8_t* payload = nullptr;
    std::uint32_t length = 0;
  };
  // None at the end, or when the rest is damaged().
  std::optional<Record> next() {
    if (left_ == 0 || damaged_) return std::nullopt;
    RecordHeader h;
    damaged_ = left_ < sizeof h;
    if (!damaged_) {
      std::memcpy(&h, data_, sizeof h);
      damaged_ = h.length > left_ - sizeof h || record_size(h.length) > left_ ||
                 h.check != check_value(h.kind, h.length, data_ + sizeof h);
    }
    if (damaged_) return std::nullopt;
    const Record r{h.kind, data_ + sizeof h, h.length};
    data_ += record_size(h.length);
    left_ -= record_size(h.length);
    return r;
  }
  bool damaged() const { return damaged_; }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
  bool damaged_ = false;
};

// Splits a metadata payload; false when its lengths do not add up.
inline bool read_metadata(const RecordReader::Record& r, Metadata& meta, std::string& path,
                          std::string& target) {
  if (r.length < sizeof meta) return false;
  std::memcpy(&meta, r.payload, sizeof meta);
  if (meta.path_length > kMaxPath || meta.target_length > kMaxPath ||
      sizeof meta + meta.path_length + meta.target_length != r.length)
    return false;
  const char* text = reinterpret_cast<const char*>(r.payload) + sizeof meta;
  path.assign(text, meta.path_length);
  target.assign(text + meta.path_length, meta.target_length);
  return true;
}

}  // namespace metaroce::copy
