// The bounded queues between the roles of one worker group. `Q<T>` is the kind of ring: SpscRing
// in simulation and tests (any power of two, 1 included), an rte_ring adaptor on lcores.
#pragma once

#include <cstdint>

#include "transport/events.h"

namespace metaroce {

struct QueueSizes {  // powers of two
  std::uint32_t commands = 256, rx_to_tx = 4096, rx_to_control = 256, tx_to_control = 1024, timers = 1024;
};

template <template <typename> typename Q>
struct GroupQueues {
  explicit GroupQueues(const QueueSizes& n = {})
      : control_to_rx(n.commands), control_to_tx(n.commands), rx_to_tx(n.rx_to_tx),
        rx_to_control(n.rx_to_control), tx_to_control(n.tx_to_control), tx_to_timer(n.timers),
        timer_to_tx(n.timers) {}
  Q<Command> control_to_rx, control_to_tx;
  Q<RxToTx> rx_to_tx;
  Q<RxToControl> rx_to_control;
  Q<TxToControl> tx_to_control;
  Q<TimerArm> tx_to_timer;
  Q<TimerFired> timer_to_tx;
};

}  // namespace metaroce
