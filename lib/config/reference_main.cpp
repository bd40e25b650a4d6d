// metaroce-config-reference: prints doc/reference/configuration.md; with --defaults, the commented
// default configuration.
#include <cstdio>
#include <string_view>

#include "config/load.h"

int main(int argc, char** argv) {
  const bool defaults = argc == 2 && std::string_view(argv[1]) == "--defaults";
  if (argc > 2 || (argc == 2 && !defaults)) {
    std::fputs("usage: metaroce-config-reference [--defaults]\n", stderr);
    return 2;
  }
  const std::string text =
      defaults ? metaroce::config::print_defaults() : metaroce::config::reference_markdown();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
