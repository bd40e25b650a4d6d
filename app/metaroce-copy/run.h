// metaroce-copy from command line to exit code.
#pragma once

#include "common/io.h"

namespace metaroce::copy {

int copy_main(int argc, const char* const* argv, const app::Io& io);

}  // namespace metaroce::copy
