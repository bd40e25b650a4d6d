// Reads a tree into the struct by the table, and remembers where each value stood, so that checks
// across keys can point at a line too.
#pragma once

#include <map>
#include <string>

#include "config/daemon_config.h"
#include "config/yaml_tree.h"

namespace metaroce::config {

struct Section;

// "hosts[0].ports[1].mtu" -> line. Paths that the file does not hold have the line of the nearest
// enclosing path that it does.
class Locations {
 public:
  void add(const std::string& path, int line) { lines_[path] = line; }
  [[nodiscard]] bool has(const std::string& path) const { return lines_.contains(path); }
  [[nodiscard]] int line(std::string path) const;

 private:
  std::map<std::string, int> lines_;
};

// Reads any table's tree into its object. What the file does not hold stays as it is. Throws
// Failure.
void read_tree(const Section& table, const YamlNode& root, void* object, Locations& locations);
// Throws Failure.
void read_config(const YamlNode& root, DaemonConfig& config, Locations& locations);

}  // namespace metaroce::config
