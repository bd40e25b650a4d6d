// libmetaroce-embed: make_backend() around a dataplane in this process. EAL starts once per
// process, so all contexts share the dataplane of the first attach and its configuration file.
#include <cerrno>
#include <chrono>
#include <mutex>
#include <thread>

#include "api/client/in_process.h"
#include "config/load.h"
#include "metaroce/metaroce.h"
#include "runtime/runtime.h"

namespace metaroce {
namespace {

class Embedded {
 public:
  static Embedded& instance() {
    static Embedded e;
    return e;
  }
  std::unique_ptr<Backend> open(const metaroce_attach_attr& attr, int& err, std::string& why) {
    const std::lock_guard lock(start_);
    if (runtime_ == nullptr && !start(attr.config_file, err, why)) return nullptr;
    if (file_ != attr.config_file) {
      err = EBUSY;
      why = "this process runs the dataplane of " + file_ + " already; attach with the same file";
      return nullptr;
    }
    for (auto& h : hosts_) {
      if (attr.host != nullptr && h.name != attr.host) continue;
      err = ENOSPC;
      return h.host->open(why);
    }
    err = ENOENT;
    why = "no host '" + std::string(attr.host) + "' in " + file_;
    return nullptr;
  }

 private:
  struct Named {
    std::string name;
    std::unique_ptr<InProcessHost> host;
  };

  bool start(const char* file, int& err, std::string& why) {
    auto loaded = config::load_file(file);
    if (!loaded) {
      err = EINVAL;
      why = loaded.error();
      return false;
    }
    // One pass runs all hosts, and applications lock one host each.
    if (loaded.value().eal.progress == config::Progress::kInline &&
        loaded.value().hosts.size() > 1) {
      err = EINVAL;
      why = std::string(file) +
            ": progress: inline serves one host per process; several want progress: lcore";
      return false;
    }
    runtime_ = Runtime::create(loaded.value(), "metaroce-embed", why);
    if (runtime_ == nullptr) {
      err = EIO;
      return false;
    }
    file_ = file;
    for (auto& h : runtime_->hosts()) {
      InProcessOptions o;
      o.clock = [this] { return runtime_->clock().now(); };
      if (runtime_->inline_progress()) o.progress = [this] { return runtime_->inline_pass(); };
      hosts_.push_back(
          {h->name(), std::make_unique<InProcessHost>(h->name(), h->control(), std::move(o))});
    }
    if (!runtime_->inline_progress()) control_ = std::thread([this] { control_loop(); });
    return true;
  }
  void control_loop() {
    if (!runtime_->housekeeping_cpus().empty()) run_on_cpus(runtime_->housekeeping_cpus());
    while (!stop_.load(std::memory_order_relaxed)) {
      {
        // One lock per host: an application's call may run between the hosts' passes.
        std::vector<std::unique_lock<std::mutex>> locks;
        for (auto& h : hosts_) locks.emplace_back(h.host->guard());
        runtime_->control_pass(runtime_->clock().now());
      }
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  }
  ~Embedded() {
    stop_.store(true);
    if (control_.joinable()) control_.join();
    if (runtime_ != nullptr) runtime_->stop();  // before the memory of the sessions goes
    hosts_.clear();
  }

  std::mutex start_;
  std::string file_;
  std::vector<Named> hosts_;
  std::unique_ptr<Runtime> runtime_;
  std::atomic<bool> stop_{false};
  std::thread control_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(const metaroce_attach_attr& attr, Nanos, int& err,
                                      std::string& why) {
  if (attr.config_file == nullptr) {
    err = EINVAL;
    why = "libmetaroce-embed runs the dataplane in this process: give config_file";
    return nullptr;
  }
  return Embedded::instance().open(attr, err, why);
}

}  // namespace metaroce
