// What must hold for every row of the table, present and future.
#include <gtest/gtest.h>

#include <set>

#include "config/load.h"
#include "config/schema.h"
#include "config_text.h"

namespace metaroce::config {
namespace {

// How many members an aggregate has: the most initialisers that it takes.
struct Any {
  template <typename T>
  operator T() const {
    return T{};
  }
};
template <typename T, typename... Args>
constexpr std::size_t members_of() {
  if constexpr (requires { T{Args{}..., Any{}}; })
    return members_of<T, Args..., Any>();
  else
    return sizeof...(Args);
}

const Section& section_named(const char* key) {
  for (const Field& f : root_section().fields)
    if (f.key == key) return *f.section;
  ADD_FAILURE() << key;
  return root_section();
}

struct Row {
  const Section* section;
  const Field* field;
  std::string path;  // with [0] for lists
};
void collect(const Section& section, const std::string& path, std::vector<Row>& rows) {
  for (const Field& f : section.fields) {
    const std::string here = path.empty() ? f.key : path + "." + f.key;
    rows.push_back({&section, &f, here});
    if (f.section != nullptr)
      collect(*f.section, here + (f.shape == Shape::kSectionList ? "[0]" : ""), rows);
  }
}
std::vector<Row> all_rows() {
  std::vector<Row> rows;
  collect(root_section(), "", rows);
  return rows;
}

// A file in flow style whose only content is `key: x` at the place of `path`.
std::string file_with(const std::string& path, const std::string& key) {
  std::string text, tail, rest = path;
  while (true) {
    const auto dot = rest.find('.');
    if (dot == std::string::npos) break;
    std::string part = rest.substr(0, dot);
    rest = rest.substr(dot + 1);
    const bool list = part.ends_with("[0]");
    if (list) part.resize(part.size() - 3);
    text += "{" + part + ": " + (list ? "[" : "");
    tail = (list ? "]}" : "}") + tail;
  }
  return text + "{\"" + key + "\": x}" + tail + "\n";
}

std::vector<std::string> misspellings(const std::string& key) {
  std::vector<std::string> words = {key + key.back(), key + " ", " " + key};
  std::string upper = key, dashed = key, swapped = key;
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  for (char& c : dashed)
    if (c == '_') c = '-';
  std::swap(swapped[0], swapped[1]);
  words.push_back(upper);
  if (dashed != key) words.push_back(dashed);
  if (key.size() > 4) {  // what is left of a shorter one may be as near to another
    words.push_back(swapped);
    words.push_back(key.substr(1));
    words.push_back(key.substr(0, key.size() - 1));
  }
  return words;
}

TEST(Table, has_every_member_of_the_structs) {
  EXPECT_EQ(section_named("transport").fields.size(), members_of<TransportConfig>());
  EXPECT_EQ(section_named("eal").fields.size(), members_of<EalConfig>());
  EXPECT_EQ(section_named("control").fields.size(), members_of<ControlConfig>());
  EXPECT_EQ(section_named("limits").fields.size(), members_of<LimitsConfig>());
  EXPECT_EQ(section_named("faults").fields.size(), members_of<FaultsConfig>());
  EXPECT_EQ(section_named("hosts").fields.size(), members_of<HostConfig>());
  for (const Field& f : section_named("hosts").fields) {
    if (f.key == "ports") {
      EXPECT_EQ(f.section->fields.size(), members_of<PortConfig>());
    }
    if (f.key == "groups") {
      EXPECT_EQ(f.section->fields.size(), members_of<GroupConfig>());
    }
    if (f.key == "neighbours") {
      EXPECT_EQ(f.section->fields.size(), members_of<NeighbourConfig>());
    }
  }
}

TEST(Table, rows_are_complete_and_unique) {
  std::set<std::string> paths;
  for (const Row& row : all_rows()) {
    SCOPED_TRACE(row.path);
    EXPECT_TRUE(paths.insert(row.path).second);
    EXPECT_FALSE(row.field->text.empty());
    EXPECT_TRUE(row.field->text.ends_with('.'));
    EXPECT_TRUE(row.field->section != nullptr || !row.field->accepts.empty());
    // print_defaults() needs something to show.
    const bool unset =
        row.field->shape == Shape::kScalar && row.field->print(row.section->defaults).empty();
    EXPECT_TRUE(!unset || !row.field->example.empty());
  }
}

TEST(Table, defaults_and_examples_are_accepted) {
  for (const Row& row : all_rows()) {
    if (row.field->shape != Shape::kScalar) continue;
    SCOPED_TRACE(row.path);
    // Reading goes to a scratch object of the root: only whether the codec throws matters.
    const auto printed = row.field->print(row.section->defaults);
    const bool placeholder = !row.field->example.empty();
    std::string text = placeholder ? row.field->example : printed.at(0);
    const bool quoted = text.starts_with('"');
    if (quoted) text = text.substr(1, text.size() - 2);
    alignas(64) static PortConfig port;
    static DaemonConfig config;
    void* object = nullptr;
    for (const auto& [prefix, target] :
         std::initializer_list<std::pair<const char*, void*>>{{"eal.", &config.eal},
                                                              {"control.", &config.control},
                                                              {"transport.", &config.transport},
                                                              {"limits.", &config.limits},
                                                              {"hosts[0].ports[0].", &port}})
      if (row.path.starts_with(prefix)) object = target;
    if (object == nullptr) continue;
    EXPECT_NO_THROW(row.field->read({text, quoted}, object));
  }
}

TEST(Table, every_misspelt_key_gets_the_right_hint) {
  for (const Row& row : all_rows()) {
    std::set<std::string> known;
    for (const Field& f : row.section->fields) known.insert(f.key);
    for (const std::string& word : misspellings(row.field->key)) {
      if (known.contains(word)) continue;
      const auto result = load_text("f.yaml", file_with(row.path, word), test_options());
      ASSERT_FALSE(result.ok());
      expect_one_line(result.error());
      const bool hint =
          result.error().find("nearest known key \"" + row.field->key + "\"") != std::string::npos;
      // "corrupt" for "corrupts" and the like; another key's exact name is a better guess.
      const bool elsewhere = result.error().find("the key belongs to ") != std::string::npos;
      EXPECT_TRUE(hint || elsewhere) << row.path << " as '" << word << "': " << result.error();
    }
  }
}

TEST(Table, every_value_of_the_wrong_type_is_refused_at_its_path) {
  for (const Row& row : all_rows()) {
    if (row.field->section != nullptr || row.field->kinds != 0) continue;
    if (row.path.starts_with("hosts")) continue;  // required keys beside it would be missed first
    const std::string text = file_with(row.path, row.field->key);
    const auto bad = text.find(": x}");
    const auto result =
        load_text("f.yaml", std::string(text).replace(bad, 4, ": {a: b}}"), test_options());
    ASSERT_FALSE(result.ok()) << row.path;
    EXPECT_TRUE(result.error().starts_with("f.yaml:1: " + row.path + ": a mapping where"))
        << result.error();
  }
}

}  // namespace
}  // namespace metaroce::config
