// What a fuzz target provides. Each target is built twice: with libFuzzer (-Dfuzz=true, clang;
// scripts/fuzz.sh) and with driver.cpp, which runs it on the seeds and on a fixed number of
// mutations of them in the default suite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace metaroce::fuzz {

// Valid inputs, and those that once failed: where mutation starts.
std::vector<std::vector<std::uint8_t>> seeds();

// Ends the process when a property does not hold: libFuzzer and the driver both see that.
[[noreturn]] void property_failed(const char* what, const char* file, int line);

}  // namespace metaroce::fuzz

#define FUZZ_CHECK(condition) \
  ((condition) ? void() : ::metaroce::fuzz::property_failed(#condition, __FILE__, __LINE__))

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
