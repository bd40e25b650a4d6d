#include "metaroce-ctl/fault_words.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <string_view>

namespace metaroce::ctl {
namespace {

// Nothing that could end a YAML scalar.
bool plain(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_.%/->").find(c) != std::string_view::npos;
  });
}

bool is_duration(std::string_view word) {
  const auto unit =
      std::find_if(word.begin(), word.end(), [](char c) { return c < '0' || c > '9'; });
  if (unit == word.begin()) return false;
  const std::string_view name = word.substr(static_cast<std::size_t>(unit - word.begin()));
  return name == "ns" || name == "us" || name == "ms" || name == "s";
}

std::pair<std::string, std::string> recognise(const std::string& word) {
  if (const auto equals = word.find('='); equals != std::string::npos)
    return {word.substr(0, equals), word.substr(equals + 1)};
  if (word.ends_with('%')) return {"probability", word};
  if (word.ends_with("b/s")) return {"rate", word};
  if (is_duration(word)) return {"delay", word};
  if (word == "on" || word == "off") return {"on", word == "on" ? "true" : "false"};
  return {"target", word};
}

}  // namespace

std::string fault_text(const std::vector<std::string>& words, std::string& out) {
  if (words.empty()) return "no fault; accepted: show, or a kind like down, up, loss, rate";
  std::vector<std::pair<std::string, std::string>> keys = {{"kind", words[0]}};
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "plane") {
      if (++i == words.size()) return "plane without a number; accepted: plane 0";
      keys.emplace_back("plane", words[i]);
    } else {
      keys.push_back(recognise(words[i]));
    }
  }
  std::map<std::string, std::string> seen;
  out = "{";
  for (const auto& [key, value] : keys) {
    if (!plain(key) || !plain(value))
      return fmt::format("\"{}\": \"{}\" holds a character that no fault has", key, value);
    if (const auto [first, fresh] = seen.emplace(key, value); !fresh)
      return fmt::format("{} and {} are both a {}; accepted: one", first->second, value, key);
    // A target may begin with what YAML takes for something else; it is a string in any case.
    const char* quote = key == "target" ? "\"" : "";
    out += fmt::format("{}{}: {}{}{}", out.size() > 1 ? ", " : "", key, quote, value, quote);
  }
  out += "}";
  return {};
}

}  // namespace metaroce::ctl
