// metaroce-ctl: looks at a running daemon's emulated fabric and changes it.
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "metaroce-ctl/exchange.h"
#include "metaroce-ctl/fault_words.h"

namespace metaroce::ctl {
namespace {

using nlohmann::json;

constexpr int kExitOk = 0, kExitFailure = 1, kExitUsage = 2;
constexpr const char* kDefaultSocket = "/run/metaroce/metaroced.sock";

struct Options {
  std::string socket, fabric_socket;
  std::vector<std::string> words;
  bool json = false;
  int timeout_ms = 5000;
};

std::string fabric_socket(const Options& o) {
  if (!o.fabric_socket.empty()) return o.fabric_socket;
  const char* env = std::getenv("METAROCE_SOCKET");
  const std::string control = !o.socket.empty() ? o.socket : env != nullptr ? env : kDefaultSocket;
  return control + ".fabric";
}

int complain(const Options& o, int code, const std::string& why) {
  if (o.json)
    fmt::print("{}\n", json{{"ok", false}, {"error", why}}.dump(-1, ' ', false,
                                                                json::error_handler_t::replace));
  else
    fmt::print(stderr, "metaroce-ctl: {}\n", why);
  return code;
}

std::string counts(const json& named) {
  std::string out;
  for (const auto& [name, n] : named.items())
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, n.get<std::uint64_t>());
  return out.empty() ? "none" : out;
}

void print_fabric(const json& f) {
  fmt::print("fabric: {} hosts, {} planes, running for {:.3f} s\n", f["hosts"].get<std::uint64_t>(),
             f["planes"].size(), static_cast<double>(f["running_ns"].get<std::int64_t>()) / 1e9);
  fmt::print("{:>5} {:>10} {:>12} {:>14} {:>9} {:>9}\n", "plane", "links down", "packets", "bytes",
             "CE marks", "lost");
  for (const json& p : f["planes"])
    fmt::print("{:>5} {:>10} {:>12} {:>14} {:>9} {:>9}\n", p["plane"].get<std::uint64_t>(),
               p["links_down"].get<std::uint64_t>(), p["packets"].get<std::uint64_t>(),
               p["bytes"].get<std::uint64_t>(), p["ce_marks"].get<std::uint64_t>(),
               p["lost"].get<std::uint64_t>());
  fmt::print("frames: {}\n", counts(f["frames"]));
  fmt::print("lost: {}\ndropped: {}\n", counts(f["lost"]), counts(f["dropped"]));
  for (const json& l : f["links"])
    if (!l["up"].get<bool>()) fmt::print("down: {}\n", l["link"].get<std::string>());
}

int fabric(const Options& o) {
  std::string request = "show", why;
  const bool show = o.words.size() == 1 && o.words[0] == "show";
  if (!show) why = fault_text(o.words, request);
  if (!why.empty()) return complain(o, kExitUsage, why);
  std::string text;
  if (!exchange(fabric_socket(o), request, o.timeout_ms, text, why))
    return complain(o, kExitFailure, why);
  const json answer = json::parse(text, nullptr, false);
  try {
    if (!answer.at("ok").get<bool>())
      return complain(o, kExitUsage, answer.at("error").get<std::string>());
    if (o.json)
      fmt::print("{}\n", answer.dump(2));
    else if (show)
      print_fabric(answer.at("fabric"));
  } catch (const json::exception& e) {
    return complain(o, kExitFailure,
                    fmt::format("the daemon's answer is not understood: {}", e.what()));
  }
  return kExitOk;
}

int main_with(int argc, char** argv) {
  Options o;
  CLI::App app{"Looks at a running metaroced and changes it."};
  app.require_subcommand(1);
  CLI::App* f = app.add_subcommand(
      "fabric", "The emulated fabric of a daemon: `show`, or a fault that happens now.");
  f->add_option(
       "words", o.words,
       "show; or a kind (loss, burst_loss, corrupt, duplicate, reorder, jitter, blackhole, "
       "down, up, rate, propagation, rehash, stall) and, in any order, `plane N`, a target "
       "(all, host0, switch0, leaf0-spine1, switch0->host1), a probability (1%), a rate "
       "(10Gb/s), a delay (20us), on or off, key=value as in YAML")
      ->required();
  f->add_option(
      "--socket", o.socket,
      "The daemon's control socket. Default: METAROCE_SOCKET, else " + std::string(kDefaultSocket));
  f->add_option("--fabric-socket", o.fabric_socket,
                "The fabric's socket. Default: the control socket's path with .fabric behind it");
  f->add_option("--timeout-ms", o.timeout_ms, "Longest wait for the answer")
      ->check(CLI::Range(1, 600000));
  f->add_flag("--json", o.json, "The answer as one JSON document on stdout, errors included");
  app.footer(
      "Examples:\n"
      "  metaroce-ctl fabric down plane 2         metaroce-ctl fabric up plane 2\n"
      "  metaroce-ctl fabric loss 1%              metaroce-ctl fabric loss 0%\n"
      "  metaroce-ctl fabric rate 1Gb/s 'switch0->host1'\n"
      "  metaroce-ctl fabric show --json\n"
      "A fault lasts until the next of its kind and target: loss 0%, rate 0Mb/s, up end it.\n"
      "Exit codes: 0 done; 1 no daemon, no fabric or no answer; 2 usage, or a fault that the "
      "fabric "
      "refuses.");
  f->footer(app.get_footer());
  app.set_version_flag("--version", METAROCE_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kExitOk : kExitUsage;
  }
  return fabric(o);
}

}  // namespace
}  // namespace metaroce::ctl

int main(int argc, char** argv) { return metaroce::ctl::main_with(argc, argv); }
