// What a session hands to its client: memory blocks and wake descriptors. One interface, two
// worlds: the daemon shares memfds and pipes with another process (MemfdResources), the embedded
// library gives pointers (client/in_process.h).
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "api/unique_fd.h"

namespace metaroce {

class Resources;

// Mapped, zeroed memory; goes back to its Resources when the owner lets go of it.
class Block {
 public:
  enum class Use { kRings, kMemory };
  Block() = default;
  Block(Resources* owner, Use use, std::byte* data, std::size_t length, UniqueFd fd)
      : owner_(owner), use_(use), data_(data), length_(length), fd_(std::move(fd)) {}
  Block(Block&& o) noexcept { *this = std::move(o); }
  Block& operator=(Block&& o) noexcept;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { release(); }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t length() const { return length_; }  // bytes mapped
  [[nodiscard]] Use use() const { return use_; }
  // The descriptor to send; invalid within one process. The mapping does not need it.
  UniqueFd take_fd() { return std::move(fd_); }
  void release();

 private:
  Resources* owner_ = nullptr;
  Use use_ = Use::kRings;
  std::byte* data_ = nullptr;
  std::size_t length_ = 0;
  UniqueFd fd_;
};

// A role writes 8 bytes to `write` (never blocks), the application reads `client`. `hold` is
// only kept open.
struct Wake {
  UniqueFd write, hold, client;
};

class Resources {
 public:
  virtual ~Resources() = default;
  // At least `length` bytes, page aligned. False with a sentence in `why`.
  virtual bool allocate(Block::Use use, std::size_t length, Block& out, std::string& why) = 0;
  virtual void release(Block::Use use, std::byte* data, std::size_t length) = 0;
  virtual bool make_wake(Wake& out, std::string& why) = 0;
};

inline Block& Block::operator=(Block&& o) noexcept {
  if (this != &o) {
    release();
    owner_ = std::exchange(o.owner_, nullptr);
    use_ = o.use_;
    data_ = std::exchange(o.data_, nullptr);
    length_ = std::exchange(o.length_, 0);
    fd_ = std::move(o.fd_);
  }
  return *this;
}
inline void Block::release() {
  if (owner_ != nullptr) owner_->release(use_, data_, length_);
  owner_ = nullptr;
  data_ = nullptr;
  length_ = 0;
  fd_.reset();
}

}  // namespace metaroce
