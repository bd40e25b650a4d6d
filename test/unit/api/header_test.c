/* metaroce.h is C11, and complete without any other header. */
#include <metaroce/metaroce.h>

_Static_assert(sizeof(struct metaroce_wr) == 48, "part of the ABI");
_Static_assert(sizeof(struct metaroce_wc) == 32, "part of the ABI");
_Static_assert(METAROCE_API_VERSION == 1, "part of the ABI");

int main(void) {
  struct metaroce_attach_attr attr = {0};
  struct metaroce_context* ctx = NULL;
  attr.socket_path = "/nonexistent/metaroced.sock";
  attr.timeout_ms = 1;
  if (metaroce_attach(&attr, &ctx) >= 0 || ctx != NULL) return 1;
  if (metaroce_error()[0] == '\0' || metaroce_version()[0] == '\0') return 2;
  if (metaroce_status_str(METAROCE_FLUSHED)[0] != 'f') return 3;
  metaroce_detach(NULL);
  return 0;
}
