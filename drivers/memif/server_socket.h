// The configured socket of server ports: we listen, not the driver. Whoever connects is a guest
// until its INIT names a port that is free; only then does the driver hear of it.
//  - Bounded: kGuests at one time, each for kGuestLimit, which is also how long an INIT waits for
//    its port (being opened, or still occupied by a peer that just died). More wait in the kernel.
//  - A guest that is too late, or asks for no port of ours, is closed without a word.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataplane/status.h"
#include "drivers/memif/control_link.h"
#include "drivers/memif/reserve.h"

namespace metaroce::drivers::memif {

class ServerSocket {
 public:
  static constexpr std::size_t kGuests = 16;
  static constexpr std::chrono::seconds kGuestLimit{2};

  explicit ServerSocket(std::string name) : name_(std::move(name)) {}
  ~ServerSocket();
  // A path that nobody listens on any more is taken over.
  Status open();
  [[nodiscard]] const std::string& name() const { return name_; }

  // At most one link of an id.
  void add(std::uint32_t id, std::shared_ptr<PrivateSocket> driver, ControlLink& link) {
    ports_.push_back({id, &link, Reserve(std::move(driver))});
  }
  // Takes no more clients; forgotten() a moment later.
  void remove(const ControlLink& link);
  [[nodiscard]] bool forgotten(const ControlLink& link) const;
  // At once, whatever the driver thinks of it.
  void drop(const ControlLink& link) {
    std::erase_if(ports_, [&](const ServedPort& p) { return p.link == &link; });
  }
  [[nodiscard]] bool unused() const { return ports_.empty(); }

  void watch(Watch& w) const;
  void step(Time now);

 private:
  struct Guest {
    UniqueFd fd;
    Time deadline;
    bool greeted = false, named = false;  // named: `init` is here
    Message init;
  };
  struct ServedPort {
    std::uint32_t id;
    ControlLink* link;
    Reserve reserve;
    bool leaving = false;
  };
  void accept_guests(Time now);
  bool serve(Guest& g, Time now);  // false: it leaves
  ServedPort* port_for(const Message& init);
  [[nodiscard]] bool full() const { return guests_.size() >= kGuests; }

  std::string name_;
  UniqueFd listener_;
  bool can_greet_ = false;
  Message hello_;  // the driver's; that of one port is that of all
  std::vector<Guest> guests_;
  std::vector<ServedPort> ports_;
};

}  // namespace metaroce::drivers::memif
