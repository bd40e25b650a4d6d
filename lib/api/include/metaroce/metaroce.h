/* MetaRoCE native API, version 1.
 *
 * One header, two libraries with the same symbols: libmetaroce.so attaches to a running
 * metaroced over its Unix socket (no DPDK, no root, no hugepages in the application);
 * libmetaroce-embed.so runs the dataplane inside the process (attach with `config_file`).
 *
 * Errors: functions return 0 or a negative errno value; metaroce_error() then gives one
 * sentence for a person. Threads: objects of one context may be used by one thread at a time;
 * different contexts are independent. Every call that waits takes a limit in milliseconds.
 * Ownership: objects belong to their context and die with it at the latest.
 */
#ifndef METAROCE_METAROCE_H
#define METAROCE_METAROCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define METAROCE_API __attribute__((visibility("default")))
#define METAROCE_API_VERSION 1

struct metaroce_context;
struct metaroce_cq;
struct metaroce_listener;
struct metaroce_stream;

/* Memory registered with the dataplane: remote peers name it by (addr, rkey). */
struct metaroce_memory {
  void* addr;    /* first byte, page aligned, zeroed */
  size_t length; /* bytes */
  uint32_t lkey; /* for the owner's work requests */
  uint32_t rkey; /* to be told to the peer */
};
enum {
  METAROCE_ACCESS_LOCAL_WRITE = 1,
  METAROCE_ACCESS_REMOTE_WRITE = 2,
  METAROCE_ACCESS_REMOTE_READ = 4,
};

struct metaroce_attach_attr {
  const char*
      socket_path;  /* daemon's socket; NULL: $METAROCE_SOCKET, else /run/metaroce/metaroced.sock */
  const char* host; /* name of one of the daemon's hosts; NULL: its first */
  const char* config_file; /* embedded library only: YAML as for metaroced */
  int timeout_ms;          /* for the whole attach; 0: 5000 */
};
METAROCE_API int metaroce_attach(const struct metaroce_attach_attr* attr,
                                 struct metaroce_context** out);
METAROCE_API void metaroce_detach(
    struct metaroce_context* ctx);             /* closes everything; NULL is allowed */
METAROCE_API const char* metaroce_error(void); /* last error of this thread, never NULL */
METAROCE_API const char* metaroce_version(void);

/* 1 while the dataplane answers; 0 after the daemon died: all outstanding work has then been, or
 * will be by the next poll, completed in error. */
METAROCE_API int metaroce_alive(struct metaroce_context* ctx);
/* Embedded with `progress: inline`: runs one pass of the dataplane; returns the packets moved.
 * Elsewhere: returns 0 at once. metaroce_poll() calls it. */
METAROCE_API int metaroce_progress(struct metaroce_context* ctx);

METAROCE_API int metaroce_memory_alloc(struct metaroce_context* ctx, size_t length, unsigned access,
                                       struct metaroce_memory* out);
METAROCE_API int metaroce_memory_free(struct metaroce_context* ctx,
                                      const struct metaroce_memory* mem);

/* Completion queue. The dataplane admits only as much work as has room for its completion:
 * a queue never overflows. */
METAROCE_API int metaroce_cq_create(struct metaroce_context* ctx, uint32_t depth,
                                    struct metaroce_cq** out);
METAROCE_API int metaroce_cq_destroy(struct metaroce_cq* cq);

