#include "dataplane/steering.h"

#include <fmt/format.h>
#include <rte_byteorder.h>
#include <rte_errno.h>

namespace metaroce {
namespace {

rte_flow* make_flow(std::uint16_t port, bool v6, std::uint16_t udp_port, std::uint16_t queue,
                    rte_flow_error& error) {
  rte_flow_item_udp udp{}, mask{};
  udp.hdr.dst_port = rte_cpu_to_be_16(udp_port);
  mask.hdr.dst_port = 0xffff;
  rte_flow_item pattern[4]{};
  pattern[0].type = RTE_FLOW_ITEM_TYPE_ETH;
  pattern[1].type = v6 ? RTE_FLOW_ITEM_TYPE_IPV6 : RTE_FLOW_ITEM_TYPE_IPV4;
  pattern[2].type = RTE_FLOW_ITEM_TYPE_UDP;
  pattern[2].spec = &udp;
  pattern[2].mask = &mask;
  pattern[3].type = RTE_FLOW_ITEM_TYPE_END;
  rte_flow_action_queue to{};
  to.index = queue;
  rte_flow_action actions[2]{};
  actions[0].type = RTE_FLOW_ACTION_TYPE_QUEUE;
  actions[0].conf = &to;
  actions[1].type = RTE_FLOW_ACTION_TYPE_END;
  rte_flow_attr attr{};
  attr.ingress = 1;
  return rte_flow_create(port, &attr, pattern, actions, &error);
}

}  // namespace

Status Steering::install(std::uint16_t port, std::uint16_t base_udp_port, std::uint16_t queues) {
  remove();
  port_ = port;
  for (std::uint16_t q = 0; q < queues; ++q)
    for (const bool v6 : {false, true}) {
      rte_flow_error error{};
      const auto udp_port = static_cast<std::uint16_t>(base_udp_port + q);
      rte_flow* f = make_flow(port, v6, udp_port, q, error);
      if (f == nullptr) {
        const std::string why = error.message != nullptr ? error.message : rte_strerror(rte_errno);
        remove();
        return Status::error(
            Errc::kNotSupported,
            fmt::format("port {} does not steer by UDP port ({}): packets are handed over "
                        "between the worker groups in software",
                        port, why));
      }
      flows_.push_back(f);
    }
  return {};
}

void Steering::remove() {
  for (rte_flow* f : flows_) {
    rte_flow_error error{};
    rte_flow_destroy(port_, f, &error);
  }
  flows_.clear();
}

}  // namespace metaroce
