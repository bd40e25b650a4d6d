#include "metaroce-copy/target_tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/syscall.h>

#include <cerrno>

#include "common/hello.h"
#include "common/units.h"

namespace metaroce::copy {
namespace {

std::string reason(const char* what) { return fmt::format("{}: {}", what, std::strerror(errno)); }

int open_directory(int at, const char* name) {
  return ::openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

std::string rename_into_place(int directory, const std::string& from, const std::string& to,
                              bool overwrite) {
  const long result = ::syscall(SYS_renameat2, directory, from.c_str(), directory, to.c_str(),
                                overwrite ? 0U : static_cast<unsigned>(RENAME_NOREPLACE));
  if (result == 0) return "";
  const int error = errno;
  ::unlinkat(directory, from.c_str(), 0);
  errno = error;
  return error == EEXIST ? "the target has appeared meanwhile (--overwrite replaces it)"
                         : reason("cannot rename into place");
}

}  // namespace

std::string check_path(std::string_view path) {
  if (path.empty()) return "the path is empty";
  if (path.size() > kMaxPath) return "the path is longer than 4095 bytes";
  if (path.find('\0') != std::string_view::npos) return "the path contains a zero byte";
  if (path.front() == '/') return "the path is absolute";
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, end - start);
    if (part.empty() || part == "." || part == "..")
      return "the path has an empty, '.' or '..' part";
    if (part.size() > 255) return "a name is longer than 255 bytes";
    start = end + 1;
  }
  return "";
}

std::string TargetTree::open_root(const std::string& directory) {
  root_.reset(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return root_ ? "" : reason("cannot open the directory");
}

std::string TargetTree::parent(const std::string& path, bool create, int& fd, std::string& name) {
  errno = 0;
  if (std::string bad = check_path(path); !bad.empty()) return bad;
  const std::size_t slash = path.rfind('/');
  name = slash == std::string::npos ? path : path.substr(slash + 1);
  const std::string directory = slash == std::string::npos ? "" : path.substr(0, slash);
  if (parent_valid_ && directory == parent_path_) {
    fd = parent_.get();
    return "";
  }
  UniqueFile at(::dup(root_.get()));
  if (!at) return reason("cannot open the served directory");
  for (std::size_t start = 0; start < directory.size();) {
    const std::size_t end = std::min(directory.find('/', start), directory.size());
    const std::string part = directory.substr(start, end - start);
    int next = open_directory(at.get(), part.c_str());
    if (next < 0 && errno == ENOENT && create) {
      if (::mkdirat(at.get(), part.c_str(), 0755) < 0 && errno != EEXIST)
        return reason("cannot create a directory");
      next = open_directory(at.get(), part.c_str());
    }
    if (next < 0) {
      const int error = errno;
      std::string text =
          error == ELOOP || error == ENOTDIR
              ? fmt::format("{} in its path is not a directory (links are not followed)",
                            app::quoted(part))
              : reason("cannot open a directory of its path");
      errno = error;
      return text;
    }
    at.reset(next);
    start = end + 1;
  }
  parent_ = std::move(at);
  parent_path_ = directory;
  parent_valid_ = true;
  fd = parent_.get();
  return "";
}

std::string TargetTree::probe(const std::string& path, EntryType type, bool overwrite) {
  int fd = -1;
  std::string name;
  if (std::string bad = parent(path, false, fd, name); !bad.empty())
    return errno == ENOENT ? "" : bad;
  struct stat st = {};
  if (::fstatat(fd, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) < 0)
    return errno == ENOENT ? "" : reason("cannot look at the target");
  if (type == EntryType::kDirectory)
    return S_ISDIR(st.st_mode) ? "" : "exists and is not a directory";
  if (S_ISDIR(st.st_mode)) return "exists and is a directory";
  return overwrite ? "" : "exists (--overwrite replaces it)";
}

std::string TargetTree::make_directory(const std::string& path) {
  int fd = -1;
  std::string name;
  if (std::string bad = parent(path, true, fd, name); !bad.empty()) return bad;
  // Writable for us until it is finished.
  if (::mkdirat(fd, name.c_str(), 0700) == 0) return "";
  if (errno != EEXIST) return reason("cannot create the directory");
  const UniqueFile existing(open_directory(fd, name.c_str()));
  return existing ? "" : "exists and is not a directory";
}

std::string TargetTree::finish_directory(const std::string& path, const Metadata& meta) {
  int fd = -1;
  std::string name;
  if (std::string bad = parent(path, true, fd, name); !bad.empty()) return bad;
  const UniqueFile directory(open_directory(fd, name.c_str()));
  if (!directory) return reason("cannot open the directory");
  const timespec times[2] = {{0, UTIME_OMIT}, {meta.mtime_s, static_cast<long>(meta.mtime_ns)}};
  if (::fchmod(directory.get(), meta.mode & 0777) < 0) return reason("cannot set the mode");
  return ::futimens(directory.get(), times) < 0 ? reason("cannot set the time") : "";
}

std::string TargetTree::next_temporary() {
  return fmt::format(".metaroce-copy-{:016x}-{}.part", app::random_u64(), counter_++);
}

std::string TargetTree::make_symlink(const std::string& path, const std::string& target,
                                     bool overwrite) {
  int fd = -1;
  std::string name;
  if (std::string bad = parent(path, true, fd, name); !bad.empty()) return bad;
  if (target.empty() || target.find('\0') != std::string::npos)
    return "the link's target is not a path";
  const std::string temporary = next_temporary();
  if (::symlinkat(target.c_str(), fd, temporary.c_str()) < 0)
    return reason("cannot create the link");
  return rename_into_place(fd, temporary, name, overwrite);
}

std::string TargetTree::begin_file(const std::string& path) {
  discard();
  int fd = -1;
  if (std::string bad = parent(path, true, fd, final_name_); !bad.empty()) return bad;
  file_directory_.reset(::dup(fd));
  temporary_ = next_temporary();
  file_.reset(
      ::openat(fd, temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  return file_ ? "" : reason("cannot create the file");
}

std::string TargetTree::write(const std::uint8_t* data, std::size_t length) {
  while (length > 0) {
    const ssize_t n = ::write(file_.get(), data, length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return reason("cannot write");
    data += n;
    length -= static_cast<std::size_t>(n);
  }
  return "";
}

std::string TargetTree::commit(const Metadata& meta, bool overwrite) {
  const timespec times[2] = {{0, UTIME_OMIT}, {meta.mtime_s, static_cast<long>(meta.mtime_ns)}};
  std::string bad;
  if (::fchmod(file_.get(), meta.mode & 0777) < 0)
    bad = reason("cannot set the mode");
  else if (::futimens(file_.get(), times) < 0)
    bad = reason("cannot set the time");
  if (!bad.empty()) {
    discard();
    return bad;
  }
  file_.reset();
  return rename_into_place(file_directory_.get(), temporary_, final_name_, overwrite);
}

void TargetTree::discard() {
  if (!file_) return;
  file_.reset();
  ::unlinkat(file_directory_.get(), temporary_.c_str(), 0);
}

}  // namespace metaroce::copy
