#include "metaroce-copy/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "common/peer_address.h"
#include "common/units.h"
#include "metaroce-copy/target_tree.h"

namespace metaroce::copy {
namespace {

using app::fail;
using app::kExitUsage;

// "a//b/./c/" -> "a/b/c"
std::string normalized(const std::string& path) {
  std::string out;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string part = path.substr(start, end - start);
    if (!part.empty() && part != ".") out += (out.empty() ? "" : "/") + part;
    start = end + 1;
  }
  return out;
}

std::string finish(const std::vector<std::string>& words, Options& o) {
  if (o.receiver()) {
    if (!words.empty()) return "--serve takes no sources";
    if (o.overwrite) return "--overwrite is for the sender";
    return "";
  }
  if (o.once) return "--once is for --serve";
  if (words.size() < 2) return "give at least one source and HOST:DIR, or --serve DIR";
  o.sources.assign(words.begin(), words.end() - 1);
  return parse_target(words.back(), o.peer, o.directory);
}

}  // namespace

std::string parse_target(const std::string& text, std::string& peer, std::string& directory) {
  const bool bracket = text.starts_with('[');
  const std::size_t close = bracket ? text.find(']') : 0;
  if (close == std::string::npos) return fmt::format("{} has no ']'", app::quoted(text));
  const std::size_t colon = text.find(':', close);
  if (colon == std::string::npos)
    return fmt::format("{} is not HOST:DIR (HOST: for the served directory itself)",
                       app::quoted(text));
  if (bracket && colon != close + 1)
    return fmt::format("{} is not [ADDRESS]:DIR", app::quoted(text));
  peer = bracket ? text.substr(1, close - 1) : text.substr(0, colon);
  if (!bracket && app::is_ip_literal(text))
    return fmt::format("{} needs brackets: [{}]:DIR", app::quoted(text), text);
  if (!app::is_ip_literal(peer))
    return fmt::format(
        "{} is not an IPv4 or IPv6 address (names are not looked up; IPv6 in brackets)",
        app::quoted(peer));
  const std::string raw = text.substr(colon + 1);
  if (raw.starts_with('/'))
    return fmt::format("{} is absolute: name a directory below the one that is served",
                       app::quoted(raw));
  directory = normalized(raw);
  if (directory.empty()) return "";
  const std::string bad = check_path(directory);
  return bad.empty() ? "" : fmt::format("{}: {}", app::quoted(raw), bad);
}

app::Status parse_options(int argc, const char* const* argv, Options& o) {
  CLI::App cli{"Copies files and directory trees by RDMA Writes over MetaRoCE."};
  std::vector<std::string> words;
  std::string service, timeout;
  // Taken as extras: as a list, CLI11 would read a file named "[a,b]" as two.
  cli.allow_extras();
  cli.description(
      "Copies files and directory trees by RDMA Writes over MetaRoCE.\n\nUsage: metaroce-copy "
      "[OPTIONS] SRC... HOST:DIR   (DIR: below the directory that HOST serves)\n"
      "       metaroce-copy [OPTIONS] --serve DIR");
  cli.add_option("--serve", o.serve, "receive into this directory, and nothing outside of it");
  cli.add_flag("--once", o.once, "with --serve: end after one client");
  cli.add_flag("--overwrite", o.overwrite,
               "replace files that exist (default: refuse, copy nothing)");
  cli.add_option("-p,--port", service, "service number (default 18516)");
  cli.add_flag("--json", o.json, "one JSON document on stdout, whatever happens");
  cli.add_flag("--quiet", o.quiet, "no progress");
  cli.add_option("--host", o.attach.host, "name of the daemon's host to use (default: its first)");
  cli.add_option("--socket", o.attach.socket, "socket of the daemon");
  cli.add_option("--embed", o.attach.embed,
                 "run the dataplane in this process, from this YAML file");
  cli.add_option("--timeout", timeout, "seconds without progress before giving up (default 30)");
  cli.set_version_flag("--version", std::string("metaroce-copy ") + metaroce_version());
  cli.footer(
      std::string("Every file is compared by SHA-256 before it gets its name. Mode and time are "
                  "kept, links are copied as links.\n") +
      app::kExitCodeHelp);
  try {
    cli.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    o.help_or_version = true;
    o.help_text = cli.help();
    return {};
  } catch (const CLI::CallForVersion& version) {
    o.help_or_version = true;
    o.help_text = std::string(version.what()) + "\n";
    return {};
  } catch (const CLI::ParseError& error) {
    return fail(kExitUsage, fmt::format("{} (--help shows the options)", error.what()));
  }
  bool only_words = false;
  for (const std::string& word : cli.remaining()) {
    if (!only_words && word == "--")
      only_words = true;
    else if (!only_words && word.size() > 1 && word.front() == '-')
      return fail(kExitUsage,
                  fmt::format("{} is not an option (--help shows them)", app::quoted(word)));
    else
      words.push_back(word);
  }
  if (cli.count("--serve") && o.serve.empty()) return fail(kExitUsage, "--serve needs a directory");
  if (!o.attach.embed.empty() && !o.attach.socket.empty())
    return fail(kExitUsage, "--embed runs the dataplane in this process: leave --socket out");
  std::uint64_t number = o.service;
  if (!service.empty())
    if (std::string e = app::parse_count(service, number);
        !e.empty() || number < 1 || number > UINT32_MAX)
      return fail(kExitUsage, e.empty()
                                  ? fmt::format("--port {} is not between 1 and 4294967295", number)
                                  : "--port " + e);
  o.service = static_cast<std::uint32_t>(number);
  if (!timeout.empty())
    if (std::string e = app::parse_seconds(timeout, o.timeout_s); !e.empty() || o.timeout_s > 3600)
      return fail(kExitUsage, e.empty() ? "--timeout is at most 3600 s" : "--timeout " + e);
  o.attach.timeout_ms = std::min(o.timeout_ms(), 10000);
  const std::string error = finish(words, o);
  return error.empty() ? app::Status{} : fail(kExitUsage, error);
}

}  // namespace metaroce::copy
