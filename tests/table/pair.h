/*
 * Two ends of one link of a transport, for the tests of transports: what each
 * has seen is kept.
 */
#ifndef GW_TESTS_PAIR_H
#define GW_TESTS_PAIR_H

#include "tests/table/world.h"

#define FRAMES_MAX 4096

/* What one end of a link has seen. */
struct end {
    struct gw_link *link;
    struct gw_windows windows;
    int ups, downs;
    enum gw_status down_status;
    char down_why[256];
    size_t frames;
    struct gw_frame frame[FRAMES_MAX];
    char message[256];
};

struct pair {
    struct world world;
    struct gw_acceptor acceptor;
    struct gw_listener *listener;
    struct end a, b; /* acceptor, opener */
    struct gw_hello seen;
    struct gw_reply answer;
    const char *refusal;
};

/* a listens: pair_open; b dials: pair_dial; both are up: connected. They fail
   the test on any error. */
void pair_open(struct pair *pair, const char *transport);
void pair_dial(struct pair *pair, const char *address);
struct pair *connected(const char *transport);
void pair_close(struct pair *pair);

/* Sends that count their completions. */
struct counted {
    struct gw_send send;
    int done;
    enum gw_status status;
};

struct counted *counted_new(size_t n);

/* What it sends: a text, or bytes for a window. */
void message(struct counted *counted, const char *text);
void put(struct counted *counted,
         uint32_t window,
         uint64_t offset,
         const uint8_t *bytes,
         uint32_t length);

/* Conditions for world_run; the owner is the pair. */
int both_up(void *owner);
int a_down(void *owner);
int b_down(void *owner);

/* Each end has had so many frames: the owner is this. */
struct messages {
    struct pair *pair;
    size_t a, b;
};

int have_frames(void *owner);

#endif
