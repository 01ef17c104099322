/*
 * The counters of a process, in one table: the live line, JSON, status and
 * exporters are printed from it. Counters only grow; rates come from the
 * difference of two snapshots. One of them is no sum but a maximum, and one is
 * a gauge of the coordinator.
 *
 * Thread: any thread may add and read, without locks; a snapshot is not one
 * moment, each counter in it is. Threads that count much have a struct of their
 * own, and snapshots are added up.
 */
#ifndef GW_PROTO_METRICS_H
#define GW_PROTO_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* clang-format off */
#define GW_METRIC_TABLE(X)                                                     \
    X(STEPS,             steps,             "steps",                           \
      "steps that this member has finished")                                   \
    X(STEPS_SKIPPED,     steps_skipped,     "steps",                           \
      "steps whose update was left out, by decision")                          \
    X(SAMPLES,           samples,           "samples",                         \
      "samples that went into gradients")                                      \
    X(BYTES_PUSHED,      bytes_pushed,      "bytes",                           \
      "payload of gradients, sent by workers or received by servers")          \
    X(BYTES_PULLED,      bytes_pulled,      "bytes",                           \
      "payload of weights, received by workers or sent by servers")            \
    X(FRAMES_IN,         frames_in,         "frames",                          \
      "frames received, of every kind")                                        \
    X(FRAMES_OUT,        frames_out,        "frames",                          \
      "frames sent, of every kind")                                            \
    X(CONTROL_MESSAGES,  control_messages,  "messages",                        \
      "typed messages received")                                               \
    X(HEARTBEATS,        heartbeats,        "frames",                          \
      "heartbeats received")                                                   \
    X(PUSHES_APPLIED,    pushes_applied,    "pushes",                          \
      "chunks of gradients that were counted into a version")                  \
    X(PUSHES_DUPLICATE,  pushes_duplicate,  "pushes",                          \
      "chunks that had been counted before and were dropped")                  \
    X(WANTS_ANSWERED,    wants_answered,    "chunks",                          \
      "chunks of weights given out")                                           \
    X(RECONNECTS,        reconnects,        "connections",                     \
      "connections that broke and were opened again")                          \
    X(CRC_ERRORS,        crc_errors,        "frames",                          \
      "frames whose checksum did not match")                                   \
    X(PROTOCOL_ERRORS,   protocol_errors,   "frames",                          \
      "frames that no member of this job sends")                               \
    X(LOGINS_REFUSED,    logins_refused,    "connections",                     \
      "connections turned away before they were members")                      \
    X(CHECKPOINTS,       checkpoints,       "checkpoints",                     \
      "checkpoints written to the end")                                        \
    X(CHECKPOINT_BYTES,  checkpoint_bytes,  "bytes",                           \
      "bytes of checkpoint files written")                                     \
    X(WAIT_US,           wait_us,           "microseconds",                    \
      "time in which a step waited for weights")                               \
    X(COMPUTE_US,        compute_us,        "microseconds",                    \
      "time in which a step did not wait: forward, backward, pushing")         \
    X(PUSHES_LATE,       pushes_late,       "pushes",                          \
      "chunks that came too late to count and were dropped (backup)")          \
    X(PUSHES_SHOWN,      pushes_shown,      "pushes",                          \
      "chunks of gradients that were shown by their worker, not sent")         \
    X(LONGEST_TURN_US,   longest_turn_us,   "microseconds",                    \
      "the longest that its loop did not look at timers; of several the most") \
    X(SHARDS_DEGRADED,   shards_degraded,   "shards",                          \
      "shards with one copy in a job that has two of each, as it is now")
/* clang-format on */

enum gw_metric {
#define GW_METRIC_ENUM(id, name, unit, help) GW_METRIC_##id,
    GW_METRIC_TABLE(GW_METRIC_ENUM)
#undef GW_METRIC_ENUM
    GW_METRICS
};

struct gw_metric_info {
    const char *name; /* "bytes_pushed" */
    const char *unit;
    const char *help;
};

/* Zeroed to begin with. Aligned, so that two threads' counters stay apart. */
struct gw_metrics {
    _Alignas(64) _Atomic uint64_t value[GW_METRICS];
};

struct gw_metrics_snapshot {
    uint64_t value[GW_METRICS];
};

const struct gw_metric_info *gw_metric_info(enum gw_metric metric);

void gw_metrics_add(struct gw_metrics *metrics,
                    enum gw_metric metric,
                    uint64_t n);
/* For a counter that is a maximum: it is n at least. */
void gw_metrics_raise(struct gw_metrics *metrics,
                      enum gw_metric metric,
                      uint64_t n);
/* For a gauge: it is n. */
void gw_metrics_set(struct gw_metrics *metrics,
                    enum gw_metric metric,
                    uint64_t n);
uint64_t gw_metrics_get(const struct gw_metrics *metrics,
                        enum gw_metric metric);

/* Joins all counters to *snapshot: the counters of a thread or of another
   snapshot, so that many sum up, and of maxima the greatest stays. */
void gw_metrics_collect(const struct gw_metrics *metrics,
                        struct gw_metrics_snapshot *snapshot);
void gw_metrics_join(const struct gw_metrics_snapshot *other,
                     struct gw_metrics_snapshot *snapshot);

/*
 * "steps 12, samples 768": the counters that are not zero. Returns the bytes
 * needed without the end; writes at most text_bytes, always ended.
 */
size_t gw_metrics_print(const struct gw_metrics_snapshot *snapshot,
                        char *text,
                        size_t text_bytes);

#endif
