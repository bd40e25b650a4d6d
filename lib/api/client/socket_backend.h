// The daemon behind its Unix socket. Its death shows as end of file; from then on gone() is true
// and every call returns at once.
#pragma once

#include <string>

#include "api/client/backend.h"

namespace metaroce {

class SocketBackend final : public Backend {
 public:
  explicit SocketBackend(UniqueFd fd) : fd_(std::move(fd)) {}
  bool send(const abi::Request& r, Nanos limit) override;
  bool receive(Incoming& out) override;
  void wait(Nanos limit) override;
  [[nodiscard]] bool gone() const override { return gone_; }
  std::byte* map(Incoming& m, std::string& why) override;
  void unmap(std::byte* data, std::size_t length) override;
  int progress() override { return 0; }
  [[nodiscard]] bool needs_progress() const override { return false; }

 private:
  void wait_for(short events, Nanos limit);

  UniqueFd fd_;
  bool gone_ = false;
};

}  // namespace metaroce
