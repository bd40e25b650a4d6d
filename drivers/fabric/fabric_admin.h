// Changes an emulated fabric while it runs: a Unix socket of message type SEQPACKET next to the
// control socket, for the daemon's own user (mode 0600). One connection, one request, one answer:
//
//   show                                  {"ok": true, "fabric": {...}}
//   {kind: down, plane: 2}                {"ok": true, "applied": 1}
//   [{kind: loss, probability: 1%}, ...]  all of them or, with {"ok": false, "error": ...}, none
//
// The text of a fault is that of the configuration and of scenario files; `at` has no meaning here.
// Control thread; it never waits: a batch is handed to the fabric and answered in a later poll().
// Bounds: kMaxClients connections, of which the oldest goes when one more comes; kMaxRequest bytes.
//
// Rejected: a request of the applications' control protocol. Whoever may attach may send packets,
// and that should not include pulling the cables of everybody else.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "api/server/listen_socket.h"
#include "drivers/fabric/emulated_fabric.h"

namespace metaroce {

class FabricAdmin {
 public:
  // The fabric outlives it. nullptr with a sentence in `error`.
  static std::unique_ptr<FabricAdmin> open(EmulatedFabric& fabric, const std::string& path,
                                           std::string& error);
  void poll();

 private:
  static constexpr std::size_t kMaxClients = 8, kMaxRequest = 16384, kMaxFaults = 256;

  explicit FabricAdmin(EmulatedFabric& fabric) : fabric_(fabric) {}
  void accept_all();
  bool serve(UniqueFd& client);  // true: done with it
  // The faults that the text means, or why it means none.
  std::string parse(std::string_view text, std::vector<fabric::Fault>& out) const;

  EmulatedFabric& fabric_;
  ListenSocket door_;
  std::deque<UniqueFd> clients_;
  UniqueFd waiting_;  // whose batch the fabric has
  std::size_t batch_ = 0;
  std::string buffer_;
};

}  // namespace metaroce
