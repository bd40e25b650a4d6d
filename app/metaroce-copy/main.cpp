#include "common/stop_signal.h"
#include "metaroce-copy/run.h"

int main(int argc, char** argv) {
  metaroce::app::Io io;
  io.stop = metaroce::app::install_stop_signals();
  return metaroce::copy::copy_main(argc, argv, io);
}
