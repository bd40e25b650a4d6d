#include <cstdio>
#include <cstdlib>

#include "target.h"

namespace metaroce::fuzz {

void property_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: property does not hold: %s\n", file, line, what);
  std::abort();
}

}  // namespace metaroce::fuzz
