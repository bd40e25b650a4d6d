// Files that a run writes while it goes: time series, losses and frames. A failed write is
// remembered and reported at the end; the run itself does not notice.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/units.h"
#include "sim/run.h"

namespace metaroce::simapp {

class OutputFile {
 public:
  // "" or what is wrong.
  std::string open(const std::string& path);
  [[nodiscard]] bool is_open() const { return file_ != nullptr; }
  void write(std::string_view bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) failed_ = true;
  }
  // Flushes; "" or what went wrong since open().
  std::string close();

 private:
  struct Closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::unique_ptr<std::FILE, Closer> file_;
  std::string path_;
  bool failed_ = false;
};

// `time_ns,name,value` lines.
void start_series(OutputFile& out);
void add_sample(OutputFile& out, Nanos at, std::string_view name, std::int64_t value);

// `time_ns,flow,offset,transmission,cause` lines; flows count from 1.
void start_losses(OutputFile& out);
void add_loss(OutputFile& out, const sim::LostPacket& lost);

// A pcap file with nanosecond times (magic 0xa1b23c4d, version 2.4, Ethernet), in host byte order.
void start_pcap(OutputFile& out);
void add_frame(OutputFile& out, Nanos at, std::span<const std::uint8_t> frame);

}  // namespace metaroce::simapp
