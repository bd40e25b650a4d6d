// Both ends of a ring while a hostile side writes what it likes into cursors and slots. The input
// is a program: one byte of operation, four of operand.
#include <cstring>

#include "base/ring.h"
#include "target.h"

namespace metaroce::fuzz {

std::vector<std::vector<std::uint8_t>> seeds() {
  return {
      // push, publish, pop; then each cursor one too far.
      {0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0},
      {3, 0, 0, 0, 9, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0},
      {4, 0, 0, 0, 9, 0, 0, 0, 0, 1, 5, 0, 0, 0, 8, 1, 0, 0, 0, 0},
      {4, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 3, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0},
  };
}

namespace {

constexpr std::uint32_t kCapacity = 8;
struct Shared {
  RingHeader header;
  std::uint64_t slots[kCapacity] = {};
  std::uint64_t guard = 0x5aa5;
};

}  // namespace
}  // namespace metaroce::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace metaroce;
  const auto shared = std::make_unique<fuzz::Shared>();  // on the heap: red zones on both sides
  fuzz::Shared& s = *shared;
  RingProducer<std::uint64_t> p(&s.header, s.slots, fuzz::kCapacity);
  RingConsumer<std::uint64_t> c(&s.header, s.slots, fuzz::kCapacity);
  std::uint32_t reserved = 0;
  for (; size >= 5; data += 5, size -= 5) {
    std::uint32_t v;
    std::memcpy(&v, data + 1, 4);
    v = __builtin_bswap32(v);
    std::uint64_t out = 0;
    const bool dead_p = p.corrupt(), dead_c = c.corrupt();
    switch (data[0] % 7) {
      case 0:
        if (reserved == 0) p.push(v);
        break;
      case 1:
        p.publish();
        reserved = 0;
        break;
      case 2:
        c.pop(out);
        break;
      case 3:
        s.header.head = v;
        break;
      case 4:
        s.header.tail = v;
        break;
      case 5: {
        const std::uint32_t room = p.room(v);
        FUZZ_CHECK(room <= fuzz::kCapacity);
        for (; reserved < room; ++reserved) p.stage(v);
        break;
      }
      default:
        s.slots[v % fuzz::kCapacity] = v;
        break;
    }
    FUZZ_CHECK(c.available() <= fuzz::kCapacity);
    FUZZ_CHECK(p.room() <= fuzz::kCapacity);
    FUZZ_CHECK(!dead_p || p.room() == 0);  // a ring once found corrupt stays closed
    FUZZ_CHECK(!dead_c || c.corrupt());
  }
  FUZZ_CHECK(s.guard == 0x5aa5);
  return 0;
}
