/*
 * Log lines: formatted on the caller's stack, given to a sink in one call. No
 * I/O, no allocation, no clock of its own: the handle brings sink and clock,
 * so that a simulation prints virtual time.
 *
 *   2026-11-20T12:34:56.123Z worker 3 info text
 *
 * The first function that detects a failure logs it; errors that are handed up
 * are not logged on the way. error: the job or a member ends. warn: it goes on,
 * but somebody should look. info: objects come and go. debug: events. trace:
 * packets. Texts are lowercase, with units, without secrets.
 *
 * Thread: any, on one handle at once; the sink is called from all of them and
 * writes a line as a whole (to a file: one write(2)).
 */
#ifndef GW_PROTO_LOG_H
#define GW_PROTO_LOG_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* With the newline; longer lines end in "...". */
#define GW_LOG_LINE_BYTES 1024

enum gw_log_level {
    GW_LOG_ERROR,
    GW_LOG_WARN,
    GW_LOG_INFO,
    GW_LOG_DEBUG,
    GW_LOG_TRACE
};

/* Filled by the caller, and kept until the last line. */
struct gw_log {
    _Atomic int level; /* the least important that is still written */
    _Atomic int rank;  /* below 0: none yet */
    const char *role;  /* "worker" */
    const char *name;  /* printed while there is no rank; may be NULL */

    /* microseconds since 1970, UTC */
    uint64_t (*now_us)(void *clock);
    void *clock;

    /* the line ends in a newline, not in a zero byte */
    void (*sink)(void *context, const char *line, size_t bytes);
    /* gets the text by itself, ended by a zero byte, instead; NULL: the sink
       does */
    void (*tell)(void *context, enum gw_log_level level, const char *text);
    void *context;
};

/*
 * One line. `log` may be NULL: nothing happens then. Control characters, which
 * a peer may have sent, become question marks.
 */
void gw_log_line(const struct gw_log *log,
                 enum gw_log_level level,
                 const char *format,
                 ...) __attribute__((format(printf, 3, 4)));

#define gw_log_error(log, ...) gw_log_line((log), GW_LOG_ERROR, __VA_ARGS__)
#define gw_log_warn(log, ...)  gw_log_line((log), GW_LOG_WARN, __VA_ARGS__)
#define gw_log_info(log, ...)  gw_log_line((log), GW_LOG_INFO, __VA_ARGS__)
#define gw_log_debug(log, ...) gw_log_line((log), GW_LOG_DEBUG, __VA_ARGS__)
#define gw_log_trace(log, ...) gw_log_line((log), GW_LOG_TRACE, __VA_ARGS__)

/*
 * A bucket for lines that somebody else can provoke. Owned by the caller, used
 * by one thread; begins as {.per_second = N}.
 */
struct gw_log_limit {
    uint32_t per_second; /* at least 1; as many at once after a quiet second */
    int started;
    uint64_t last_us;
    uint64_t credit_us; /* a line costs a second / per_second */
    uint64_t suppressed;
};

/*
 * gw_log_line as long as the bucket lasts; lines that do not fit are counted,
 * and the count is written in front of the next line that does.
 */
void gw_log_limited(const struct gw_log *log,
                    struct gw_log_limit *limit,
                    enum gw_log_level level,
                    const char *format,
                    ...) __attribute__((format(printf, 4, 5)));

/* The same for lines that go elsewhere: 0 where the bucket is empty, and
   nothing is counted. */
int gw_log_limit_take(struct gw_log_limit *limit, uint64_t now_us);

/* "error", "warn", ...: 1 and the level, or 0 if `word` is none of them. */
int gw_log_level_find(const char *word, enum gw_log_level *level_p);

#endif
