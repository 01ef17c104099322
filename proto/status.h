/*
 * Status codes and error texts: the words in which every room says that
 * something failed. Errors are values; nothing here logs or exits.
 */
#ifndef GW_PROTO_STATUS_H
#define GW_PROTO_STATUS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Codes are grouped by the largest thing that broke, which the caller has to
 * rebuild: the request, the connection, or the process.
 */
/* clang-format off */
#define GW_STATUS_TABLE(X)                                                     \
    X(GW_OK,             0, "ok")                                              \
    /* the request: the same call with other arguments, or later, may work */  \
    X(GW_EAGAIN,        -1, "not now, try again")                              \
    X(GW_EINVAL,        -2, "invalid argument")                                \
    X(GW_ERANGE,        -3, "value out of range")                              \
    X(GW_ENOMEM,        -4, "out of memory")                                   \
    X(GW_ENOENT,        -5, "not found")                                       \
    X(GW_EEXIST,        -6, "already exists")                                  \
    X(GW_EUNSUPPORTED,  -7, "not supported here")                              \
    X(GW_ECORRUPT,      -8, "damaged data")                                    \
    X(GW_EIO,           -9, "input or output failed")                          \
    X(GW_ENOSPC,       -10, "no space left")                                   \
    X(GW_EMISMATCH,    -11, "does not match")                                  \
    X(GW_EUSAGE,       -12, "wrong usage or job file")                         \
    X(GW_EEND,         -13, "no further step")                                 \
    /* the connection: it is closed; its opener may dial again */              \
    X(GW_ECLOSED,      -32, "connection closed")                               \
    X(GW_EREFUSED,     -33, "refused by the peer")                             \
    X(GW_EPROTO,       -34, "protocol violated")                               \
    X(GW_EVERSION,     -35, "other protocol version")                          \
    X(GW_ECRC,         -36, "checksum does not match")                         \
    X(GW_ETIMEOUT,     -37, "timed out")                                       \
    X(GW_EADDRINUSE,   -38, "address in use")                                  \
    X(GW_EUNREACHABLE, -39, "peer cannot be reached")                          \
    /* the process: the job ends here */                                       \
    X(GW_EDEAD,        -64, "a member of the job died")                        \
    X(GW_EINTERRUPTED, -65, "interrupted, resumable")                          \
    X(GW_ENONFINITE,   -66, "non-finite values")                               \
    X(GW_EABORTED,     -67, "job aborted")                                     \
    X(GW_ERESUMABLE,   -68, "a member of the job died, resumable")
/* clang-format on */

enum gw_status {
#define GW_STATUS_ENUM(name, value, text) name = (value),
    GW_STATUS_TABLE(GW_STATUS_ENUM)
#undef GW_STATUS_ENUM
};

/* Non-zero: the job ended since a member died, or was taken for dead. */
static inline int gw_status_is_death(enum gw_status status)
{
    return status == GW_EDEAD || status == GW_ERESUMABLE;
}

/* The fixed text of a status, never NULL; unknown values give "unknown". */
const char *gw_status_text(enum gw_status status);

#define GW_ERROR_TEXT_BYTES  512
#define GW_ERROR_WHOLE_BYTES 9216 /* before the cut: two paths, say */

/*
 * A failure, in one line for the user of the job: the fault, its place
 * (file:line, key, peer), the remedy. Owned by the code that declared it.
 */
struct gw_error {
    enum gw_status status;
    char text[GW_ERROR_TEXT_BYTES];
};

/* Control characters, which a peer or a file may have put there, become
   question marks, so that a message stays one line. */
void gw_text_clean(char *text);

/*
 * vsnprintf for lines to people: a text too long for `room`, 64 bytes or more,
 * is cut in the middle, so that a message about a long path keeps its subject
 * and its fault.
 */
void gw_text_print(char *text, size_t room, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* A peer's text, or the words that it gave none, so that no line ends in a
   colon. */
const char *gw_reason(const char *text);

/* The plural ending for n things: "s", "" for one. */
const char *gw_plural(uint64_t n);

/*
 * Fills *error (may be NULL, then only the status counts) with a printf-style
 * line, clean and cut as gw_text_print does it, and returns `status`, so that a
 * function can end with `return gw_fail(error, GW_EINVAL, "...")`. Thread: any.
 */
enum gw_status
gw_fail(struct gw_error *error, enum gw_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Puts "prefix: " in front of an error, for a caller that knows better where it
 * happened. Returns error's status.
 */
enum gw_status gw_fail_in(struct gw_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
