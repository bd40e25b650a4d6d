// The sentence behind metaroce_error(), one per thread.
#pragma once

#include <string_view>

namespace metaroce {

// Keeps `text` and returns -err.
int fail(int err, std::string_view text);

}  // namespace metaroce
