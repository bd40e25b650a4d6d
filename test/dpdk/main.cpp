#include "eal_environment.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new metaroce::EalEnvironment);
  return RUN_ALL_TESTS();
}
