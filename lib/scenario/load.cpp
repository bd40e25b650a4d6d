#include "scenario/load.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "config/check.h"
#include "config/failure.h"
#include "config/reader.h"
#include "config/yaml_tree.h"
#include "scenario/table.h"

namespace metaroce::scenario {
namespace {

using config::Error;
using config::Failure;
using config::Locations;
using config::YamlNode;

namespace fs = std::filesystem;

constexpr int kMaxIncludes = 4;
constexpr std::size_t kMaxDataFile = 256U << 20;

// A failure whose file is known.
struct Located : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void fail(const std::string& file, int line, const std::string& path,
                       const std::string& what) {
  std::string text = line > 0 ? fmt::format("{}:{}: {}: {}", file, line, path, what)
                              : fmt::format("{}: {}: {}", file, path, what);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  throw Located(text);
}

// One file that was read, or one override.
struct Layer {
  std::string name;
  Locations at;
  bool lines = true;
};

class Loader {
 public:
  ScenarioFile file;

  void read_file(const std::string& path, int depth) {
    read_text(path, text_of(path, config::kMaxFileBytes + 1, "a readable YAML file"),
              fs::path(path).parent_path(), depth);
  }

  void read_text(const std::string& name, std::string_view text, const fs::path& folder,
                 int depth) {
    const YamlNode root = parsed(name, text);
    if (const YamlNode* include = item(root, "include"))
      if (include->kind == YamlNode::Kind::kScalar) {
        if (depth == kMaxIncludes)
          fail(name, include->line, "include", fmt::format("over {} files deep", kMaxIncludes));
        const fs::path inner = folder / include->text;
        if (!fs::is_regular_file(inner))
          fail(name, include->line, "include",
               fmt::format("{} is not a file; accepted: a path from the folder of this file",
                           config::shown(inner.string())));
        read_file(inner.string(), depth + 1);
      }
    read_layer(name, root, folder, true);
  }

  // `key.path=value`.
  void read_override(const std::string& text) {
    const std::string name = "--set " + text;
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      fail(name, 0, "override", "is not key=value; accepted: fabric.planes=4");
    std::string path = text.substr(0, equals);
    if (equals + 1 == text.size()) fail(name, 0, path, "has no value; accepted: key=value");
    YamlNode node = parsed(name, text.substr(equals + 1));
    node.line = 1;
    while (!path.empty()) {
      const auto dot = path.rfind('.');
      YamlNode key, map;
      key.kind = YamlNode::Kind::kScalar;
      key.text = path.substr(dot == std::string::npos ? 0 : dot + 1);
      map.kind = YamlNode::Kind::kMap;
      key.line = map.line = 1;
      map.keys.push_back(std::move(key));
      map.items.push_back(std::move(node));
      node = std::move(map);
      path.resize(dot == std::string::npos ? 0 : dot);
    }
    read_layer(name, node, {}, false);
  }

  Loaded finish() {
    try {
      return resolve();
    } catch (const Failure& f) {
      blame(f.path, f.what());
    }
  }

 private:
  static YamlNode parsed(const std::string& name, std::string_view text) {
    try {
      return config::parse_yaml(text);
    } catch (const Failure& f) {
      fail(name, f.line, f.path, f.what());
    }
  }

