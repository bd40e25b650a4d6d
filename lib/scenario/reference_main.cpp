// metaroce-scenario-reference: prints doc/reference/scenarios.md.
#include <cstdio>

#include "scenario/load.h"

int main() {
  const std::string text = metaroce::scenario::reference_markdown();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
