// Version, errors and names.
#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "api/client/backend.h"
#include "api/client/errors.h"
#include "metaroce/metaroce.h"

namespace metaroce {
namespace {

thread_local std::array<char, 512> last_error{};

}  // namespace

int fail(int err, std::string_view text) {
  const std::size_t n = std::min(text.size(), last_error.size() - 1);
  std::memcpy(last_error.data(), text.data(), n);
  last_error[n] = '\0';
  return -err;
}

Nanos monotonic_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}

}  // namespace metaroce

const char* metaroce_error(void) { return metaroce::last_error.data(); }

const char* metaroce_version(void) { return METAROCE_VERSION; }

const char* metaroce_status_str(int status) {
  switch (status) {
    case METAROCE_SUCCESS:
      return "success";
    case METAROCE_LOCAL_LENGTH:
      return "message longer than the receive buffer";
    case METAROCE_LOCAL_OPERATION:
      return "work request malformed";
    case METAROCE_LOCAL_PROTECTION:
      return "lkey does not cover the local buffer";
    case METAROCE_FLUSHED:
      return "flushed";
    case METAROCE_REMOTE_INVALID_REQUEST:
      return "peer: invalid request";
    case METAROCE_REMOTE_ACCESS:
      return "peer: rkey does not allow this access";
    case METAROCE_REMOTE_OPERATION:
      return "peer: operation failed";
    case METAROCE_RETRY_EXCEEDED:
      return "peer does not answer";
    case METAROCE_RNR_RETRY_EXCEEDED:
      return "peer posted no receive";
    case METAROCE_GENERAL:
      return "failed";
    default:
      return "unknown status";
  }
}
