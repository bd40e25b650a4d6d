// EAL once per process, without hugepages, root or files; and what the port tests share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include <rte_ethdev.h>

#include "dataplane/eal.h"
#include "dataplane/port.h"

namespace metaroce {

class EalEnvironment : public testing::Environment {
 public:
  void SetUp() override {
    EalConfig c;
    c.memory = MemoryMode::kNoHuge;
    c.memory_mb = 256;
    const Status s = init_eal(c, &info());
    ASSERT_TRUE(s.ok()) << s.message;
  }
  static EalInfo& info() {
    static EalInfo i;
    return i;
  }
};

// Polls until `done` or 5 seconds are over; returns the last answer.
template <typename F>
bool wait_for(F done) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!done())
    if (std::chrono::steady_clock::now() > limit) return done();
  return true;
}

// What the owner of a port does about peers that come and go; nobody else may be polling it.
inline void attend(Port& p) {
  if (p.needs_reconnect()) [[maybe_unused]]
    const Status tried = p.reconnect();
}

inline bool wait_joined(Port& a, Port& b) {
  return wait_for([&] {
    attend(a);
    attend(b);
    return a.link().up && b.link().up;
  });
}

}  // namespace metaroce
