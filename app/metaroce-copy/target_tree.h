// The directory that the receiver serves, and nothing outside of it. Every path is walked from its
// descriptor, one component at a time, without following a symbolic link and without "..": what a
// client sends, or what someone renames meanwhile, cannot lead out. Rejected: openat2 with
// RESOLVE_BENEATH (not in every kernel and sandbox; two ways to be safe are one too many), and
// comparing real paths (a race).
//
// Files are written under a temporary name in their own directory and renamed when complete. At
// most one is open; it is removed when it is not committed.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "metaroce-copy/records.h"
#include "metaroce-copy/unique_file.h"

namespace metaroce::copy {

// "" or what is wrong with a relative path that a client sent.
std::string check_path(std::string_view path);

class TargetTree {
 public:
  ~TargetTree() { discard(); }
  // All of these return "" or a reason for a person.
  std::string open_root(const std::string& directory);
  // Would this entry be refused? Nothing is changed.
  std::string probe(const std::string& path, EntryType type, bool overwrite);
  std::string make_directory(const std::string& path);
  std::string finish_directory(const std::string& path, const Metadata& meta);
  std::string make_symlink(const std::string& path, const std::string& target, bool overwrite);
  std::string begin_file(const std::string& path);
  std::string write(const std::uint8_t* data, std::size_t length);
  // Mode, time and final name. Without `overwrite`, never replaces what has appeared meanwhile.
  std::string commit(const Metadata& meta, bool overwrite);
  void discard();

 private:
  // Opens the directory that holds `path`'s last component, making the ones before it if asked.
  std::string parent(const std::string& path, bool create, int& fd, std::string& name);
  std::string next_temporary();

  UniqueFile root_;
  UniqueFile parent_;  // of parent_path_
  std::string parent_path_;
  bool parent_valid_ = false;
  UniqueFile file_, file_directory_;
  std::string temporary_, final_name_;
  std::uint64_t counter_ = 0;
};

}  // namespace metaroce::copy
