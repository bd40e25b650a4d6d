// The sending end: fills slots of its own ring with records, writes each to the same slot of the
// receiver's ring (Write with immediate = bytes used), and fills a slot again when the receiver's
// credit says that it has consumed it.
#pragma once

#include "common/io.h"
#include "common/progress_line.h"
#include "metaroce-copy/link.h"
#include "metaroce-copy/records.h"
#include "metaroce-copy/sha256.h"
#include "metaroce-copy/source_tree.h"

namespace metaroce::copy {

struct CopyReport {
  std::uint64_t files = 0, bytes = 0, failed = 0, mismatched = 0;
  std::int64_t elapsed_ns = 0;
  std::vector<std::string> failures;  // the first kMaxFailures lines
  static constexpr std::size_t kMaxFailures = 1000;
};

class Sender {
 public:
  Sender(const Options& options, const app::Io& io, metaroce_context* ctx, SourceList& sources,
         CopyReport& report)
      : o_(options),
        io_(io),
        link_(options, io, ctx),
        sources_(sources),
        report_(report),
        progress_(io.err, !options.quiet && !options.json) {}
  app::Status run();

 private:
  app::Status exchange();
  app::Status await_ready();
  app::Status send_manifest();
  app::Status send_entries();
  app::Status send_file(std::uint64_t index);
  app::Status send_content(int fd, std::uint64_t size, bool& complete);
  app::Status send_link(std::uint64_t index);
  app::Status send_metadata(RecordKind kind, const Metadata& meta, const std::string& path,
                            const std::string& target = "");
  app::Status close_directories(std::size_t next);
  app::Status append(RecordKind kind, const void* payload, std::uint32_t length);
  // Room for a record with that payload in the current slot, which is flushed when it has none.
  app::Status reserve(std::uint32_t payload);
  app::Status flush();
  app::Status service();
  app::Status take_completions(bool& worked);
  app::Status await_summary();
  void note_failure(std::uint64_t index, const std::string& why, bool mismatch);
  std::uint8_t* slot() { return ring_.data() + posted_ % slots_ * slot_bytes_; }

  struct OpenDirectory {
    Metadata meta;
    std::uint64_t index;
  };
  const Options& o_;
  const app::Io& io_;
  app::Memory ring_;  // outlives the streams of link_
  Link link_;
  SourceList& sources_;
  CopyReport& report_;
  app::ProgressLine progress_;
  Sha256 hash_;
  std::vector<OpenDirectory> directories_;
  std::uint64_t posted_ = 0, credited_ = 0, used_ = 0;  // slots; bytes in the current one
  std::uint64_t sent_bytes_ = 0, refused_ = 0;
  std::uint64_t remote_address_ = 0;
  std::uint32_t remote_rkey_ = 0, slot_bytes_ = 0, slots_ = 1;
  std::int64_t last_progress_ = 0;
  std::optional<Message> manifest_done_, summary_;
};

}  // namespace metaroce::copy
