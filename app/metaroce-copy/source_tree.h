// What is to be copied: the sources and everything below them, in an order in which a directory
// comes before its content. Symbolic links are entries, never followed.
#pragma once

#include <string>
#include <vector>

#include "metaroce-copy/records.h"

namespace metaroce::copy {

struct SourceEntry {
  std::string source;  // path on this machine
  std::string path;    // below the served directory
  EntryType type{};
  std::uint64_t size = 0;         // as seen by the walk; what is sent is what the open file says
  std::size_t directory_end = 0;  // directories: one beyond their last entry
};
struct SourceList {
  std::vector<SourceEntry> entries;
  std::vector<std::string> failures;  // one line each: unreadable, of a kind that is not copied
  std::uint64_t total_bytes = 0;
};
inline constexpr std::size_t kMaxEntries = 10'000'000;

// `prefix`: directory below the served one, "" for itself. Returns "" or why nothing can be done
// (a source is missing, two would get one name).
std::string list_sources(const std::vector<std::string>& sources, const std::string& prefix,
                         SourceList& out);

}  // namespace metaroce::copy
