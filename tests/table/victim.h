/*
 * A victim for peers that do what they like: it listens on a transport, and has
 * one window in its memory, between bytes that nobody may touch. And what an
 * honest peer would say to it, for those that begin honestly.
 */
#ifndef GW_TESTS_VICTIM_H
#define GW_TESTS_VICTIM_H

#include <stdatomic.h>

#include "tests/table/world.h"
#include "transport/link/memory.h"

#define VICTIM_ROOM   ((size_t)64 << 10) /* its memory */
#define VICTIM_WINDOW ((size_t)16 << 10) /* of that, from VICTIM_WINDOW on */
#define VICTIM_FILLED 0xee

struct victim {
    struct world world;
    struct gw_acceptor acceptor;
    const struct gw_link_handler *handler; /* of its links */
    struct gw_listener *listener;
    struct gw_memory memory;
    struct gw_log log;
    char line[256]; /* the last one logged */
    struct gw_windows windows;
    uint32_t window;
    struct gw_link *link;
    int ups, downs, frames, bad_frames, refused;
    enum gw_status status;
    char why[160];
    atomic_int down; /* the last link is: for other threads */
};

/* Its memory is of a kind that can be had without a device. */
void victim_open(struct victim *victim,
                 const char *transport,
                 enum gw_memory_kind kind);
void victim_close(struct victim *victim); /* which checks as well: */
/* Fails the test if a byte outside of the window has changed. */
void victim_is_sound(const struct victim *victim);
const char *victim_address(const struct victim *victim);
uint8_t *victim_window(const struct victim *victim);
/* Turns until the counter has this value. */
void victim_await(struct victim *victim, const int *counter, int is);

/* The hello of a worker. */
void victim_hello(uint64_t incarnation, uint8_t hello[GW_HELLO_BYTES]);
/* The header of a put, of zeros. */
void victim_header(uint32_t session,
                   uint32_t window,
                   uint64_t offset,
                   uint32_t length,
                   uint8_t header[GW_FRAME_BYTES]);

#endif
