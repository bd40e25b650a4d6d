#include "metaroce-copy/source_tree.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <memory>

#include "common/units.h"
#include "metaroce-copy/target_tree.h"

namespace metaroce::copy {
namespace {

std::string join(const std::string& directory, const std::string& name) {
  if (directory.empty()) return name;
  return directory.back() == '/' ? directory + name : directory + "/" + name;
}

std::string failure(const std::string& source, const std::string& why) {
  return fmt::format("{}: {}", app::quoted(source), why);
}

std::vector<std::string> names_in(const std::string& directory, std::string& error) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> d(::opendir(directory.c_str()), ::closedir);
  if (!d) {
    error = std::strerror(errno);
    return names;
  }
  for (;;) {
    errno = 0;
    const dirent* e = ::readdir(d.get());
    if (!e) break;
    const std::string name = e->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) error = std::strerror(errno);
  std::sort(names.begin(), names.end());
  return names;
}

// Iterative: the depth of a tree is not ours to bound by a stack.
void walk(const std::string& source, const std::string& path, SourceList& out) {
  struct Pending {
    std::string source, path;
    std::size_t closes;
  };
  constexpr std::size_t kOpens = SIZE_MAX;
  std::vector<Pending> stack{{source, path, kOpens}};
  while (!stack.empty() && out.entries.size() < kMaxEntries) {
    const Pending item = std::move(stack.back());
    stack.pop_back();
    if (item.closes != kOpens) {
      out.entries[item.closes].directory_end = out.entries.size();
      continue;
    }
    struct stat st = {};
    if (::lstat(item.source.c_str(), &st) < 0) {
      out.failures.push_back(failure(item.source, std::strerror(errno)));
      continue;
    }
    // "." copies the content of a directory: it has no entry of its own.
    const std::string bad = item.path.empty() ? "" : check_path(item.path);
    if (!bad.empty()) {
      out.failures.push_back(failure(item.source, bad));
      continue;
    }
    if (S_ISREG(st.st_mode)) {
      out.entries.push_back(
          {item.source, item.path, EntryType::kFile, static_cast<std::uint64_t>(st.st_size), 0});
      out.total_bytes += static_cast<std::uint64_t>(st.st_size);
    } else if (S_ISLNK(st.st_mode)) {
      out.entries.push_back({item.source, item.path, EntryType::kSymlink, 0, 0});
    } else if (S_ISDIR(st.st_mode)) {
      if (!item.path.empty()) {
        stack.push_back({"", "", out.entries.size()});
        out.entries.push_back({item.source, item.path, EntryType::kDirectory, 0, 0});
      }
      std::string error;
      const std::vector<std::string> names = names_in(item.source, error);
      if (!error.empty()) out.failures.push_back(failure(item.source, error));
      for (auto name = names.rbegin(); name != names.rend(); ++name)
        stack.push_back({join(item.source, *name), join(item.path, *name), kOpens});
    } else {
      out.failures.push_back(failure(item.source, "is neither file, directory nor symbolic link"));
    }
  }
}

}  // namespace

std::string list_sources(const std::vector<std::string>& sources, const std::string& prefix,
                         SourceList& out) {
  std::map<std::string, std::string> taken;
  for (const std::string& source : sources) {
    std::string trimmed = source;
    while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
    std::string name =
        trimmed.substr(trimmed.rfind('/') == std::string::npos ? 0 : trimmed.rfind('/') + 1);
    const bool content = name == "." || name == ".." || name.empty();
    struct stat st = {};
    if (source.empty() || ::lstat(trimmed.c_str(), &st) < 0)
      return failure(source, source.empty() ? "is empty" : std::strerror(errno));
    if (!content)
      if (const auto [at, fresh] = taken.emplace(name, source); !fresh)
        return fmt::format("{} and {} would both become {}", app::quoted(at->second),
                           app::quoted(source), app::quoted(join(prefix, name)));
    walk(trimmed, content ? prefix : join(prefix, name), out);
  }
  if (out.entries.size() >= kMaxEntries)
    return fmt::format("over {} entries: copy in parts", kMaxEntries);
  return "";
}

}  // namespace metaroce::copy
