#include "common/stop_signal.h"
#include "metaroce-sim/sim_main.h"

int main(int argc, char** argv) {
  metaroce::app::Io io;
  io.stop = metaroce::app::install_stop_signals();
  return metaroce::simapp::sim_main(argc, argv, io, metaroce::sim::run);
}
