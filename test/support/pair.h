// A world with one region at each end and short ways to post: for tests of single events.
#pragma once

#include "support/world.h"

namespace metaroce::test {

class Pair : public World {
 public:
  static constexpr std::size_t kBytes = 1 << 20;
  static constexpr std::uint32_t kSourceKey = (1U << 12) | 5, kSinkKey = (2U << 12) | 9;

  explicit Pair(const WorldOptions& o)
      : World(o),
        src(a.add_memory(kBytes, kSourceKey, kAccessLocalWrite)),
        dst(b.add_memory(kBytes, kSinkKey, kAccessLocalWrite | kAccessRemoteWrite)) {
    Rng rng(o.seed);
    for (auto& x : src.bytes) x = static_cast<std::uint8_t>(rng.next() | 1);  // never 0
    check_invariants = true;
  }
  // A request over src[at, at + n) to the same offset of dst. The caller may change it first.
  WorkRequest request(WorkOp op, std::uint64_t id, std::uint32_t n, std::uint64_t at = 0,
                      std::uint32_t stream = 0) const {
    WorkRequest r{};
    r.wr_id = id;
    r.op = static_cast<std::uint8_t>(op);
    r.flags = kWorkSignaled;
    r.stream = handle(stream);
    r.local_addr = src.va + at;
    r.lkey = src.key;
    r.remote_addr = dst.va + at;
    r.rkey = dst.key;
    r.length = n;
    r.imm = static_cast<std::uint32_t>(id) + 1000;
    return r;
  }
  void post(const WorkRequest& r) { ASSERT_TRUE(a.sends.push(r)); }
  void write(std::uint64_t id, std::uint32_t n, std::uint64_t at = 0, std::uint32_t stream = 0) {
    post(request(WorkOp::kWrite, id, n, at, stream));
  }
  void send(std::uint64_t id, std::uint32_t n, std::uint64_t at = 0, std::uint32_t stream = 0) {
    post(request(WorkOp::kSend, id, n, at, stream));
  }
  void receive(std::uint64_t id, std::uint32_t n, std::uint64_t at = 0, std::uint32_t stream = 0) {
    WorkRequest r{};
    r.wr_id = id;
    r.stream = handle(stream);
    r.local_addr = dst.va + at;
    r.lkey = dst.key;
    r.length = n;
    ASSERT_TRUE(b.receives.push(r));
  }
  bool finish(std::size_t completions, Nanos limit = kSecond) {
    return run_until([&] { return a.sent_completions.size() >= completions; }, limit);
  }
  [[nodiscard]] WorkStatus status(std::uint64_t id) const { return find(a.sent_completions, id); }
  [[nodiscard]] WorkStatus received(std::uint64_t id) const {
    return find(b.received_completions, id);
  }
  [[nodiscard]] bool same(std::size_t from = 0, std::size_t n = kBytes) const {
    return std::equal(src.bytes.begin() + static_cast<std::ptrdiff_t>(from),
                      src.bytes.begin() + static_cast<std::ptrdiff_t>(from + n),
                      dst.bytes.begin() + static_cast<std::ptrdiff_t>(from));
  }
  [[nodiscard]] bool untouched(std::size_t from, std::size_t n) const {
    return std::all_of(dst.bytes.begin() + static_cast<std::ptrdiff_t>(from),
                       dst.bytes.begin() + static_cast<std::ptrdiff_t>(from + n),
                       [](auto x) { return x == 0; });
  }
  [[nodiscard]] std::uint64_t drops_b(DropReason r) const { return b.rx.counters().drops[r]; }
  [[nodiscard]] TxPathView<EcnAimd> path(unsigned i) const { return a.tx.path(ConnIndex{1}, i); }
  [[nodiscard]] const Host::Tx::Conn& conn() const { return *a.tx.conn(ConnIndex{1}); }

  static bool is(const Frame& f, wire::Type t) {
    return (f.bytes[0] & 0x0f) == static_cast<int>(t);
  }
  static const wire::Data& data(const Frame& f) {
    return *reinterpret_cast<const wire::Data*>(f.bytes.data());
  }

  // An ACK from b with the block of one path, to be filled in.
  static Frame ack() {
    Frame f;
    f.bytes.resize(sizeof(wire::Ack) + sizeof(wire::AckPath));
    auto& a = *reinterpret_cast<wire::Ack*>(f.bytes.data());
    a.c.set(wire::Type::kAck);
    a.c.dcid = (1U << 8) | 0x5a;
    a.n_paths = 1;
    return f;
  }
  static wire::AckPath& block(Frame& f) {
    return *reinterpret_cast<wire::AckPath*>(f.bytes.data() + sizeof(wire::Ack));
  }

  Host::Memory &src, &dst;

 private:
  // 255 when there is none.
  static WorkStatus find(const std::vector<Completion>& all, std::uint64_t id) {
    for (const Completion& c : all)
      if (c.wr_id == id) return static_cast<WorkStatus>(c.status);
    return WorkStatus{255};
  }
};

}  // namespace metaroce::test
