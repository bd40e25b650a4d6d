#include "drivers/fabric/fabric_admin.h"

#include <sys/socket.h>

#include <fmt/format.h>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "config/failure.h"
#include "config/fault_spec.h"
#include "config/reader.h"
#include "config/schema.h"
#include "config/yaml_tree.h"
#include "drivers/fabric/fabric_report.h"

namespace metaroce {
namespace {

using nlohmann::json;

// A client that does not read its answer loses it.
void answer(const UniqueFd& client, const json& j) {
  const std::string text = j.dump(-1, ' ', false, json::error_handler_t::replace);
  ::send(client.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

json refusal(const std::string& why) { return {{"ok", false}, {"error", why}}; }

}  // namespace

std::unique_ptr<FabricAdmin> FabricAdmin::open(EmulatedFabric& fabric, const std::string& path,
                                               std::string& error) {
  std::unique_ptr<FabricAdmin> a(new FabricAdmin(fabric));
  if (!a->door_.open(path, 0600, "", error)) return nullptr;
  return a;
}

void FabricAdmin::poll() {
  std::string error;
  if (waiting_ && fabric_.take_result(error)) {
    answer(waiting_, error.empty() ? json{{"ok", true}, {"applied", batch_}} : refusal(error));
    waiting_.reset();
  }
  accept_all();
  // While a batch is on its way nobody is read: requests are answered in order.
  for (std::size_t n = clients_.size(); n > 0 && !waiting_; --n) {
    UniqueFd client = std::move(clients_.front());
    clients_.pop_front();
    if (!serve(client)) clients_.push_back(std::move(client));
  }
}

void FabricAdmin::accept_all() {
  for (std::size_t n = 0; n < kMaxClients; ++n) {
    UniqueFd client(::accept4(door_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client) return;
    if (clients_.size() == kMaxClients) clients_.pop_front();
    clients_.push_back(std::move(client));
  }
}

bool FabricAdmin::serve(UniqueFd& client) {
  buffer_.resize(kMaxRequest + 1);
  const ssize_t n = ::recv(client.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (n < 0) return errno != EAGAIN && errno != EINTR;
  if (n == 0) return true;
  if (static_cast<std::size_t>(n) > kMaxRequest) {
    answer(client, refusal(fmt::format("longer than {} bytes; accepted: fewer faults at a time",
                                       kMaxRequest)));
    return true;
  }
  std::string_view text(buffer_.data(), static_cast<std::size_t>(n));
  while (text.ends_with('\n') || text.ends_with(' ')) text.remove_suffix(1);
  if (text == "show") {
    answer(client, {{"ok", true}, {"fabric", fabric_report(fabric_, true)}});
    return true;
  }
  std::vector<fabric::Fault> faults;
  const std::string why = parse(text, faults);
  const std::size_t count = faults.size();
  if (!why.empty()) {
    answer(client, refusal(why));
  } else if (!fabric_.post(std::move(faults))) {
    answer(client, refusal("an earlier change has not happened yet; try again"));
  } else {
    batch_ = count;
    waiting_ = std::move(client);
  }
  return true;
}

std::string FabricAdmin::parse(std::string_view text, std::vector<fabric::Fault>& out) const {
  using config::YamlNode;
  try {
    const YamlNode root = config::parse_yaml(text);
    const bool list = root.kind == YamlNode::Kind::kList;
    const std::size_t n = list ? root.items.size() : 1;
    if (n == 0 || n > kMaxFaults) return fmt::format("{} faults; accepted: 1 to {}", n, kMaxFaults);
    for (std::size_t i = 0; i < n; ++i) {
      config::FaultSpec spec;
      config::Locations at;
      config::read_tree(config::fault_keys(), list ? root.items[i] : root, &spec, at);
      if (!at.has("kind")) return "kind: missing; accepted: what happens, like kind: down";
      spec.at = 0;
      if (const auto why = config::add_faults(spec, fabric_.state().config(), out); !why.empty())
        return "target: " + why;
    }
  } catch (const config::Failure& f) {
    return f.path.empty() ? f.what() : fmt::format("{}: {}", f.path, f.what());
  } catch (const std::exception& e) {  // out of memory, or a case that yaml-cpp does not name
    return e.what();
  }
  return {};
}

}  // namespace metaroce
