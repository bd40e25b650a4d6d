#include "api/server/memfd_resources.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace metaroce {
namespace {

constexpr std::size_t kPage = 4096, kHugePage = std::size_t{2} << 20;

std::string system_error(const char* what, int err) {
  return std::string(what) + ": " + std::strerror(err);
}

}  // namespace

bool MemfdResources::map(Block::Use use, std::size_t length, unsigned flags, Block& out,
                         std::string& why) {
  UniqueFd fd(memfd_create("metaroce", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (!fd) {
    why = system_error("cannot create shared memory", errno);
    return false;
  }
  if (ftruncate(fd.get(), static_cast<off_t>(length)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    why = system_error("cannot size and seal shared memory", errno);
    return false;
  }
  void* p = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (p == MAP_FAILED) {
    why = system_error("cannot map shared memory", errno);
    return false;
  }
  out = Block(this, use, static_cast<std::byte*>(p), length, std::move(fd));
  return true;
}

bool MemfdResources::allocate(Block::Use use, std::size_t length, Block& out, std::string& why) {
  if (length == 0 || length > SIZE_MAX / 2) {
    why = "length of shared memory out of range";
    return false;
  }
  if (hugepages_ && use == Block::Use::kMemory && length >= kHugePage) {
    const std::size_t rounded = (length + kHugePage - 1) & ~(kHugePage - 1);
    // An empty pool is no error: ordinary pages do the same, slower.
    if (map(use, rounded, MFD_HUGETLB | MFD_HUGE_2MB, out, why)) return true;
  }
  return map(use, (length + kPage - 1) & ~(kPage - 1), 0, out, why);
}

void MemfdResources::release(Block::Use, std::byte* data, std::size_t length) {
  munmap(data, length);
}

bool MemfdResources::make_wake(Wake& out, std::string& why) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    why = system_error("cannot create a completion queue's event descriptor", errno);
    return false;
  }
  out.client.reset(ends[0]);
  out.write.reset(ends[1]);
  out.hold.reset(fcntl(ends[0], F_DUPFD_CLOEXEC, 0));
  if (!out.hold) {
    why = system_error("cannot create a completion queue's event descriptor", errno);
    return false;
  }
  fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(kPage));
  return true;
}

}  // namespace metaroce
