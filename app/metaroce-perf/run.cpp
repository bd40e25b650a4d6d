#include "metaroce-perf/run.h"

#include <fmt/format.h>

#include "common/json_report.h"
#include "metaroce-perf/report.h"

namespace metaroce::perf {
namespace {

using app::Io;
using app::Status;
using nlohmann::ordered_json;

constexpr const char* kTool = "metaroce-perf";
constexpr std::size_t kMaxReportedSessions = 100;  // of a persistent server, in its JSON

std::vector<std::uint64_t> sizes_of(const Options& o) {
  if (!o.all_sizes) return {o.size};
  std::vector<std::uint64_t> sizes;
  for (unsigned shift = 1; shift <= 23; ++shift) sizes.push_back(std::uint64_t{1} << shift);
  return sizes;
}

Status run_round(Session& session, const Message& round, RunReport& report, const Io& io) {
  RoundResult result;
  const Status status = session.options().latency() ? run_latency(session, round, result)
                                                    : run_bandwidth(session, round, result);
  session.close_round();
  if (!session.options().json && (status.ok() || result.sent.messages > 0)) {
    print_round(io.out, session.options(), result);
    if (!status.ok()) std::fprintf(io.out, "(failed: figures of an incomplete run)\n");
  }
  report.rounds.push_back(std::move(result));
  return status;
}

Status client_rounds(Session& session, RunReport& report, const Io& io) {
  const Options& o = session.options();
  std::uint32_t number = 0;
  for (const std::uint64_t size : sizes_of(o)) {
    Message round;
    round.round = number++;
    round.size = size;
    round.iterations = o.iterations_for(size);
    round.duration_s = o.duration_s;
    round.verify = o.verify_for(size);
    if (Status s = session.open_round(round); !s.ok()) return s;
    if (session.interrupted()) break;
    if (Status s = run_round(session, round, report, io); !s.ok()) return s;
    if (session.interrupted()) break;
  }
  return {};
}

Status server_rounds(Session& session, RunReport& report, const Io& io) {
  for (std::size_t i = 0; i < sizes_of(session.options()).size(); ++i) {
    std::optional<Message> round;
    if (Status s = session.await_round(round); !s.ok()) return s;
    if (!round) break;
    if (Status s = run_round(session, *round, report, io); !s.ok()) return s;
    if (session.interrupted()) break;
  }
  return {};
}

RunReport run_session(Session& session, Status status, const Io& io) {
  RunReport report;
  report.server = session.server();
  if (status.ok()) status = session.agree();
  report.options = session.options();
  if (status.ok() && !session.interrupted()) {
    report.peer = session.control_peer();
    if (!report.options.json) print_heading(io.out, report);
    status =
        session.server() ? server_rounds(session, report, io) : client_rounds(session, report, io);
  }
  status = session.conclude(std::move(status));
  session.finish(status);
  report.interrupted = session.interrupted();
  report.statistics = session.statistics();
  if (!report.options.json && !report.rounds.empty()) print_statistics(io.out, report);
  report.status = std::move(status);
  return report;
}

void say_error(const Io& io, const Status& status) {
  if (!status.ok()) std::fprintf(io.err, "%s: %s\n", kTool, status.text.c_str());
}

Status run_client(const Options& o, metaroce_context* ctx, const Io& io, ordered_json& body) {
  Session session(o, io, ctx, nullptr);
  const RunReport report = run_session(session, session.connect(), io);
  body = to_json(report);
  return report.status;
}

// Serves one client, or one after the other; a persistent server survives what befalls a client.
Status run_server(const Options& o, metaroce_context* ctx, const Io& io, ordered_json& body) {
  metaroce_listener* raw = nullptr;
  if (const int result = metaroce_listen(ctx, o.service, &raw); result < 0)
    return app::fail(app::kExitFailure,
                     fmt::format("cannot listen on service {}: {}", o.service, metaroce_error()));
  const app::ListenerPtr listener(raw);
  if (!o.json) {
    std::fprintf(io.out, "%s: waiting for a client on service %u\n", o.test.c_str(), o.service);
    std::fflush(io.out);
  }
  body = {{"test", o.test}, {"role", "server"}};
  ordered_json sessions = ordered_json::array();
  std::uint64_t served = 0, failed = 0;
  while (!io.stopping()) {
    Session session(o, io, ctx, raw);
    bool came = false;
    Status status;
    while (status.ok() && !came && !io.stopping()) {
      status = session.accept(100, came);
      if (status.ok() && !metaroce_alive(ctx))
        return app::fail(app::kExitFailure,
                         "the dataplane is gone (metaroced ended); start it again");
    }
    if (!came && status.ok()) break;
    if (!came) {  // something else knocked
      say_error(io, status);
      continue;
    }
    RunReport report = run_session(session, std::move(status), io);
    ++served;
    if (!o.persistent) {
      body = to_json(report);
      return report.status;
    }
    failed += report.status.ok() ? 0 : 1;
    say_error(io, report.status);
    ordered_json one = to_json(report);
    one["result"] = report.status.ok() ? "ok" : "failed";
    if (!report.status.ok()) one["error"] = report.status.text;
    if (sessions.size() == kMaxReportedSessions) sessions.erase(sessions.begin());
    sessions.push_back(std::move(one));
  }
  body["served"] = served;
  body["failed"] = failed;
  body["last_sessions"] = std::move(sessions);
  if (!o.json)
    std::fprintf(io.out, "%s: stopped; served %lu, failed %lu\n", o.test.c_str(), served, failed);
  return {};
}

}  // namespace

int perf_main(int argc, const char* const* argv, const Io& io) {
  Options options;
  ordered_json body = ordered_json::object();
  Status status = parse_options(argc, argv, options);
  if (options.help_or_version) {
    std::fprintf(io.out, "%s", options.help_text.c_str());
    return app::kExitOk;
  }
  app::ContextPtr ctx;
  if (status.ok()) status = app::attach(options.attach, ctx);
  if (status.ok())
    status = options.client() ? run_client(options, ctx.get(), io, body)
                              : run_server(options, ctx.get(), io, body);
  if (app::wants_json(argc, argv)) print_json(io.out, kTool, std::move(body), status);
  say_error(io, status);
  return status.code;
}

}  // namespace metaroce::perf
