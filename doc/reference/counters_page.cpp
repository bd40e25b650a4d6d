// Prints doc/reference/counters.md from the one declaration of the drop reasons.
#include <cstdio>

#include "wire/drop_reason.h"

int main() {
  std::puts(
      "# Counters\n"
      "\n"
      "Generated from `lib/wire/drop_reason.h` by `doc/reference/counters_page.cpp`; do not edit, "
      "run\n"
      "`ninja -C build update-reference`.\n"
      "\n"
      "## Drop reasons\n"
      "\n"
      "Every packet that is discarded is counted under exactly one of these names. The same names "
      "appear in\n"
      "logs, in telemetry and in `--json` output. Counters start at zero with the daemon and only "
      "grow.\n"
      "\n"
      "| name | meaning |\n"
      "|---|---|");
  for (const metaroce::DropReasonInfo& info : metaroce::kDropReasonInfo) {
    if (&info == metaroce::kDropReasonInfo.data()) continue;  // `none` is not a drop
    std::printf("| `%s` | %s |\n", info.name, info.text);
  }
  return 0;
}
