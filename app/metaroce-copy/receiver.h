// The receiving end of one session: takes slots in order, parses their records, and lets
// TargetTree act on them. What fails for one entry is reported and the rest goes on; what fails
// for the stream (a damaged record) ends the session. Everything that a sender says is checked.
#pragma once

#include "metaroce-copy/link.h"
#include "metaroce-copy/records.h"
#include "metaroce-copy/sender.h"
#include "metaroce-copy/sha256.h"
#include "metaroce-copy/target_tree.h"

namespace metaroce::copy {

class Receiver {
 public:
  Receiver(const Options& options, const app::Io& io, metaroce_context* ctx,
           metaroce_listener* listener, TargetTree& tree, CopyReport& report)
      : o_(options),
        io_(io),
        listener_(listener),
        link_(options, io, ctx),
        tree_(tree),
        report_(report) {}
  // Waits up to timeout_ms for a sender.
  app::Status accept(int timeout_ms, bool& came) {
    return link_.accept(listener_, timeout_ms, came);
  }
  app::Status run(app::Status accepted);

 private:
  app::Status exchange();
  app::Status send_ready();
  app::Status take_completions(bool& worked);
  app::Status take_slot(std::uint32_t used);
  app::Status give_credit();
  app::Status handle(const RecordReader::Record& record);
  app::Status manifest_record(const RecordReader::Record& record);
  app::Status file_record(const RecordReader::Record& record);
  app::Status begin_file();
  app::Status add_data(const RecordReader::Record& record);
  app::Status end_file(const RecordReader::Record& record);
  app::Status report_failure(std::uint64_t index, const std::string& why, int code);
  app::Status outcome(const std::string& bad);
  app::Status finish();

  const Options& o_;
  const app::Io& io_;
  metaroce_listener* listener_;
  app::Memory ring_;
  Link link_;
  TargetTree& tree_;
  CopyReport& report_;
  Sha256 hash_;
  Metadata meta_;
  std::string path_, target_;
  bool manifest_ended_ = false, overwrite_ = false, in_file_ = false, skipping_ = false,
       ended_ = false;
  std::uint64_t file_bytes_ = 0, refused_ = 0;
  std::uint64_t taken_ = 0, credit_given_ = 0;
  bool credit_in_flight_ = false;
  std::int64_t last_knock_ = 0;
};

}  // namespace metaroce::copy
