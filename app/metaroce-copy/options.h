// The command line of metaroce-copy, checked before anything is touched.
#pragma once

#include <string>
#include <vector>

#include "common/api.h"
#include "common/outcome.h"

namespace metaroce::copy {

struct Options {
  std::vector<std::string> sources;
  std::string peer;       // literal
  std::string directory;  // below the one that the receiver serves; "" is itself
  std::string serve;      // receiver: the directory
  std::uint32_t service = 18516;
  bool overwrite = false, once = false, json = false, quiet = false;
  double timeout_s = 30;
  app::AttachOptions attach;
  bool help_or_version = false;
  std::string help_text;
  bool receiver() const { return !serve.empty(); }
  int timeout_ms() const { return static_cast<int>(timeout_s * 1000); }
};

app::Status parse_options(int argc, const char* const* argv, Options& out);
// "[fd00::1]:DIR", "10.0.0.2:DIR". Returns "" or a sentence.
std::string parse_target(const std::string& text, std::string& peer, std::string& directory);

}  // namespace metaroce::copy
