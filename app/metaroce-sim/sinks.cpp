#include "metaroce-sim/sinks.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace metaroce::simapp {
namespace {

template <typename T>
void put(OutputFile& out, const T& record) {
  out.write({reinterpret_cast<const char*>(&record), sizeof record});
}

struct PcapHeader {
  std::uint32_t magic = 0xa1b23c4d;
  std::uint16_t major = 2, minor = 4;
  std::uint32_t zone = 0, accuracy = 0, longest = 65535, link_type = 1;
};
static_assert(sizeof(PcapHeader) == 24);

struct PcapRecord {
  std::uint32_t seconds, nanos, captured, length;
};
static_assert(sizeof(PcapRecord) == 16);

}  // namespace

std::string OutputFile::open(const std::string& path) {
  path_ = path;
  file_.reset(std::fopen(path.c_str(), "wb"));
  return file_ ? "" : fmt::format("{} cannot be written: {}", path, std::strerror(errno));
}

std::string OutputFile::close() {
  if (!file_) return {};
  if (std::fflush(file_.get()) != 0) failed_ = true;
  file_.reset();
  return failed_ ? fmt::format("{} was not written whole", path_) : "";
}

void start_series(OutputFile& out) { out.write("time_ns,name,value\n"); }

void add_sample(OutputFile& out, Nanos at, std::string_view name, std::int64_t value) {
  out.write(fmt::format("{},{},{}\n", at, name, value));
}

void start_losses(OutputFile& out) { out.write("time_ns,flow,offset,transmission,cause\n"); }

void add_loss(OutputFile& out, const sim::LostPacket& lost) {
  out.write(fmt::format("{},{},{},{},{}\n", lost.at, lost.flow + 1, lost.offset, lost.transmission,
                        lost.cause));
}

void start_pcap(OutputFile& out) { put(out, PcapHeader{}); }

void add_frame(OutputFile& out, Nanos at, std::span<const std::uint8_t> frame) {
  const auto length = static_cast<std::uint32_t>(frame.size());
  put(out, PcapRecord{static_cast<std::uint32_t>(at / kSecond),
                      static_cast<std::uint32_t>(at % kSecond), length, length});
  out.write({reinterpret_cast<const char*>(frame.data()), frame.size()});
}

}  // namespace metaroce::simapp
