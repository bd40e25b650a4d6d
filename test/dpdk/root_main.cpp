// Tests over kernel interfaces. The process moves into a network namespace of its own first, so
// that whatever it creates vanishes with it, even when it is killed.
#include <sched.h>
#include <unistd.h>

#include "eal_environment.h"

int main(int argc, char** argv) {
  if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
    std::puts("skipped: needs root, to make network interfaces");
    return 77;
  }
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new metaroce::EalEnvironment);
  return RUN_ALL_TESTS();
}
