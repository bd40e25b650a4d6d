// The RX and TX role of one host, fed with packets of the fuzzer's making. The input is a program:
// deliver bytes as a packet (as they are, or addressed so that they get past the first checks),
// post work, let time pass, stop a stream. Whatever it does, invariants hold and no pool overflows.
#include <cstring>

#include "support/world.h"
#include "target.h"

namespace metaroce::fuzz {

namespace {
constexpr std::uint32_t kKey = (2U << 12) | 9;

// operation, length high, length low, bytes
void add(std::vector<std::uint8_t>& v, std::uint8_t op, const void* p, std::size_t n) {
  v.push_back(op);
  v.push_back(static_cast<std::uint8_t>(n >> 8));
  v.push_back(static_cast<std::uint8_t>(n));
  const auto* b = static_cast<const std::uint8_t*>(p);
  v.insert(v.end(), b, b + n);
}
template <typename T>
T packet(wire::Type t) {
  T x{};
  auto& c = reinterpret_cast<wire::Common&>(x);
  c.set(t);
  return x;
}
}  // namespace

std::vector<std::vector<std::uint8_t>> seeds() {
  std::vector<std::uint8_t> data, feedback, life;
  struct {
    wire::Write w;
    std::uint8_t payload[64];
  } write{packet<wire::Write>(wire::Type::kData), {}};
  write.w.d.op = 0xc1;
  write.w.message_length = 64;
  write.w.rkey = kKey;
  write.w.va = 0x700000000000ULL + (std::uint64_t{kKey} << 20);
  struct {
    wire::SendImm s;
    std::uint8_t payload[64];
  } send{packet<wire::SendImm>(wire::Type::kData), {}};
  send.s.s.d.op = 0xc3;
  send.s.s.message_length = 64;
  const auto flush = packet<wire::Flush>(wire::Type::kFlush);
  struct {
    wire::Ack a;
    wire::AckPath p;
    wire::AckSack s;
    wire::AckStream t;
  } ack{packet<wire::Ack>(wire::Type::kAck), {}, {}, {}};
  ack.a.n_paths = ack.a.n_streams = 1;
  ack.p.flags = wire::kAckSack;
  auto nack = packet<wire::Nack>(wire::Type::kNack);
  nack.reason = 1;
  const auto probe = packet<wire::Probe>(wire::Type::kProbe);
  for (int i = 0; i < 3; ++i) {
    add(data, 4, nullptr, 0);
    add(data, 1, &write, sizeof write);
    add(data, 1, &send, sizeof send);
    add(data, 1, &flush, sizeof flush);
    add(data, 0, &write, sizeof write);
    add(feedback, 3, nullptr, 0);
    add(feedback, 2, nullptr, 0);
    add(feedback, 1, &ack, sizeof ack);
    add(feedback, 1, &nack, sizeof nack);
    add(feedback, 1, &probe, sizeof probe);
    add(life, 3, nullptr, 0);
    add(life, 1, &write, sizeof write);
    add(life, 5, nullptr, 0);
    add(life, 6, nullptr, 0);
    add(life, 7, nullptr, 0);
  }
  return {data, feedback, life};
}

namespace {

// Puts the live identifiers in: the fuzzer need not guess 32 bits, only what it does with them.
void address(test::Frame& f, test::World& p) {
  if (f.bytes.size() < sizeof(wire::Common)) return;
  auto& c = *reinterpret_cast<wire::Common*>(f.bytes.data());
  c.dcid = (1U << 8) | 0x5a;
  c.path &= 1;
  const RxPath& rx = p.b.rx.conn(ConnIndex{1})->paths[c.path];
  const PathWindow tx = p.b.tx.path(ConnIndex{1}, c.path).seq;
  c.pseq = c.pseq + rx.highest().v + 1;
  switch (c.type()) {
    case wire::Type::kData:
      if (f.bytes.size() < sizeof(wire::Data)) return;
      reinterpret_cast<wire::Data*>(f.bytes.data())->spn =
          reinterpret_cast<wire::Data*>(f.bytes.data())->spn + p.b.rx.stream(p.handle(0))->cum().v;
      return;
    case wire::Type::kAck: {
      if (f.bytes.size() < sizeof(wire::Ack) + sizeof(wire::AckPath)) return;
      auto& b = *reinterpret_cast<wire::AckPath*>(f.bytes.data() + sizeof(wire::Ack));
      b.cum = b.cum + tx.floor.v;
      b.highest = b.highest + tx.floor.v;
      return;
    }
    case wire::Type::kNack: {
      if (f.bytes.size() < sizeof(wire::Nack)) return;
      auto& n = *reinterpret_cast<wire::Nack*>(f.bytes.data());
      n.pseq = n.pseq + tx.floor.v;
      n.spn = n.spn + p.b.tx.stream(p.handle(0))->cum().v;
      return;
    }
    default:
      return;
  }
}

}  // namespace
}  // namespace metaroce::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace metaroce;
  test::WorldOptions o;
  o.paths = 2;
  o.mtu = 256;
  o.send_depth = o.recv_depth = 8;
  o.ordered = size % 2 != 0;
  o.config.spn_window = 64;
  o.config.ordered_hold_packets = 4;
  o.queues = QueueSizes{4, 16, 64, 4, 4};
  o.limits = TxLimits{16, 4, 16, 256};
  test::World p(o);
  const test::Host::Memory& dst =
      p.b.add_memory(4096, fuzz::kKey, kAccessLocalWrite | kAccessRemoteWrite);
  p.ba.drop_if = p.ab.drop_if = [](const test::Frame&) { return true; };
  Nanos now = p.now;
  for (unsigned steps = 0; size >= 3 && steps < 64; ++steps) {
    const std::uint8_t op = data[0];
    const std::size_t n =
        std::min<std::size_t>(static_cast<std::size_t>(data[1]) << 8 | data[2], size - 3);
    test::Frame f;
    f.bytes.assign(data + 3, data + 3 + n);
    data += 3 + n;
    size -= 3 + n;
    Command k;
    switch (op % 8) {
      case 0:
      case 1:
        if (op % 8 == 1) fuzz::address(f, p);
        p.b.deliver(f, p.a.ip);
        break;
      case 2:
        now += 50 * kMicrosecond;
        break;
      case 3: {
        WorkRequest r{};
        r.op = op / 8 % 5;
        r.stream = p.handle(0);
        r.local_addr = dst.va;
        r.lkey = dst.key;
        r.length = 900;
        p.b.sends.push(r);
        break;
      }
      case 4: {
        WorkRequest r{};
        r.stream = p.handle(0);
        r.local_addr = dst.va;
        r.lkey = dst.key;
        r.length = 512;
        p.b.receives.push(r);
        break;
      }
      case 5:
        now += 100 * kMillisecond;
        break;
      case 6:
        k.kind = CommandKind::kChangePort;
        k.id = 1;
        (void)p.b.to_tx(k);
        break;
      default:
        k.kind = CommandKind::kStopStream;
        k.id = p.handle(0);
        (void)p.b.to_rx(k);
        (void)p.b.to_tx(k);
    }
    p.b.pass(++now, p.ab, p.a.ip);
    FUZZ_CHECK(p.b.tx.validate() == nullptr);
    FUZZ_CHECK(p.b.rx.conn(ConnIndex{1})->held <= o.config.ordered_hold_packets);  // [MR-6.4.5]
  }
  return 0;
}
