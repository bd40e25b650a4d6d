// The text of a file as a tree that remembers lines. Built from yaml-cpp's events instead of its
// nodes, because nodes lose what strictness needs: duplicate keys (the winner is not dependable),
// whether a scalar was quoted, the spelling of null (a host may be called so).
//
// Bounds, so that no file costs more than reading it: 256 KiB, 16 levels, no anchors, no aliases,
// no tags, one document.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace metaroce::config {

inline constexpr std::size_t kMaxFileBytes = 256 * 1024;

struct YamlNode {
  enum class Kind { kNothing, kScalar, kList, kMap };  // kNothing: a key without a value
  Kind kind = Kind::kNothing;
  int line = 0;                // from 1
  std::string text;            // scalar
  bool quoted = false;         // scalar: quoted or block, certainly a string
  std::vector<YamlNode> keys;  // map: scalars, one per item
  std::vector<YamlNode> items;
};

// Throws Failure.
YamlNode parse_yaml(std::string_view text);

// As a double-quoted or plain YAML scalar that reads back as this string.
std::string yaml_string(std::string_view text);

}  // namespace metaroce::config
