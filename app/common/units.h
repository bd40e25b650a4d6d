// Numbers on the command line and in reports. K, M and G are 2^10, 2^20, 2^30 for sizes of
// memory; rates of the network are decimal: Gb/s = 10^9 bit/s, MiB/s = 2^20 byte/s, M/s = 10^6.
// A rate over no time is 0, never NaN or infinite.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace metaroce::app {

// "4096", "64K", "2GiB", "0x1000". On failure returns a sentence, else "".
std::string parse_bytes(std::string_view text, std::uint64_t& out);
// A plain decimal or 0x number.
std::string parse_count(std::string_view text, std::uint64_t& out);
// Seconds with a fraction: "0.5", "10". More than 0, at most 10^6.
std::string parse_seconds(std::string_view text, double& out);

double per_second(double amount, std::int64_t ns);
double gigabits_per_second(std::uint64_t bytes, std::int64_t ns);
double mebibytes_per_second(std::uint64_t bytes, std::int64_t ns);
double millions_per_second(std::uint64_t count, std::int64_t ns);

std::string format_bytes(std::uint64_t bytes);  // "1.5 MiB"

// The name of a file between quotes, control characters and broken UTF-8 escaped: one line always.
std::string quoted(std::string_view name);

}  // namespace metaroce::app
