#include "common/json_report.h"

#include <string>

#include "metaroce/metaroce.h"

namespace metaroce::app {

void print_json(std::FILE* out, std::string_view tool, nlohmann::ordered_json body,
                const Status& status) {
  nlohmann::ordered_json document;
  document["tool"] = tool;
  document["version"] = metaroce_version();
  document["result"] = status.ok() ? "ok" : "failed";
  document["exit_code"] = status.code;
  if (!status.ok()) document["error"] = status.text;
  if (body.is_object()) document.update(body);
  const std::string text =
      document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::fprintf(out, "%s\n", text.c_str());
  std::fflush(out);
}

bool wants_json(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--json") return true;
  return false;
}

}  // namespace metaroce::app
