#include "metaroce-copy/run.h"

#include <fmt/format.h>

#include "common/json_report.h"
#include "common/units.h"
#include "metaroce-copy/receiver.h"
#include "metaroce-copy/sender.h"

namespace metaroce::copy {
namespace {

using app::Io;
using app::Status;
using nlohmann::ordered_json;

constexpr const char* kTool = "metaroce-copy";

ordered_json to_json(const CopyReport& r) {
  return {{"files", r.files},
          {"bytes", r.bytes},
          {"failed", r.failed},
          {"mismatched", r.mismatched},
          {"elapsed_s", static_cast<double>(r.elapsed_ns) / 1e9},
          {"mib_per_s", app::mebibytes_per_second(r.bytes, r.elapsed_ns)},
          {"failures", r.failures}};
}

void say(const Io& io, const Options& o, const char* verb, const CopyReport& r) {
  if (o.json) return;
  fmt::print(io.out, "{} {} files, {} in {:.2f} s ({:.1f} MiB/s), {} failed\n", verb, r.files,
             app::format_bytes(r.bytes), static_cast<double>(r.elapsed_ns) / 1e9,
             app::mebibytes_per_second(r.bytes, r.elapsed_ns), r.failed);
  std::fflush(io.out);
}

void say_error(const Io& io, const Status& status) {
  if (!status.ok()) std::fprintf(io.err, "%s: %s\n", kTool, status.text.c_str());
}

Status send(const Options& o, metaroce_context* ctx, SourceList& sources, const Io& io,
            ordered_json& body) {
  CopyReport report;
  Status status = Sender(o, io, ctx, sources, report).run();
  body = to_json(report);
  say(io, o, "copied", report);
  return status;
}

Status serve(const Options& o, metaroce_context* ctx, TargetTree& tree, const Io& io,
             ordered_json& body) {
  metaroce_listener* raw = nullptr;
  if (metaroce_listen(ctx, o.service, &raw) < 0)
    return app::fail(app::kExitFailure,
                     fmt::format("cannot listen on service {}: {}", o.service, metaroce_error()));
  const app::ListenerPtr listener(raw);
  if (!o.json) {
    fmt::print(io.out, "serving {} on service {}\n", app::quoted(o.serve), o.service);
    std::fflush(io.out);
  }
  CopyReport total;
  std::uint64_t sessions = 0, failed_sessions = 0;
  Status last;
  while (!io.stopping() && !(o.once && sessions > 0)) {
    CopyReport report;
    Receiver receiver(o, io, ctx, raw, tree, report);
    bool came = false;
    Status status;
    while (status.ok() && !came && !io.stopping()) {
      status = receiver.accept(100, came);
      if (status.ok() && !metaroce_alive(ctx))
        return app::fail(app::kExitFailure,
                         "the dataplane is gone (metaroced ended); start it again");
    }
    if (!came) {
      say_error(io, status);  // something else knocked
      continue;
    }
    last = receiver.run(std::move(status));
    ++sessions;
    failed_sessions += last.ok() ? 0 : 1;
    say(io, o, "received", report);
    if (!o.once) say_error(io, last);
    total.files += report.files;
    total.bytes += report.bytes;
    total.failed += report.failed;
    total.mismatched += report.mismatched;
    total.elapsed_ns += report.elapsed_ns;
    total.failures = std::move(report.failures);  // of the last session
  }
  body = to_json(total);
  body["sessions"] = sessions;
  body["failed_sessions"] = failed_sessions;
  return o.once ? last : Status{};
}

}  // namespace

int copy_main(int argc, const char* const* argv, const Io& io) {
  Options options;
  ordered_json body = ordered_json::object();
  Status status = parse_options(argc, argv, options);
  if (options.help_or_version) {
    std::fprintf(io.out, "%s", options.help_text.c_str());
    return app::kExitOk;
  }
  SourceList sources;
  TargetTree tree;
  app::ContextPtr ctx;
  if (status.ok()) {
    std::string bad = options.receiver()
                          ? tree.open_root(options.serve)
                          : list_sources(options.sources, options.directory, sources);
    if (!bad.empty())
      status = app::fail(
          app::kExitUsage,
          options.receiver() ? fmt::format("{}: {}", app::quoted(options.serve), bad) : bad);
  }
  if (status.ok()) status = app::attach(options.attach, ctx);
  if (status.ok())
    status = options.receiver() ? serve(options, ctx.get(), tree, io, body)
                                : send(options, ctx.get(), sources, io, body);
  if (app::wants_json(argc, argv)) print_json(io.out, kTool, std::move(body), status);
  say_error(io, status);
  return status.code;
}

}  // namespace metaroce::copy
