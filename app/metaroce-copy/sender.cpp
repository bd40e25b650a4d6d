#include "metaroce-copy/sender.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "common/units.h"
#include "metaroce-copy/unique_file.h"

namespace metaroce::copy {
namespace {

using app::fail;
using app::now_ns;
using app::Status;

Metadata metadata_of(std::uint64_t index, EntryType type, const struct stat& st) {
  Metadata m;
  m.index = index;
  m.type = type;
  m.size = type == EntryType::kFile ? static_cast<std::uint64_t>(st.st_size) : 0;
  m.mode = st.st_mode & 07777;
  m.mtime_s = st.st_mtim.tv_sec;
  m.mtime_ns = static_cast<std::uint32_t>(st.st_mtim.tv_nsec);
  return m;
}

}  // namespace

void Sender::note_failure(std::uint64_t index, const std::string& why, bool mismatch) {
  ++report_.failed;
  report_.mismatched += mismatch ? 1 : 0;
  const std::string name =
      index < sources_.entries.size() ? app::quoted(sources_.entries[index].source) : "an entry";
  const std::string line = fmt::format("{}: {}", name, why);
  progress_.clear();
  std::fprintf(io_.err, "metaroce-copy: %s\n", line.c_str());
  if (report_.failures.size() < CopyReport::kMaxFailures) report_.failures.push_back(line);
}

Status Sender::take_completions(bool& worked) {
  std::array<metaroce_wc, 16> wc;
  const int n = metaroce_poll(link_.cq(), static_cast<int>(wc.size()), wc.data());
  if (n < 0) return app::api_failure(n, "cannot poll for completions");
  worked = n > 0;
  for (int i = 0; i < n; ++i) {
    const metaroce_wc& c = wc[static_cast<std::size_t>(i)];
    if (c.status != METAROCE_SUCCESS) return app::work_failure(c.status, "the copy's data stream");
    if (c.op != METAROCE_RECV) continue;
    credited_ += static_cast<std::uint32_t>(c.imm - static_cast<std::uint32_t>(credited_));
    if (credited_ > posted_)
      return fail(app::kExitFailure, "the receiver credits more than was sent");
    last_progress_ = now_ns();
    if (Status s = link_.post_receive(); !s.ok()) return s;
  }
  return {};
}

Status Sender::service() {
  if (io_.stopping()) return fail(app::kExitFailure, "interrupted: unfinished files were removed");
  std::optional<Message> m;
  do {
    if (Status s = link_.poll(m); !s.ok()) return s;
    if (!m) break;
    switch (m->kind) {
      case MessageKind::kRefused:
        ++refused_;
        note_failure(m->index, std::string(m->text_view()), false);
        break;
      case MessageKind::kFailed:
        note_failure(m->index, std::string(m->text_view()), m->code == app::kExitMismatch);
        break;
      case MessageKind::kManifestDone:
        manifest_done_ = m;
        break;
      case MessageKind::kReady:
        remote_address_ = m->address;
        remote_rkey_ = m->rkey;
        slot_bytes_ = m->slot_bytes;
        slots_ = m->slots;
        break;
      case MessageKind::kSummary:
        summary_ = m;
        link_.set_over();
        break;
      default:
        return fail(app::kExitFailure, "the receiver sent a message out of turn");
    }
  } while (m);
  const std::uint64_t behind = (posted_ - credited_) * slot_bytes_;
  progress_.update(sent_bytes_ > behind ? sent_bytes_ - behind : 0, sources_.total_bytes,
                   report_.files);
  return {};
}

Status Sender::await_ready() {
  while (slot_bytes_ == 0) {
    if (Status s = service(); !s.ok()) return s;
    if (slot_bytes_ == 0) link_.sleep_idle(1);
  }
  if (slot_bytes_ < record_size(kMaxMetadata) || slot_bytes_ > (1U << 30) || slots_ == 0 ||
      slots_ > kSlots)
    return fail(app::kExitFailure, "the receiver offers a ring that cannot be used");
  return ring_.allocate(link_.context(), std::size_t{slot_bytes_} * slots_,
                        METAROCE_ACCESS_LOCAL_WRITE, "the ring of slots");
}

Status Sender::flush() {
  if (used_ == 0) return {};
  metaroce_wr wr{};
  wr.wr_id = posted_;
  wr.local = slot();
  wr.lkey = ring_.lkey();
  wr.length = static_cast<std::uint32_t>(used_);
  wr.imm = wr.length;
  wr.op = METAROCE_WRITE_IMM;
  wr.flags = METAROCE_WR_SIGNALED;
  wr.remote_addr = remote_address_ + posted_ % slots_ * slot_bytes_;
  wr.rkey = remote_rkey_;
  const int taken = metaroce_post(link_.data(), &wr, 1);
  if (taken < 0) return app::api_failure(taken, "cannot post a Write");
  if (taken == 0) return fail(app::kExitFailure, "cannot post a Write: the queue is full");
  ++posted_;
  used_ = 0;
  last_progress_ = now_ns();
  app::IdleWait wait(false);
  for (unsigned passes = 0;; ++passes) {
    bool worked = false;
    if (Status s = take_completions(worked); !s.ok()) return s;
    if (passes % 64 == 0)
      if (Status s = service(); !s.ok()) return s;
    if (posted_ - credited_ < slots_) return {};
    if (static_cast<double>(now_ns() - last_progress_) > o_.timeout_s * 1e9)
      return fail(app::kExitPeerLost,
                  fmt::format("the receiver took nothing for {} s", o_.timeout_s));
    if (worked)
      wait.busy();
    else
      wait.idle();
  }
}

Status Sender::reserve(std::uint32_t payload) {
  return used_ + record_size(payload) > slot_bytes_ ? flush() : Status{};
}

Status Sender::append(RecordKind kind, const void* payload, std::uint32_t length) {
  if (Status s = reserve(length); !s.ok()) return s;
  std::uint8_t* at = slot() + used_;
  // File content is read into its place before.
  if (length > 0 && payload != at + sizeof(RecordHeader))
    std::memcpy(at + sizeof(RecordHeader), payload, length);
  const RecordHeader h{kind, length, check_value(kind, length, at + sizeof(RecordHeader))};
  std::memcpy(at, &h, sizeof h);
  used_ += record_size(length);
  return {};
}

Status Sender::send_metadata(RecordKind kind, const Metadata& m, const std::string& path,
                             const std::string& target) {
  Metadata meta = m;
  meta.path_length = static_cast<std::uint32_t>(path.size());
  meta.target_length = static_cast<std::uint32_t>(target.size());
  std::string payload(reinterpret_cast<const char*>(&meta), sizeof meta);
  payload += path;
  payload += target;
  return append(kind, payload.data(), static_cast<std::uint32_t>(payload.size()));
}

Status Sender::send_manifest() {
  for (std::uint64_t i = 0; i < sources_.entries.size(); ++i) {
    Metadata meta;
    meta.index = i;
    meta.type = sources_.entries[i].type;
    meta.mode = o_.overwrite;
    if (Status s = send_metadata(RecordKind::kManifest, meta, sources_.entries[i].path); !s.ok())
      return s;
  }
  if (Status s = append(RecordKind::kManifestEnd, nullptr, 0); !s.ok()) return s;
  if (Status s = flush(); !s.ok()) return s;
  app::IdleWait wait(false);
  while (!manifest_done_) {
    bool worked = false;
    if (Status s = take_completions(worked); !s.ok()) return s;
    if (Status s = service(); !s.ok()) return s;
    wait.idle();
  }
  if (manifest_done_->failed > 0)
    return fail(app::kExitFailure, fmt::format("{} of {} entries were refused; nothing was copied",
                                               manifest_done_->failed, sources_.entries.size()));
  return {};
}

Status Sender::send_content(int fd, std::uint64_t size, bool& complete) {
  hash_.reset();
  std::uint64_t left = size;
  complete = false;
  while (left > 0) {
    constexpr std::uint32_t kLeast = 4096;  // not worth a record of its own below
    if (Status s = reserve(static_cast<std::uint32_t>(std::min<std::uint64_t>(left, kLeast)));
        !s.ok())
      return s;
    const std::uint64_t room = (slot_bytes_ - used_ - sizeof(RecordHeader)) / 8 * 8;
    std::uint8_t* at = slot() + used_ + sizeof(RecordHeader);
    const ssize_t n = ::read(fd, at, std::min(left, room));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return {};  // error, or shorter than it was: the caller aborts the file
    hash_.add(at, static_cast<std::size_t>(n));
    if (Status s = append(RecordKind::kData, at, static_cast<std::uint32_t>(n)); !s.ok()) return s;
    left -= static_cast<std::uint64_t>(n);
    sent_bytes_ += static_cast<std::uint64_t>(n);
  }
  complete = true;
  return {};
}

Status Sender::send_file(std::uint64_t index) {
  const SourceEntry& entry = sources_.entries[index];
  const UniqueFile file(
      ::open(entry.source.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat st = {};
  if (!file || ::fstat(file.get(), &st) < 0) {
    note_failure(index, std::strerror(errno), false);
    return {};
  }
  if (!S_ISREG(st.st_mode)) {
    note_failure(index, "is no longer a file", false);
    return {};
  }
  const Metadata meta = metadata_of(index, EntryType::kFile, st);
  if (Status s = send_metadata(RecordKind::kFile, meta, entry.path); !s.ok()) return s;
  bool complete = false;
  if (Status s = send_content(file.get(), meta.size, complete); !s.ok()) return s;
  struct stat after = {};
  const bool same = ::fstat(file.get(), &after) == 0 && after.st_size == st.st_size &&
                    after.st_mtim.tv_sec == st.st_mtim.tv_sec &&
                    after.st_mtim.tv_nsec == st.st_mtim.tv_nsec;
  if (!complete || !same) {
    note_failure(index,
                 complete || !same ? "changed while it was read" : "cannot be read to its end",
                 false);
    return append(RecordKind::kFileAbort, nullptr, 0);
  }
  const Digest digest = hash_.finish();
  ++report_.files;
  return append(RecordKind::kFileEnd, digest.data(), digest.size());
}

Status Sender::send_link(std::uint64_t index) {
  const SourceEntry& entry = sources_.entries[index];
  std::string target(kMaxPath + 1, '\0');
  const ssize_t n = ::readlink(entry.source.c_str(), target.data(), target.size());
  if (n <= 0 || static_cast<std::size_t>(n) > kMaxPath) {
    note_failure(index, n < 0 ? std::strerror(errno) : "the link's target is too long", false);
    return {};
  }
  target.resize(static_cast<std::size_t>(n));
  Metadata meta;
  meta.index = index;
  meta.type = EntryType::kSymlink;
  ++report_.files;
  return send_metadata(RecordKind::kSymlink, meta, entry.path, target);
}

// Mode and time of the directories whose last entry lies before `next`.
Status Sender::close_directories(std::size_t next) {
  while (!directories_.empty() &&
         sources_.entries[directories_.back().index].directory_end <= next) {
    const OpenDirectory d = directories_.back();
    directories_.pop_back();
    if (Status s = send_metadata(RecordKind::kDirectoryEnd, d.meta, sources_.entries[d.index].path);
        !s.ok())
      return s;
  }
  return {};
}

Status Sender::send_entries() {
  for (std::uint64_t i = 0; i < sources_.entries.size(); ++i) {
    if (Status s = close_directories(i); !s.ok()) return s;
    if (io_.stopping())
      if (Status s = service(); !s.ok()) return s;
    const SourceEntry& entry = sources_.entries[i];
    Status status;
    if (entry.type == EntryType::kFile)
      status = send_file(i);
    else if (entry.type == EntryType::kSymlink)
      status = send_link(i);
    else {
      struct stat st = {};
      if (::lstat(entry.source.c_str(), &st) < 0) {
        note_failure(i, std::strerror(errno), false);
        continue;
      }
      directories_.push_back({metadata_of(i, EntryType::kDirectory, st), i});
      status = send_metadata(RecordKind::kDirectory, directories_.back().meta, entry.path);
    }
    if (!status.ok()) return status;
  }
  if (Status s = close_directories(sources_.entries.size()); !s.ok()) return s;
  if (Status s = append(RecordKind::kEnd, nullptr, 0); !s.ok()) return s;
  return flush();
}

Status Sender::await_summary() {
  app::IdleWait wait(false);
  while (!summary_) {
    bool worked = false;
    if (Status s = take_completions(worked); !s.ok()) return s;
    if (Status s = service(); !s.ok()) return s;
    wait.idle();
  }
  report_.files = summary_->files;
  report_.bytes = summary_->bytes;
  Message bye;
  bye.kind = MessageKind::kBye;
  return link_.send(bye);
}

Status Sender::exchange() {
  if (Status s = link_.connect(); !s.ok()) return s;
  if (Status s = await_ready(); !s.ok()) return s;
  if (Status s = send_manifest(); !s.ok()) return s;
  if (Status s = send_entries(); !s.ok()) return s;
  return await_summary();
}

Status Sender::run() {
  const std::int64_t start = now_ns();
  report_.failed = sources_.failures.size();
  for (const std::string& line : sources_.failures) {
    std::fprintf(io_.err, "metaroce-copy: %s\n", line.c_str());
    if (report_.failures.size() < CopyReport::kMaxFailures) report_.failures.push_back(line);
  }
  Status status = link_.conclude(exchange());
  link_.close(status.ok());
  progress_.clear();
  report_.elapsed_ns = now_ns() - start;
  if (!status.ok()) return status;
  if (report_.mismatched > 0)
    return fail(app::kExitMismatch,
                fmt::format("{} files arrived damaged and were not kept", report_.mismatched));
  if (report_.failed > 0)
    return fail(app::kExitFailure, fmt::format("{} entries were not copied", report_.failed));
  return {};
}

}  // namespace metaroce::copy
