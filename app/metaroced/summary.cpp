#include "metaroced/summary.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/server/session_server.h"
#include "drivers/fabric/fabric_report.h"
#include "runtime/runtime.h"

namespace metaroce {

std::string progress_line(Runtime& runtime, const SessionServer& server) {
  std::uint64_t sent = 0, resent = 0, placed = 0, conns = 0, streams = 0;
  for (auto& h : runtime.hosts()) {
    sent += h->group().tx().counters().data_packets;
    resent += h->group().tx().counters().resent_packets;
    placed += h->group().rx().counters().placed_bytes;
    conns += h->control().counts().connections;
    streams += h->control().counts().streams;
  }
  return fmt::format(
      "clients {}, connections {}, streams {}, data packets sent {} (resent {}), bytes placed {}",
      server.counts().sessions, conns, streams, sent, resent, placed);
}

nlohmann::json summarise(Runtime& runtime, const SessionServer& server) {
  nlohmann::json j;
  const SessionCounts s = server.counts();
  j["clients"] = s.sessions;
  j["regions"] = s.regions;
  j["cqs"] = s.cqs;
  j["streams"] = s.streams;
  j["listeners"] = s.listeners;
  j["requests"] = s.requests;
  j["client_memory_bytes"] = s.memory_bytes;
  j["hosts"] = nlohmann::json::array();
  for (auto& h : runtime.hosts()) {
    nlohmann::json x;
    const TxCounters& t = h->group().tx().counters();
    const RxCounters& r = h->group().rx().counters();
    x["name"] = h->name();
    x["tx"] = {{"data_packets", t.data_packets},
               {"data_bytes", t.data_bytes},
               {"resent_packets", t.resent_packets},
               {"lost_packets", t.lost_packets},
               {"spurious_packets", t.spurious_packets},
               {"timeouts", t.timeouts},
               {"flushes", t.flushes},
               {"acked_packets", t.acked_packets},
               {"completions", t.completions}};
    x["rx"] = {{"packets", r.packets},           {"data_packets", r.data_packets},
               {"placed_bytes", r.placed_bytes}, {"out_of_order", r.out_of_order},
               {"acks_sent", r.acks_sent},       {"nacks_sent", r.nacks_sent}};
    const ControlCounts c = h->control().counts();
    x["objects"] = {{"connections", c.connections}, {"half_open", c.half_open},
                    {"streams", c.streams},         {"listeners", c.listeners},
                    {"clients", c.clients},         {"cqs", c.cqs},
                    {"regions", c.regions},         {"queued_commands", c.queued_commands}};
    const DropCounters d = h->drops();
    for (std::size_t i = 1; i < kDropReasons; ++i)
      if (d.n[i] != 0) x["drops"][kDropReasonInfo[i].name] = d.n[i];
    if (const FaultHook* f = h->group().faults(); f != nullptr) {
      x["faults"] = {{"lost", f->counters().lost},
                     {"duplicated", f->counters().duplicated},
                     {"flipped", f->counters().flipped}};
    }
    for (const PortPlan& p : h->ports()) {
      const PortStats ps = p.port->stats();
      x["ports"].push_back({{"plane", p.plane},
                            {"kind", p.port->capabilities().name},
                            {"rx_packets", ps.rx_packets},
                            {"tx_packets", ps.tx_packets},
                            {"rx_missed", ps.rx_missed},
                            {"rx_no_mbuf", ps.rx_no_mbuf}});
    }
    j["hosts"].push_back(x);
  }
  if (const EmulatedFabric* f = runtime.fabric()) j["fabric"] = fabric_report(*f, false);
  return j;
}

}  // namespace metaroce
