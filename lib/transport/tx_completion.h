// TX role: finished work requests. In post order; a buffer is given back when everything is
// acknowledged and no packet in a port refers to it. [MR-2.5.3]
#pragma once

#include "transport/tx_role.h"

namespace metaroce {

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::complete(SendStream& s, const WorkState& w, WorkStatus status) {
  if (status == WorkStatus::kSuccess && (w.flags & kWorkSignaled) == 0) {
    cqs_.unreserve(s.params.send_cq);
    return;
  }
  ++counters_.completions;
  cqs_.complete(s.params.send_cq,
                Completion{w.wr_id, s.params.handle, w.length, 0, static_cast<std::uint8_t>(w.op),
                           static_cast<std::uint8_t>(status), 0, 0, 0});
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::finish_work(SendStream& s) {
  while (!s.idle()) {
    const std::uint32_t slot = s.oldest();
    const WorkState& w = work_[slot];
    const bool done = s.cum() >= w.end();
    if (!done && !(s.failing && s.fail_spn < w.end())) return;
    if (io_.busy(slot)) {
      if (!s.retiring) {
        s.retiring = true;
        retiring_.push_back(slot_of(s));
      }
      return;
    }
    WorkStatus status = WorkStatus::kSuccess;
    if (!done) {
      status = s.fail_status;
      s.fail_status = WorkStatus::kFlushed;  // for all that follow
      s.fail_spn = s.cum();
      if (status != WorkStatus::kFlushed && !s.reported) {
        s.reported = true;
        TxToControl e;
        e.kind = TxToControlKind::kStreamFailed;
        e.status = static_cast<std::uint8_t>(status);
        e.id = s.params.handle;
        tell_control(e);
      }
    } else {
      conns_[s.params.conn.v].acked_bytes += w.length;
    }
    complete(s, w, status);
    give_work(slot);
    s.pop_oldest();
  }
}

template <typename Q, typename Io, typename Cc>
void TxRole<Q, Io, Cc>::retire() {
  if (!retiring_.empty()) [[unlikely]] {
    retiring_.swap(retiring_now_);
    for (const std::uint32_t slot : retiring_now_) {
      streams_[slot].retiring = false;
      finish_work(streams_[slot]);
    }
    retiring_now_.clear();
  }
  if (!zombies_.empty()) [[unlikely]] {
    std::erase_if(zombies_, [&](std::uint32_t slot) {
      if (io_.busy(slot)) return false;
      give_work(slot);
      return true;
    });
  }
  if (!draining_.empty()) report_drained();
}

}  // namespace metaroce
