// The configuration as YAML, from the table: commented for print_defaults(), bare for
// print_config(). Keys without a value, and keys of other kinds of port, appear as comments.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "config/load.h"
#include "config/schema.h"
#include "config/yaml_tree.h"

namespace metaroce::config {
namespace {

constexpr std::size_t kWidth = 96;

class Printer {
 public:
  explicit Printer(bool comments) : comments_(comments) {}

  void print_section(const Section& section, const void* object, std::size_t indent,
                     bool item = false) {
    // The first key that is printed, not commented out, carries the dash of a list item.
    bool dash = item;
    for (const Field& f : section.fields) {
      const bool fits = section.fits(f, object);
      const std::string margin(indent, ' ');
      if (f.section != nullptr) {
        print_nested(f, object, indent, dash);
        continue;
      }
      const auto lines = f.print(object);
      const bool set = f.shape == Shape::kScalarList || !lines.empty();
      if ((!fits || !set) && !comments_) continue;
      comment(note(section, f), indent);
      const std::string lead = std::exchange(dash, false) ? dashed(indent) : margin;
      if (!fits || !set)
        out_ += fmt::format("{}# {}: {}\n", lead, f.key,
                            f.example.empty() && set ? lines[0] : f.example);
      else if (f.shape == Shape::kScalarList)
        out_ += fmt::format("{}{}: [{}]\n", lead, f.key, comma_list(lines));
      else
        out_ += fmt::format("{}{}: {}\n", lead, f.key, lines[0]);
    }
    if (dash) out_ += fmt::format("{}{{}}\n", dashed(indent));
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string dashed(std::size_t indent) { return std::string(indent - 2, ' ') + "- "; }

  static std::string note(const Section& section, const Field& f) {
    const std::string kinds = section.names_of_kinds(f.kinds);
    return fmt::format("{}{} Accepted: {}.", kinds.empty() ? "" : "Kind " + kinds + ": ", f.text,
                       f.accepts);
  }

  void print_nested(const Field& f, const void* object, std::size_t indent, bool& dash) {
    const auto children = f.children(object);
    comment(f.text, indent);
    const std::string lead = std::exchange(dash, false) ? dashed(indent) : std::string(indent, ' ');
    if (children.empty()) {
      out_ += fmt::format("{}{}: []\n", lead, f.key);
      return;
    }
    out_ += fmt::format("{}{}:\n", lead, f.key);
    const bool list = f.shape == Shape::kSectionList;
    for (const void* child : children)
      print_section(*f.section, child, indent + (list ? 4 : 2), list);
  }

  void comment(const std::string& text, std::size_t indent) {
    if (!comments_) return;
    const std::string lead = std::string(indent, ' ') + "#";
    std::string line = lead, word;
    std::istringstream words(text);
    while (words >> word) {
      if (line.size() + 1 + word.size() > kWidth && line != lead) {
        out_ += line + "\n";
        line = lead;
      }
      line += " " + word;
    }
    out_ += line + "\n";
  }

  bool comments_;
  std::string out_;
};

}  // namespace

std::string print_section(const Section& section, const void* object) {
  Printer printer(false);
  printer.print_section(section, object, 0);
  return printer.take();
}

std::string print_config(const DaemonConfig& config) {
  return print_section(root_section(), &config);
}

std::string print_defaults() {
  Printer printer(true);
  printer.print_section(root_section(), root_section().defaults, 0);
  return "# All keys of MetaRoCE with their defaults; a file needs only the keys that differ, and\n"
         "# hosts. Numbers are decimal; durations, sizes and rates carry their unit.\n\n" +
         printer.take();
}

std::string default_config_text() {
  const char* run_dir = std::getenv("XDG_RUNTIME_DIR");
  const std::string dir = run_dir != nullptr && run_dir[0] == '/' ? run_dir : "/tmp";
  const std::string socket = fmt::format("{}/metaroced-{}.sock", dir, getuid());
  return fmt::format(
      "eal:\n"
      "  memory: no_huge\n"
      "  file_prefix: metaroce-{}\n"
      "control:\n"
      "  socket: {}\n"
      "  mode: \"0600\"\n"
      "hosts:\n"
      "  - name: host0\n"
      "    ports:\n"
      "      - kind: ring\n"
      "        pair: loopback\n"
      "        address: \"10.0.0.1/24\"\n",
      getpid(), yaml_string(socket));
}

}  // namespace metaroce::config
