/*
 * The trace: a ring of spans (what, from when to when, two numbers), the latest
 * ones kept. One thread records into a ring; any thread may write it out, at
 * any time, as Chrome's trace format (chrome://tracing, Perfetto).
 */
#ifndef GW_PROTO_TRACE_H
#define GW_PROTO_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

struct gw_span {
    const char *name; /* lives as long as the ring: a literal */
    uint64_t begin_us, end_us;
    uint64_t a, b; /* a step and a chunk, say */
};

struct gw_trace;

/* Room for the `spans` latest ones. GW_EINVAL (0), GW_ENOMEM. */
enum gw_status gw_trace_create(size_t spans,
                               struct gw_trace **trace_p,
                               struct gw_error *error);
void gw_trace_destroy(struct gw_trace *trace);

/* One thread only. No allocation; `trace` may be NULL: nothing happens then. */
void gw_trace_add(struct gw_trace *trace, const struct gw_span *span);

/* Spans recorded since the beginning, lost ones included. */
uint64_t gw_trace_count(const struct gw_trace *trace);

/*
 * Copies the latest spans, at most `n`, oldest first; returns how many. Spans
 * that are overwritten meanwhile are left out.
 */
size_t
gw_trace_read(const struct gw_trace *trace, struct gw_span *spans, size_t n);

/* One ring in a trace file: a row called `thread` under `process`. */
struct gw_trace_track {
    const struct gw_trace *trace;
    const char *process; /* "worker 3" */
    const char *thread;  /* "step" */
    uint32_t process_id, thread_id;
};

/*
 * Writes the tracks as one JSON array through the sink, in pieces of at most
 * a few hundred bytes; no allocation. Ends with the first status of the sink
 * that is not GW_OK, and returns it.
 */
enum gw_status gw_trace_write(const struct gw_trace_track *tracks,
                              size_t n,
                              enum gw_status (*sink)(void *context,
                                                     const char *text,
                                                     size_t bytes),
                              void *context);

#endif
