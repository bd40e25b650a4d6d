// metaroce-perf from command line to exit code.
#pragma once

#include "common/io.h"

namespace metaroce::perf {

int perf_main(int argc, const char* const* argv, const app::Io& io);

}  // namespace metaroce::perf