/* Values of `status` and `op` are those of ibv_wc. */
enum metaroce_status {
  METAROCE_SUCCESS = 0,
  METAROCE_LOCAL_LENGTH = 1,
  METAROCE_LOCAL_OPERATION = 2,
  METAROCE_LOCAL_PROTECTION = 4,
  METAROCE_FLUSHED = 5,
  METAROCE_REMOTE_INVALID_REQUEST = 9,
  METAROCE_REMOTE_ACCESS = 10,
  METAROCE_REMOTE_OPERATION = 11,
  METAROCE_RETRY_EXCEEDED = 12,
  METAROCE_RNR_RETRY_EXCEEDED = 13,
  METAROCE_GENERAL = 21
};
METAROCE_API const char* metaroce_status_str(int status);
enum metaroce_op {
  METAROCE_WRITE = 0,
  METAROCE_WRITE_IMM = 1,
  METAROCE_SEND = 2,
  METAROCE_SEND_IMM = 3,
  METAROCE_RECV = 128,
  METAROCE_RECV_WRITE_IMM = 129
};
struct metaroce_wc {
  uint64_t wr_id;
  void* user;        /* the stream's `user` */
  uint32_t byte_len; /* receives: bytes of the message */
  uint32_t imm;      /* valid with METAROCE_WC_IMM, as the sender gave it */
  uint8_t op;
  uint8_t status;
  uint8_t flags;
  uint8_t reserved[5];
};
enum { METAROCE_WC_IMM = 1 };
/* Takes up to n completions; returns how many, or a negative errno. Never blocks. */
METAROCE_API int metaroce_poll(struct metaroce_cq* cq, int n, struct metaroce_wc* wc);
/* Event descriptor, readable after metaroce_cq_arm() when a completion is there. Arming a queue
 * that holds completions makes it readable at once. Read 8 bytes from it to clear. When the daemon
 * dies it hangs up (POLLHUP), and metaroce_cq_arm() returns -ECONNRESET: poll, then detach. */
METAROCE_API int metaroce_cq_fd(struct metaroce_cq* cq);
METAROCE_API int metaroce_cq_arm(struct metaroce_cq* cq);

#define METAROCE_MAX_PRIVATE_DATA 128
struct metaroce_stream_attr {
  struct metaroce_cq* send_cq;
  struct metaroce_cq* recv_cq; /* may equal send_cq */
  uint32_t send_depth;         /* outstanding work requests; 0: 128 */
  uint32_t recv_depth;         /* posted receives; 0: 128 */
  unsigned flags;              /* METAROCE_STREAM_ORDERED_LAST */
  const void* private_data;    /* shown to the other side */
  uint32_t private_data_len;   /* <= METAROCE_MAX_PRIVATE_DATA */
  void* user;                  /* returned in completions and events */
};
/* The last packet of each Write is placed after all earlier data of the stream: for programs that
 * poll the last byte. Costs buffering at the receiver. */
enum { METAROCE_STREAM_ORDERED_LAST = 1 };

/* `service`: 1 .. 2^32-1, one listener per host and service. */
METAROCE_API int metaroce_listen(struct metaroce_context* ctx, uint32_t service,
                                 struct metaroce_listener** out);
METAROCE_API int metaroce_listener_close(struct metaroce_listener* l);
/* Waits for one connection request and accepts it. -ETIMEDOUT after timeout_ms; 0 polls. */
METAROCE_API int metaroce_accept(struct metaroce_listener* l,
                                 const struct metaroce_stream_attr* attr, int timeout_ms,
                                 struct metaroce_stream** out);
/* `address`: IPv4 or IPv6 literal of any plane of the peer. Waits for the other side's accept. */
METAROCE_API int metaroce_connect(struct metaroce_context* ctx, const char* address,
                                  uint32_t service, const struct metaroce_stream_attr* attr,
                                  int timeout_ms, struct metaroce_stream** out);
/* What the peer gave as private data; returns its length, copies at most n bytes. */
METAROCE_API int metaroce_stream_private_data(struct metaroce_stream* s, void* out, uint32_t n);
/* Waits until posted requests are acknowledged (at most timeout_ms; 0: not at all), then closes;
 * what is left completes as flushed. The stream is gone after the call, whatever it returns;
 * poll its completions before. */
METAROCE_API int metaroce_close(struct metaroce_stream* s, int timeout_ms);

