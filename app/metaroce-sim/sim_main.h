// metaroce-sim without its engine: the program is a function of the runner, so that tests put one
// in that answers at once.
#pragma once

#include "common/io.h"
#include "sim/run.h"

namespace metaroce::simapp {

using Runner = sim::RunResult (*)(const sim::Scenario&, const sim::Workload&, const sim::RunHooks&);

int sim_main(int argc, const char* const* argv, const app::Io& io, Runner runner);

}  // namespace metaroce::simapp
