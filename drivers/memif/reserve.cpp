#include "drivers/memif/reserve.h"

namespace metaroce::drivers::memif {

void Reserve::watch(Watch& w) const {
  w.on(fd_, !greeted_);
  if (!fd_ && wanted_) w.at(retry_at_);
}

void Reserve::step(bool wanted, Time now) {
  wanted_ = wanted;
  if (!fd_ && wanted && now >= retry_at_) {
    fd_ = driver_->connect();
    if (!fd_) retry_at_ = now + kPause;
  }
  if (!fd_) return;
  if (!greeted_) {
    const Received r = receive(fd_.get(), hello_);
    if (r == Received::kNothing) return;
    greeted_ = r == Received::kMessage;
  }
  if (greeted_ && wanted && !hung_up(fd_.get())) return;
  take();  // also when the driver had no memory for it
  retry_at_ = now + kPause;
}

}  // namespace metaroce::drivers::memif