struct metaroce_wr {
  uint64_t wr_id;
  void* local; /* inside memory of this context; NULL allowed when length is 0 */
  uint32_t lkey;
  uint32_t length;      /* <= 2^31 */
  uint64_t remote_addr; /* Write */
  uint32_t rkey;        /* Write */
  uint32_t imm;
  uint8_t op;    /* metaroce_op, requests only */
  uint8_t flags; /* METAROCE_WR_SIGNALED */
  uint8_t reserved[6];
};
enum { METAROCE_WR_SIGNALED = 1 };
/* Post up to n entries in order; return how many were taken (fewer when the queue is full), or a
 * negative errno when the first is refused: -EINVAL malformed, -ENOTCONN after STREAM_CLOSED,
 * -ECONNRESET after DATAPLANE_GONE. Requests without METAROCE_WR_SIGNALED give no completion on
 * success and count as outstanding until a later signaled one of the stream completes. */
METAROCE_API int metaroce_post(struct metaroce_stream* s, const struct metaroce_wr* wr, int n);
METAROCE_API int metaroce_post_recv(struct metaroce_stream* s, const struct metaroce_wr* wr, int n);

enum metaroce_event_kind {
  METAROCE_EVENT_NONE = 0,
  METAROCE_EVENT_STREAM_CLOSED = 1 /* by peer or error */,
  METAROCE_EVENT_DATAPLANE_GONE = 2
};
struct metaroce_event {
  int kind;
  int status;
  void* user;
};
/* Next asynchronous event; kind NONE when there is none. Never blocks. */
METAROCE_API int metaroce_next_event(struct metaroce_context* ctx, struct metaroce_event* out);

/* Statistics, sums since start. Fill up to n entries, return how many exist. */
enum metaroce_path_state {
  METAROCE_PATH_NEW = 0,     /* never proven with a full-size probe */
  METAROCE_PATH_ACTIVE = 1,  /* fit to carry data; `active`: and chosen to */
  METAROCE_PATH_SUSPECT = 2, /* silent, or its plane is */
  METAROCE_PATH_FAILED = 3,  /* silent three times in a row */
  METAROCE_PATH_PROBING = 4  /* failed, and asked on new source ports */
};
enum metaroce_path_fault {
  METAROCE_PATH_FAULT_NONE = 0,
  METAROCE_PATH_FAULT_SILENT = 1, /* nothing comes back */
  METAROCE_PATH_FAULT_MTU = 2     /* small packets pass, full-size ones do not */
};
struct metaroce_path_stats {
  uint8_t path, plane, active, state; /* enum metaroce_path_state */
  uint16_t udp_source_port, fault;    /* enum metaroce_path_fault */
  uint32_t srtt_ns;
  uint64_t tx_packets, tx_bytes, rtx_packets, lost_packets, spurious_packets;
  uint64_t rx_packets, rx_bytes, rx_out_of_order, rx_late, rx_ce;
  uint64_t window_bytes;
};
struct metaroce_conn_stats {
  char peer[48]; /* address literal */
  uint32_t streams, paths;
  uint64_t acked_bytes, tx_packets, rtx_packets, lost_packets, spurious_packets;
  uint64_t rx_packets, rx_bytes, rx_out_of_order, rx_duplicates, rx_drops;
};
METAROCE_API int metaroce_get_conn_stats(struct metaroce_stream* s,
                                         struct metaroce_conn_stats* out);
METAROCE_API int metaroce_get_path_stats(struct metaroce_stream* s, struct metaroce_path_stats* out,
                                         int n);

/* Moves one path of the stream's connection to another UDP source port, live, to leave a bad
 * route: the path drains and goes on from the new port; nothing is lost. 0 draws a port. -ENOENT
 * when there is no such path. */
METAROCE_API int metaroce_move_path(struct metaroce_stream* s, uint8_t path,
                                    uint16_t udp_source_port);

#ifdef __cplusplus
}
#endif
#endif
