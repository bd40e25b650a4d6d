// metaroced: owns the ports, runs the dataplane, serves applications over a Unix socket.
#include <sys/epoll.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "api/server/session_server.h"
#include "config/load.h"
#include "metaroced/summary.h"
#include "runtime/runtime.h"

namespace metaroce {
namespace {

constexpr int kExitOk = 0, kExitRuntime = 1, kExitUsage = 2;
constexpr Nanos kDrainLimit = 2 * kSecond, kProgressEvery = 60 * kSecond;
volatile std::sig_atomic_t g_signals = 0, g_state_asked = 0;

void on_signal(int) { g_signals = g_signals + 1; }
void on_state_asked(int) { g_state_asked = 1; }

void install_signals() {
  struct sigaction a {};
  a.sa_handler = on_signal;
  sigaction(SIGINT, &a, nullptr);
  sigaction(SIGTERM, &a, nullptr);
  a.sa_handler = on_state_asked;
  sigaction(SIGUSR1, &a, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

struct Options {
  std::string config;
  bool check = false, print_defaults = false, json = false;
};

ServerOptions server_options(const config::DaemonConfig& c) {
  ServerOptions o;
  o.path = c.control.socket;
  o.mode = c.control.mode;
  o.group = c.control.group;
  o.limits.clients = c.control.max_clients;
  o.limits.memory_bytes = static_cast<std::uint64_t>(c.limits.memory);
  o.limits.streams = c.limits.streams;
  o.limits.cqs = c.limits.cqs;
  o.limits.regions = c.limits.regions;
  o.log = [](const std::string& line) { fmt::print(stderr, "metaroced: {}\n", line); };
  return o;
}

// Serves until a signal; then drains: applications are told, streams closed, connections ended.
// A second signal, or kDrainLimit, cuts that short.
void serve(Runtime& runtime, SessionServer& server) {
  Nanos stop_at = kNever, progress_at = runtime.clock().now() + kProgressEvery;
  for (;;) {
    const Nanos now = runtime.clock().now();
    if (g_signals != 0 && stop_at == kNever) {
      stop_at = now + kDrainLimit;
      server.stop();
      for (auto& h : runtime.hosts()) h->control().shutdown(now + kDrainLimit / 2);
    }
    const unsigned moved = server.poll(now);
    if (runtime.inline_progress())
      runtime.inline_pass();
    else
      runtime.control_pass(now);
    if (stop_at != kNever) {
      bool done = server.idle();
      for (auto& h : runtime.hosts()) done &= h->control().drained();
      if (done || now >= stop_at || g_signals > 1) return;
    }
    if (g_state_asked != 0) {
      g_state_asked = 0;
      fmt::print(stderr, "metaroced: state {}\n", summarise(runtime, server).dump());
    }
    if (now >= progress_at) {
      progress_at = now + kProgressEvery;
      fmt::print(stderr, "metaroced: {}\n", progress_line(runtime, server));
    }
    if (moved == 0 && !runtime.inline_progress()) {
      epoll_event e{};
      epoll_wait(server.poll_fd(), &e, 1, 1);
    }
  }
}

int run(const Options& o, const config::DaemonConfig& c) {
  for (const std::string& w : c.warnings) fmt::print(stderr, "metaroced: warning: {}\n", w);
  install_signals();
  std::string error;
  ListenSocket door;  // before the ports: another daemon with this configuration has them
  if (!door.claim(c.control.socket, error)) {
    fmt::print(stderr, "metaroced: {}\n", error);
    return kExitRuntime;
  }
  auto runtime = Runtime::create(c, "metaroced", error);
  if (runtime == nullptr) {
    fmt::print(stderr, "metaroced: {}\n", error);
    return kExitRuntime;
  }
  if (!runtime->housekeeping_cpus().empty()) run_on_cpus(runtime->housekeeping_cpus());
  std::vector<SessionServer::Host> hosts;
  for (auto& h : runtime->hosts()) hosts.push_back({h->name(), &h->control()});
  auto server = SessionServer::create(server_options(c), hosts, error, std::move(door));
  if (server == nullptr) {
    fmt::print(stderr, "metaroced: {}\n", error);
    return kExitRuntime;
  }
  for (const std::string& line : runtime->report()) fmt::print(stderr, "metaroced: {}\n", line);
  fmt::print(stderr, "metaroced: ready on {}\n", c.control.socket);
  serve(*runtime, *server);
  const nlohmann::json summary = summarise(*runtime, *server);
  if (o.json)
    fmt::print("{}\n", summary.dump(2));
  else
    fmt::print(stderr, "metaroced: stopped; {}\n", progress_line(*runtime, *server));
  runtime->stop();  // the lcores stop before the memory of the sessions goes
  server.reset();
  return kExitOk;
}

int main_with(int argc, char** argv) {
  Options o;
  CLI::App app{
      "MetaRoCE dataplane daemon: owns the ports, serves applications over a Unix socket."};
  app.add_option("-c,--config", o.config,
                 "Configuration file (YAML). Default: one host on a looped-back ring");
  app.add_flag("--check", o.check, "Check the configuration and exit: 0 good, 2 not");
  app.add_flag("--print-defaults", o.print_defaults,
               "Print a commented configuration with all defaults and exit");
  app.add_flag("--json", o.json, "Print one JSON document with all counters on stdout at the end");
  app.set_version_flag("--version", METAROCE_VERSION);
  app.footer(
      "Exit codes: 0 stopped by SIGINT or SIGTERM, or check passed; 1 start-up failed; 2 usage or "
      "configuration.\n"
      "SIGINT or SIGTERM drains for at most 2 s; a second one ends at once.\n"
      "SIGUSR1 writes one line with all counters and objects, as JSON, to stderr.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kExitOk : kExitUsage;
  }
  if (o.print_defaults) {
    fmt::print("{}", config::print_defaults());
    return kExitOk;
  }
  auto loaded = o.config.empty()
                    ? config::load_text("built-in default", config::default_config_text())
                    : config::load_file(o.config);
  if (!loaded) {
    fmt::print(stderr, "{}\n", loaded.error());
    return kExitUsage;
  }
  if (o.check) {
    for (const std::string& w : loaded.value().warnings) fmt::print(stderr, "warning: {}\n", w);
    fmt::print("{}: ok\n", o.config.empty() ? "built-in default" : o.config);
    return kExitOk;
  }
  return run(o, loaded.value());
}

}  // namespace
}  // namespace metaroce

int main(int argc, char** argv) { return metaroce::main_with(argc, argv); }
