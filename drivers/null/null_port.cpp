// net_null: sends into nothing, receives nothing (the driver's endless zero frames are switched
// off). For measuring what transmission costs without a port. `args: no-rx=0` gets the zero frames.
#include "drivers/kinds.h"

namespace metaroce::drivers {

const PortCapabilities k_null_row = {
    .kind = PortKind::kNull,
    .name = "null",
    .max_queues = 1024,
    .multi_segment_tx = Support::kYes,  // whatever it is, it is freed
    .max_frame = 65535,
    .memory_link = true};

namespace {
class NullPort final : public Port {
 public:
  explicit NullPort(PortConfig c) : Port(std::move(c), k_null_row) {}
  ~NullPort() override { close(); }

 protected:
  Status create(std::uint16_t& id) override {
    const std::string args = config_.args.find("no-rx") == std::string::npos ? "no-rx=1" : "copy=0";
    return attach("vdev", vdev_name("net_null"), args + more_args(), id);
  }
  void destroy() override { detach("vdev", vdev_name("net_null")); }
};
}  // namespace

std::unique_ptr<Port> make_null(PortConfig c) { return std::make_unique<NullPort>(std::move(c)); }

}  // namespace metaroce::drivers
