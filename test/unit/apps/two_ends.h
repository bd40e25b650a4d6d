// Runs two ends of a program in two threads and collects what they print.
#pragma once

#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/io.h"

namespace metaroce::app {

struct Printed {
  int code = -1;
  std::string out, err;
};

using Main = int (*)(int, const char* const*, const Io&);

inline std::string read_back(std::FILE* file) {
  std::string text;
  std::rewind(file);
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, file)) > 0;)
    text.append(buffer, n);
  std::fclose(file);
  return text;
}

inline Printed run_program(Main main, std::vector<std::string> args,
                           const std::atomic<int>* stop = nullptr) {
  std::vector<const char*> argv{"program"};
  for (const std::string& a : args) argv.push_back(a.c_str());
  Printed result;
  const Io io{std::tmpfile(), std::tmpfile(), stop};
  result.code = main(static_cast<int>(argv.size()), argv.data(), io);
  result.out = read_back(io.out);
  result.err = read_back(io.err);
  return result;
}

struct TwoEnds {
  Printed server, client;
  std::atomic<int> stop_server{0}, stop_client{0};

  TwoEnds() = default;
  // `meanwhile` runs in the caller's thread while both ends run.
  void run(Main main, std::vector<std::string> server_args, std::vector<std::string> client_args,
           const std::function<void()>& meanwhile = {}) {
    std::thread server_thread(
        [&] { server = run_program(main, std::move(server_args), &stop_server); });
    std::thread client_thread(
        [&] { client = run_program(main, std::move(client_args), &stop_client); });
    if (meanwhile) meanwhile();
    client_thread.join();
    server_thread.join();
  }
};

}  // namespace metaroce::app
