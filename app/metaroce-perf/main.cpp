#include "common/stop_signal.h"
#include "metaroce-perf/run.h"

int main(int argc, char** argv) {
  metaroce::app::Io io;
  io.stop = metaroce::app::install_stop_signals();
  return metaroce::perf::perf_main(argc, argv, io);
}
