#include "sim/arena.h"

#include <sys/mman.h>

namespace metaroce::sim {

Arena::Arena(std::uint64_t bytes) : bytes_(bytes) {
  void* p = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p != MAP_FAILED) data_ = static_cast<std::uint8_t*>(p);
}

Arena::~Arena() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace metaroce::sim