  static std::string text_of(const std::string& path, std::size_t most, const char* wanted) {
    std::ifstream in(path, std::ios::binary);
    if (!fs::is_regular_file(path) || !in)
      fail(path, 0, "file", fmt::format("cannot be read; accepted: {}", wanted));
    if (fs::file_size(path) > most) fail(path, 0, "file", "is too long");
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  static const YamlNode* item(const YamlNode& map, std::string_view key) {
    if (map.kind != YamlNode::Kind::kMap) return nullptr;
    for (std::size_t i = 0; i < map.keys.size(); ++i)
      if (map.keys[i].text == key) return &map.items[i];
    return nullptr;
  }

  void read_layer(const std::string& name, const YamlNode& root, const fs::path& folder,
                  bool lines) {
    Layer layer{name, {}, lines};
    try {
      config::read_tree(scenario_keys(), root, &file, layer.at);
    } catch (const Failure& f) {
      fail(name, lines ? f.line : 0, f.path, f.what());
    }
    if (layer.at.has("workload.file"))
      file.workload.file = (folder / file.workload.file).lexically_normal().string();
    layers_.push_back(std::move(layer));
  }

  // Names the layer that set the key, else the last file.
  [[noreturn]] void blame(const std::string& path, const std::string& what) const {
    const Layer* of = nullptr;
    for (std::string at = path;;) {
      for (const Layer& l : layers_)
        if (l.at.has(at)) of = &l;
      const auto cut = at.find_last_of(".[");
      if (of != nullptr || cut == std::string::npos) break;
      at.resize(cut);
    }
    if (of == nullptr)
      for (const Layer& l : layers_)
        if (l.lines) of = &l;
    fail(of->name, of->lines ? of->at.line(path) : 0, path, what);
  }

  void check_transport() const {
    config::DaemonConfig daemon;
    daemon.transport = file.transport;
    daemon.hosts[0].ports.resize(file.fabric.planes);
    daemon.control.max_clients = daemon.limits.cqs = daemon.limits.regions = 1;
    Locations all;
    for (const Layer& l : layers_)
      for (const config::Field& f : config::transport_keys().fields)
        if (const auto key = "transport." + f.key; l.at.has(key)) all.add(key, l.at.line(key));
    config::check_transport(daemon, all);
  }

  // Ports that are slower than the fabric's links.
  void slow_down(sim::Scenario& s) const {
    if (s.host.line_rates.empty()) return;
    for (std::uint32_t h = 0; h < fabric::host_count(s.fabric); ++h) {
      fabric::Fault f;
      f.kind = fabric::FaultKind::kRate;
      f.target.scope = fabric::Scope::kHost;
      f.target.id = h;
      f.rate_mbps = sim::port_rate(s, static_cast<std::uint16_t>(h), 0);
      s.fabric.faults.push_back(f);
    }
  }

  Loaded resolve() {
    Loaded out;
    sim::Scenario& s = out.scenario;
    s.name = file.name;
    s.description = file.description;
    s.seed = file.seed;
    s.fabric = file.fabric;
    s.workload = file.workload;
    s.transport = file.transport;
    s.host = file.host;
    s.limits = file.limits;
    s.output = file.output;
    s.canary = file.canary;
    if (const auto why = fabric::check(s.fabric); !why.empty()) throw Failure(1, "fabric", why);
    if ((s.host.ring_size & (s.host.ring_size - 1)) != 0)
      throw Failure(1, "host.ring_size", "is not a power of two; accepted: 1, 2, 4, ... 65536");
    check_transport();
    if (file.loss != 0) {
      fabric::Fault f;
      f.probability = file.loss;
      s.fabric.faults.push_back(f);
    }
    slow_down(s);
    for (std::size_t i = 0; i < file.faults.size(); ++i)
      if (const auto why = config::add_faults(file.faults[i], s.fabric, s.fabric.faults);
          !why.empty())
        throw Failure(1, fmt::format("faults[{}].target", i), why);
    for (fabric::Fault& f : s.fabric.faults)
      if (f.at_ns > 0) f.at_ns += s.host.warm_idle;
    if (!s.workload.file.empty())
      s.workload.text = text_of(s.workload.file, kMaxDataFile, "a readable file");
    auto made = sim::make_workload(s);
    if (const auto* error = std::get_if<sim::WorkloadError>(&made))
      throw Failure(1, "workload", error->what);
    out.workload = std::get<sim::Workload>(std::move(made));
    return out;
  }

  std::vector<Layer> layers_;
};

template <typename Read>
config::Result<Loaded> load(const std::vector<std::string>& overrides, Read read) {
  try {
    Loader loader;
    read(loader);
    for (const std::string& text : overrides) loader.read_override(text);
    return loader.finish();
  } catch (const Located& e) {
    return Error{e.what()};
  } catch (const std::exception& e) {  // out of memory, or a file that vanished meanwhile
    return Error{fmt::format("scenario: {}", e.what())};
  }
}

}  // namespace

config::Result<Loaded> load_file(const std::string& path,
                                 const std::vector<std::string>& overrides) {
  return load(overrides, [&](Loader& l) { l.read_file(path, 0); });
}

config::Result<Loaded> load_text(const std::string& name, std::string_view text,
                                 const std::string& folder,
                                 const std::vector<std::string>& overrides) {
  return load(overrides, [&](Loader& l) { l.read_text(name, text, folder, 0); });
}

std::uint64_t transport_hash(const TransportConfig& transport) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a over the printed block
  for (const char c : config::print_section(config::transport_keys(), &transport))
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

std::vector<std::string> transport_differences(const TransportConfig& transport) {
  const TransportConfig defaults;
  std::vector<std::string> out;
  for (const config::Field& f : config::transport_keys().fields) {
    const auto now = f.print(&transport), usual = f.print(&defaults);
    if (now != usual) out.push_back(fmt::format("{}: {}", f.key, config::comma_list(now)));
  }
  return out;
}

}  // namespace metaroce::scenario
