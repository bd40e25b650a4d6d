#include "metaroce-copy/receiver.h"

#include <fmt/format.h>

#include <array>

#include "common/units.h"

namespace metaroce::copy {
namespace {

using app::fail;
using app::kSecondNs;
using app::now_ns;
using app::Status;

constexpr std::uint64_t kCreditId = UINT64_MAX;

Status damaged(const char* what) {
  return fail(app::kExitMismatch, fmt::format("the stream of records is damaged: {}", what));
}

}  // namespace

Status Receiver::send_ready() {
  if (Status s = ring_.allocate(link_.context(), std::size_t{kSlotBytes} * kSlots,
                                METAROCE_ACCESS_LOCAL_WRITE | METAROCE_ACCESS_REMOTE_WRITE,
                                "the ring of slots");
      !s.ok())
    return s;
  Message m;
  m.kind = MessageKind::kReady;
  m.address = ring_.address();
  m.rkey = ring_.rkey();
  m.slot_bytes = kSlotBytes;
  m.slots = kSlots;
  return link_.send(m);
}

Status Receiver::report_failure(std::uint64_t index, const std::string& why, int code) {
  ++report_.failed;
  report_.mismatched += code == app::kExitMismatch ? 1 : 0;
  const std::string line = fmt::format("{}: {}", app::quoted(path_), why);
  if (report_.failures.size() < CopyReport::kMaxFailures) report_.failures.push_back(line);
  Message m;
  m.kind = manifest_ended_ ? MessageKind::kFailed : MessageKind::kRefused;
  m.index = index;
  m.code = static_cast<std::uint32_t>(code);
  m.set_text(why);
  return link_.send(m);
}

// An entry that is done, or not.
Status Receiver::outcome(const std::string& bad) {
  if (bad.empty()) {
    ++report_.files;
    return {};
  }
  return report_failure(meta_.index, bad, app::kExitFailure);
}

Status Receiver::manifest_record(const RecordReader::Record& r) {
  if (r.kind == RecordKind::kManifestEnd) {
    manifest_ended_ = true;
    Message m;
    m.kind = MessageKind::kManifestDone;
    m.failed = refused_;
    ended_ = refused_ > 0;
    return link_.send(m);
  }
  if (r.kind != RecordKind::kManifest || !read_metadata(r, meta_, path_, target_))
    return damaged("no manifest entry");
  overwrite_ = meta_.mode != 0;
  const std::string bad = tree_.probe(path_, meta_.type, overwrite_);
  if (bad.empty()) return {};
  ++refused_;
  return report_failure(meta_.index, bad, app::kExitFailure);
}

Status Receiver::begin_file() {
  in_file_ = true;
  file_bytes_ = 0;
  hash_.reset();
  const std::string bad = tree_.begin_file(path_);
  skipping_ = !bad.empty();
  return bad.empty() ? Status{} : report_failure(meta_.index, bad, app::kExitFailure);
}

Status Receiver::add_data(const RecordReader::Record& r) {
  file_bytes_ += r.length;
  if (file_bytes_ > meta_.size) return damaged("more content than the file has");
  if (skipping_) return {};
  hash_.add(r.payload, r.length);
  const std::string bad = tree_.write(r.payload, r.length);
  if (bad.empty()) return {};
  skipping_ = true;
  tree_.discard();
  return report_failure(meta_.index, bad, app::kExitFailure);
}

Status Receiver::end_file(const RecordReader::Record& r) {
  in_file_ = false;
  if (r.kind == RecordKind::kFileAbort) {
    tree_.discard();
    return {};  // the sender knows why
  }
  Digest sent;
  if (r.length != sent.size()) return damaged("no digest at the end of a file");
  if (skipping_) return {};
  std::memcpy(sent.data(), r.payload, sent.size());
  if (file_bytes_ != meta_.size || hash_.finish() != sent) {
    tree_.discard();
    return report_failure(meta_.index, "arrived damaged: its SHA-256 does not match; not kept",
                          app::kExitMismatch);
  }
  const std::string bad = tree_.commit(meta_, overwrite_);
  if (bad.empty()) report_.bytes += file_bytes_;
  return outcome(bad);
}

Status Receiver::file_record(const RecordReader::Record& r) {
  switch (r.kind) {
    case RecordKind::kData:
      return in_file_ ? add_data(r) : damaged("content outside of a file");
    case RecordKind::kFileEnd:
    case RecordKind::kFileAbort:
      return in_file_ ? end_file(r) : damaged("an end without a file");
    case RecordKind::kEnd:
      ended_ = true;
      return in_file_ ? damaged("an end inside of a file") : Status{};
    default:
      break;
  }
  if (in_file_ || !read_metadata(r, meta_, path_, target_))
    return damaged("no metadata where it was due");
  switch (r.kind) {
    case RecordKind::kFile:
      return begin_file();
    case RecordKind::kSymlink:
      return outcome(tree_.make_symlink(path_, target_, overwrite_));
    case RecordKind::kDirectory: {
      const std::string bad = tree_.make_directory(path_);
      return bad.empty() ? Status{} : report_failure(meta_.index, bad, app::kExitFailure);
    }
    case RecordKind::kDirectoryEnd: {
      const std::string bad = tree_.finish_directory(path_, meta_);
      return bad.empty() ? Status{} : report_failure(meta_.index, bad, app::kExitFailure);
    }
    default:
      return damaged("unknown kind of record");
  }
}

Status Receiver::handle(const RecordReader::Record& r) {
  if (ended_) return damaged("a record after the end");
  return manifest_ended_ ? file_record(r) : manifest_record(r);
}

Status Receiver::take_slot(std::uint32_t used) {
  if (used > kSlotBytes) return damaged("a slot that is longer than a slot");
  RecordReader reader(ring_.data() + taken_ % kSlots * kSlotBytes, used);
  while (const auto record = reader.next())
    if (Status s = handle(*record); !s.ok()) return s;
  if (reader.damaged()) return damaged("a check value does not match");
  ++taken_;
  return give_credit();
}

Status Receiver::give_credit() {
  if (credit_in_flight_ || credit_given_ == taken_) return {};
  metaroce_wr wr{};
  wr.wr_id = kCreditId;
  wr.op = METAROCE_SEND_IMM;
  wr.imm = static_cast<std::uint32_t>(taken_);
  wr.flags = METAROCE_WR_SIGNALED;
  const int posted = metaroce_post(link_.data(), &wr, 1);
  if (posted < 0) return app::api_failure(posted, "cannot return a credit");
  credit_in_flight_ = posted == 1;
  if (posted == 1) credit_given_ = taken_;
  return {};
}

Status Receiver::take_completions(bool& worked) {
  std::array<metaroce_wc, kSlots> wc;
  const int n = metaroce_poll(link_.cq(), static_cast<int>(wc.size()), wc.data());
  if (n < 0) return app::api_failure(n, "cannot poll for completions");
  worked = n > 0;
  for (int i = 0; i < n; ++i) {
    const metaroce_wc& c = wc[static_cast<std::size_t>(i)];
    if (c.status != METAROCE_SUCCESS) return app::work_failure(c.status, "the copy's data stream");
    if (c.op < METAROCE_RECV) {
      credit_in_flight_ = false;
      continue;
    }
    if (Status s = link_.post_receive(); !s.ok()) return s;
    if (Status s = take_slot(c.imm); !s.ok()) return s;
  }
  return give_credit();
}

// After the end: the last credit, then the summary, acknowledged.
Status Receiver::finish() {
  const std::int64_t deadline = now_ns() + o_.timeout_ms() * (kSecondNs / 1000);
  app::IdleWait wait(false);
  while ((credit_in_flight_ || credit_given_ != taken_) && now_ns() < deadline) {
    bool worked = false;
    if (Status s = take_completions(worked); !s.ok()) return s;
    wait.idle();
  }
  link_.set_over();
  if (refused_ > 0) link_.await_bye();
  if (refused_ > 0)
    return fail(app::kExitFailure,
                fmt::format("{} entries were refused; nothing was copied", refused_));
  Message m;
  m.kind = MessageKind::kSummary;
  m.files = report_.files;
  m.bytes = report_.bytes;
  m.failed = report_.failed;
  if (Status s = link_.send(m); !s.ok()) return s;
  link_.await_bye();
  return {};
}

Status Receiver::exchange() {
  if (Status s = send_ready(); !s.ok()) return s;
  if (Status s = link_.accept_data(listener_); !s.ok()) return s;
  for (unsigned passes = 0; !ended_; ++passes) {
    bool worked = false;
    if (Status s = take_completions(worked); !s.ok()) return s;
    if (io_.stopping())
      return fail(app::kExitFailure, "interrupted: unfinished files were removed");
    if (worked && passes % 16 != 0) continue;
    std::optional<Message> message;
    if (Status s = link_.poll(message); !s.ok()) return s;
    const std::int64_t now = now_ns();
    if (now - last_knock_ > kSecondNs / 5) {
      last_knock_ = now;
      app::turn_away(listener_, link_.control_attr(), link_.hello(true));
    }
    if (!worked && !ended_) link_.sleep_idle(20);
  }
  return finish();
}

Status Receiver::run(Status accepted) {
  const std::int64_t start = now_ns();
  Status status = accepted.ok() ? exchange() : std::move(accepted);
  tree_.discard();
  // What was refused, the sender has heard already.
  if (refused_ == 0 || !ended_) status = link_.conclude(std::move(status));
  link_.close(status.ok() || refused_ > 0);
  report_.elapsed_ns = now_ns() - start;
  if (!status.ok()) return status;
  if (report_.mismatched > 0)
    return fail(app::kExitMismatch,
                fmt::format("{} files arrived damaged and were not kept", report_.mismatched));
  if (report_.failed > 0)
    return fail(app::kExitFailure, fmt::format("{} entries were not stored", report_.failed));
  return {};
}

}  // namespace metaroce::copy
