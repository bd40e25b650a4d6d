#include "config/reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/failure.h"
#include "config/schema.h"

namespace metaroce::config {
namespace {

std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string_view kind_word(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNothing:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return "a single value";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a mapping";
  }
  return "";
}

std::vector<std::string> keys_of(const Section& section) {
  std::vector<std::string> keys;
  for (const Field& f : section.fields) keys.push_back(f.key);
  return keys;
}

// The first place of the table that has this very key.
std::string find_elsewhere(const Section& section, std::string_view key, const std::string& path) {
  for (const Field& f : section.fields) {
    if (f.key == key) return join(path, f.key);
    if (f.section == nullptr) continue;
    const std::string list_mark = f.shape == Shape::kSectionList ? "[]" : "";
    if (auto found = find_elsewhere(*f.section, key, join(path, f.key) + list_mark); !found.empty())
      return found;
  }
  return {};
}

class Reader {
 public:
  Reader(const Section& table, Locations& locations) : table_(table), locations_(locations) {}

  void read_section(const Section& section, const YamlNode& node, void* object,
                    const std::string& path) {
    if (node.kind != YamlNode::Kind::kMap)
      throw Failure(node.line, path.empty() ? "file" : path,
                    fmt::format("{} where keys belong; accepted: {}", kind_word(node),
                                comma_list(keys_of(section))));
    refuse_duplicates(node, path);
    refuse_unknown(section, node, path);
    std::vector<const Field*> missing;
    for (const Field& f : section.fields) {
      const auto at = std::find_if(node.keys.begin(), node.keys.end(),
                                   [&](const YamlNode& k) { return k.text == f.key; });
      if (at == node.keys.end()) {
        if (f.required) missing.push_back(&f);
        // What else may stand here depends on the kind, which is the first field.
        if (f.required && section.kind && &f == section.fields.data()) break;
        continue;
      }
      if (!section.fits(f, object))
        throw Failure(at->line, join(path, f.key),
                      fmt::format("not a key of kind {}; accepted: with kind {}",
                                  section.names_of_kinds(section.kind(object)),
                                  section.names_of_kinds(f.kinds)));
      const auto index = static_cast<std::size_t>(at - node.keys.begin());
      locations_.add(join(path, f.key), at->line);
      read_field(f, node.items[index], object, join(path, f.key));
    }
    // Last, because a misspelt key further in explains more than what is not there.
    for (const Field* f : missing)
      if (section.fits(*f, object))
        throw Failure(node.line, path.empty() ? "file" : path,
                      fmt::format("no {}; accepted: {}", f->key, accepted(*f)));
  }

 private:
  static std::string accepted(const Field& f) {
    switch (f.shape) {
      case Shape::kScalar:
        return f.accepts;
      case Shape::kScalarList:
        return fmt::format("a list [a, b, ...], each {}", f.accepts);
      case Shape::kSection:
        return fmt::format("keys {}", comma_list(keys_of(*f.section)));
      case Shape::kSectionList:
        return fmt::format("a list of sections with keys {}", comma_list(keys_of(*f.section)));
    }
    return {};
  }

  static void refuse_duplicates(const YamlNode& node, const std::string& path) {
    std::map<std::string_view, int> seen;
    for (const YamlNode& key : node.keys) {
      const auto [first, fresh] = seen.emplace(key.text, key.line);
      if (!fresh)
        throw Failure(
            key.line, join(path, shown(key.text)),
            fmt::format("key is there twice, first in line {}; accepted: once", first->second));
    }
  }

  void refuse_unknown(const Section& section, const YamlNode& node, const std::string& path) const {
    const auto known = keys_of(section);
    for (const YamlNode& key : node.keys) {
      if (std::find(known.begin(), known.end(), key.text) != known.end()) continue;
      std::string hint;
      if (const auto elsewhere = find_elsewhere(table_, key.text, ""); !elsewhere.empty())
        hint = fmt::format("; the key belongs to {}", elsewhere);
      else if (const auto near = nearest(key.text, known); !near.empty())
        hint = fmt::format("; nearest known key \"{}\"", near);
      throw Failure(key.line, join(path, shown(key.text)),
                    fmt::format("unknown key; accepted: {}{}", comma_list(known), hint));
    }
  }

  void read_field(const Field& f, const YamlNode& node, void* object, const std::string& path) {
    if (node.kind == YamlNode::Kind::kNothing)
      throw Failure(node.line, path,
                    fmt::format("has no value; accepted: {}, or leave out the key", accepted(f)));
    switch (f.shape) {
      case Shape::kScalar:
        read_scalar(f, node, object, path);
        break;
      case Shape::kSection:
        read_section(*f.section, node, f.child(object), path);
        break;
      case Shape::kScalarList:
      case Shape::kSectionList:
        read_list(f, node, object, path);
        break;
    }
  }

  static void read_scalar(const Field& f, const YamlNode& node, void* object,
                          const std::string& path) {
    if (node.kind != YamlNode::Kind::kScalar)
      throw Failure(
          node.line, path,
          fmt::format("{} where one {} belongs; accepted: {}", kind_word(node), f.type, f.accepts));
    try {
      f.read({node.text, node.quoted}, object);
    } catch (const ValueError& e) {
      throw Failure(node.line, path, fmt::format("{}; accepted: {}", e.what(), f.accepts));
    }
  }

  void read_list(const Field& f, const YamlNode& node, void* object, const std::string& path) {
    if (node.kind != YamlNode::Kind::kList)
      throw Failure(
          node.line, path,
          fmt::format("{} where a list belongs; accepted: {}", kind_word(node), accepted(f)));
    if (node.items.size() < f.min_items || node.items.size() > f.max_items)
      throw Failure(node.line, path,
                    fmt::format("{} items; accepted: {}", node.items.size(), f.items()));
    f.clear(object);
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const YamlNode& item = node.items[i];
      const std::string item_path = fmt::format("{}[{}]", path, i);
      locations_.add(item_path, item.line);
      if (f.shape == Shape::kSectionList)
        read_section(*f.section, item, f.child(object), item_path);
      else
        read_scalar(f, item, object, item_path);
    }
  }

  const Section& table_;  // of the whole file, for hints
  Locations& locations_;
};

}  // namespace

int Locations::line(std::string path) const {
  for (;;) {
    if (const auto at = lines_.find(path); at != lines_.end()) return at->second;
    const auto cut = path.find_last_of(".[");
    if (cut == std::string::npos) return 1;
    path.resize(cut);
  }
}

void read_tree(const Section& table, const YamlNode& root, void* object, Locations& locations) {
  Reader(table, locations).read_section(table, root, object, "");
}

void read_config(const YamlNode& root, DaemonConfig& config, Locations& locations) {
  read_tree(root_section(), root, &config, locations);
}

}  // namespace metaroce::config
