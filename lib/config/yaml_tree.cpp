#include "config/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "config/failure.h"

namespace metaroce::config {
namespace {

constexpr std::size_t kMaxDepth = 16;

[[noreturn]] void fail(int line, const std::string& what) { throw Failure(line, "YAML", what); }

// Length of the well-formed UTF-8 sequence at the front (Unicode 15, table 3-7), 0 if none.
std::size_t utf8_length(std::string_view s) {
  const auto byte = [&](std::size_t i) {
    return i < s.size() ? static_cast<unsigned char>(s[i]) : 0U;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xc0U) == 0x80U; };
  const unsigned b0 = byte(0), b1 = byte(1);
  if (b0 < 0x80) return 1;
  if (b0 >= 0xc2 && b0 <= 0xdf) return tail(1) ? 2 : 0;
  if (b0 >= 0xe0 && b0 <= 0xef) {
    const bool overlong = b0 == 0xe0 && b1 < 0xa0, surrogate = b0 == 0xed && b1 > 0x9f;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (b0 >= 0xf0 && b0 <= 0xf4) {
    const bool overlong = b0 == 0xf0 && b1 < 0x90, beyond = b0 == 0xf4 && b1 > 0x8f;
    return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

// Tabs before the text of a line; yaml-cpp's words for them help nobody.
bool indented_by_tab(std::string_view rest) {
  const std::size_t text = rest.find_first_not_of(" \t");
  return text != std::string_view::npos && rest[text] != '\n' && rest[text] != '\r' &&
         rest[text] != '#' && rest.substr(0, text).find('\t') != std::string_view::npos;
}

void check_characters(std::string_view text) {
  int line = 1;
  for (std::size_t i = 0; i < text.size();) {
    if ((i == 0 || text[i - 1] == '\n') && indented_by_tab(text.substr(i)))
      fail(line, "a tab in the indentation; accepted: spaces");
    const std::size_t n = utf8_length(text.substr(i));
    if (n == 0) fail(line, "not UTF-8 text; save the file as UTF-8");
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\r' && (i + 1 == text.size() || text[i + 1] != '\n'))
      fail(line, "carriage return without line feed; end lines with LF or CR LF");
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
      fail(line, fmt::format("control character 0x{:02x}; remove it", c));
    if (c == '\n') ++line;
    i += n;
  }
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string_view text) : lines_(split_lines(text)) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0)
      fail(mark.line + 1, "a second document starts; accepted: one document in a file");
  }
  void OnDocumentEnd() override {}

  // yaml-cpp reports `key:` and `key: null` alike; the text at the mark tells them apart. A null
  // below its key's line counts as no value: the mark of "no value" is the next token.
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    YamlNode node;
    node.line = mark.line + 1;
    const bool belongs = stack_.empty() || stack_.back().node.kind != YamlNode::Kind::kMap ||
                         !stack_.back().has_key || stack_.back().key.line == node.line;
    if (const auto word = null_word(mark); belongs && !word.empty()) {
      node.kind = YamlNode::Kind::kScalar;
      node.text = word;
    } else {
      node.line = belongs ? line_before(mark) : stack_.back().key.line;
    }
    add(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark.line + 1, "an alias (*name); accepted: every value written out");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.line = mark.line + 1;
    node.text = value;
    node.quoted = tag == "!";
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::kList, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YamlNode key;
    bool has_key = false;
  };

  static void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0) fail(mark.line + 1, "an anchor (&name); accepted: every value written out");
  }
  static void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag != "?" && tag != "!" && !tag.empty())
      fail(mark.line + 1, fmt::format("a tag ({}); accepted: values without tags", tag));
  }

  std::string_view null_word(const YAML::Mark& mark) const {
    static constexpr std::array<std::string_view, 4> kWords = {"null", "Null", "NULL", "~"};
    if (mark.line < 0 || static_cast<std::size_t>(mark.line) >= lines_.size()) return {};
    const std::string_view line = lines_[static_cast<std::size_t>(mark.line)];
    if (mark.column < 0 || static_cast<std::size_t>(mark.column) >= line.size()) return {};
    const std::string_view rest = line.substr(static_cast<std::size_t>(mark.column));
    for (const auto word : kWords)
      if (rest.starts_with(word) &&
          (rest.size() == word.size() ||
           std::string_view(" \t\r,]}:").find(rest[word.size()]) != std::string_view::npos))
        return word;
    return {};
  }

  // Line of the last text before the mark: where a value is missed whose mark is the next token.
  int line_before(const YAML::Mark& mark) const {
    constexpr std::string_view kBlank = " \t\r";
    for (int line = std::min(mark.line, static_cast<int>(lines_.size()) - 1); line >= 0; --line) {
      std::string_view text = lines_[static_cast<std::size_t>(line)];
      if (line == mark.line) text = text.substr(0, static_cast<std::size_t>(mark.column));
      const auto first = text.find_first_not_of(kBlank);
      if (first != std::string_view::npos && text[first] != '#') return line + 1;
    }
    return 1;
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (stack_.size() >= kMaxDepth)
      fail(mark.line + 1, fmt::format("nested more than {} levels deep", kMaxDepth));
    Open entry;
    entry.node.kind = kind;
    entry.node.line = mark.line + 1;
    stack_.push_back(std::move(entry));
  }
  void close() {
    YamlNode node = std::move(stack_.back().node);
    stack_.pop_back();
    add(std::move(node));
  }
  void add(YamlNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = stack_.back();
    if (parent.node.kind == YamlNode::Kind::kMap && !parent.has_key) {
      if (node.kind != YamlNode::Kind::kScalar)
        fail(node.line, "a key that is not a word; accepted: `key: value`");
      parent.key = std::move(node);
      parent.has_key = true;
      return;
    }
    if (parent.node.kind == YamlNode::Kind::kMap) parent.node.keys.push_back(parent.key);
    parent.has_key = false;
    parent.node.items.push_back(std::move(node));
  }

  std::vector<std::string_view> lines_;
  std::vector<Open> stack_;
  YamlNode root_;
  int documents_ = 0;
};

}  // namespace

YamlNode parse_yaml(std::string_view text) {
  if (text.size() > kMaxFileBytes)
    fail(1, fmt::format("larger than {} KiB; is this a configuration file?", kMaxFileBytes / 1024));
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  check_characters(text);
  TreeBuilder builder(text);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    fail(std::max(e.mark.line, 0) + 1,
         e.msg + "; check indentation, quotes and brackets here and in the lines above");
  }
  YamlNode root = builder.take();
  if (root.kind == YamlNode::Kind::kNothing)
    fail(1, "empty file; start from the output of `metaroced --print-defaults`");
  return root;
}

std::string yaml_string(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
           c == '.' || c == '_' || c == '-';
  };
  const bool safe = !text.empty() && std::all_of(text.begin(), text.end(), plain) &&
                    text.front() != '-' && text.front() != '.';
  if (safe) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace metaroce::config
