// The bounded queues between the roles of one worker group. `Q<T>` is the kind of ring: SpscRing
// in simulation and tests (any power of two, 1 included), an rte_ring adaptor on lcores.
#pragma once

#include <cstdint>

#include "transport/events.h"

namespace metaroce {

struct QueueSizes {  // powers of two
  std::uint32_t commands = 256, rx_to_tx = 4096, rx_to_control = 256, tx_to_control = 1024,
                timers = 1024;
};

template <template <typename> typename Q>
struct GroupQueues {
  // `args`: what else this kind of ring wants, a NUMA socket for example.
  template <typename... Args>
  explicit GroupQueues(const QueueSizes& n = {}, Args... args)
      : control_to_rx(n.commands, args...),
        control_to_tx(n.commands, args...),
        rx_to_tx(n.rx_to_tx, args...),
        rx_to_control(n.rx_to_control, args...),
        tx_to_control(n.tx_to_control, args...),
        tx_to_timer(n.timers, args...),
        timer_to_tx(n.timers, args...) {}
  Q<Command> control_to_rx, control_to_tx;
  Q<RxToTx> rx_to_tx;
  Q<RxToControl> rx_to_control;
  Q<TxToControl> tx_to_control;
  Q<TimerArm> tx_to_timer;
  Q<TimerFired> timer_to_tx;
};

}  // namespace metaroce
