/*
 * The protocol of two doctors over a link of any transport. All of it:
 *
 *   measuring side (--peer)           serving side (--serve)
 *     WINDOW id              <---->     WINDOW id
 *     PING                    ---->     PONG its clock, us since 1970
 *     push, a put of 1 MiB    ---->     GOT
 *     GIVE offset             ---->     weights, a put of 1 MiB
 *     WHERE                   ---->     a text: a line for each transport,
 *                                       "NAME ADDRESS" or "NAME - WHY NOT"
 *     KNOCK port              ---->     a text: "reached", or why that port of
 *                                       the asking host was not, over tcp
 *
 * Words are ack frames, 64 bytes without a payload. The login is an observer's,
 * for a job id that no job has. A side that sends anything else, or more at
 * once than fits, loses its link.
 */
#ifndef GW_CLI_DOCTOR_WIRE_H
#define GW_CLI_DOCTOR_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "transport/link/transport.h"

#define GW_DOCTOR_JOB             UINT64_C(0x726f74636f64)
#define GW_DOCTOR_PUT_BYTES       ((uint32_t)1 << 20)
#define GW_DOCTOR_SLOTS           4 /* puts in flight, and their buffers */
#define GW_DOCTOR_SENDS           64
#define GW_DOCTOR_WHERE_MAX       2048
#define GW_DOCTOR_DIALED_BACK_MAX 256

enum gw_doctor_word {
    GW_DOCTOR_WINDOW = 1, /* value: its id */
    GW_DOCTOR_PING,
    GW_DOCTOR_PONG,
    GW_DOCTOR_GOT,
    GW_DOCTOR_GIVE, /* value: offset in the window */
    GW_DOCTOR_WHERE,
    GW_DOCTOR_KNOCK, /* value: the port */
};

#define GW_DOCTOR_REACHED "reached"

/* One end of a link. Zeroed, then opened. */
struct gw_doctor_end {
    struct gw_link *link; /* NULL: none */
    struct gw_windows windows;
    uint32_t mine, peers;  /* window ids; GW_WINDOW_NONE: not known yet */
    uint8_t *memory;       /* of window `mine` */
    const uint8_t *source; /* source of puts, the caller's */
    char where[GW_DOCTOR_WHERE_MAX];
    char dialed_back[GW_DOCTOR_DIALED_BACK_MAX];
    struct gw_send send[GW_DOCTOR_SENDS];
    int busy[GW_DOCTOR_SENDS];
    void *owner;
};

/* Allocates the window's memory unless it has some, and opens the window for
   one kind of frame. GW_ENOMEM. */
enum gw_status gw_doctor_end_open(struct gw_doctor_end *end, uint8_t kind);

/* Resets an end whose link is gone; it can be opened again. */
void gw_doctor_end_close(struct gw_doctor_end *end);
void gw_doctor_end_free(struct gw_doctor_end *end);

/* Each returns 0 if too many frames are in flight. */
int gw_doctor_tell(struct gw_doctor_end *end,
                   enum gw_doctor_word word,
                   uint64_t value);
int gw_doctor_put(struct gw_doctor_end *end, uint8_t kind, uint64_t offset);
/* A text, which must not change until it is sent. */
int gw_doctor_tell_text(struct gw_doctor_end *end, const char *text);

/* This host's clock, us since 1970. */
uint64_t gw_doctor_clock(void);

/* The login of the measuring side. */
void gw_doctor_hello(struct gw_loop *loop, struct gw_hello *hello);

/* Allocates a source of puts; free it with free. NULL: no memory. */
uint8_t *gw_doctor_source(void);

#endif
