/*
 * A member that listens at a tcp port of this host, a guest of it, and sockets
 * of strangers, who say to it by hand whatever a test wants said. All on one
 * loop, which runs only while somebody waits here.
 */
#ifndef GW_TESTS_TCP_SITE_H
#define GW_TESTS_TCP_SITE_H

#include <stdint.h>

#include "transport/member/member.h"

#define SITE_WAIT_US 10000000

struct site {
    struct gw_loop *loop;
    struct gw_member *host, *guest;
    struct gw_peer *guest_at_host, *stranger;
    struct gw_log log;
    uint64_t lines, messages, frames, downs, lost, strange;
    char line[256];
};

void site_open(struct site *site);
void site_close(struct site *site);

/* The guest dials the host. */
void join(struct site *site, struct gw_peer **peer_p);

/* The guest can still be heard. */
void guest_is_well(struct site *site, struct gw_peer *peer);

/* Turns the loop until *number has reached `least`, or for so long; whether it
   has. */
int turn_until(struct site *site,
               const uint64_t *number,
               uint64_t least,
               uint64_t limit_us);

/* Turns the loop for so long. */
void turn_for(struct site *site, uint64_t us);

/* A socket that is connected to the host; the loop has not seen it yet. */
int knock(const struct site *site);

/* Whether the other side closes it, before it would for silence: the loop runs
   meanwhile. */
int is_closed(struct site *site, int fd);

/* The hello of a stranger, a worker. */
void make_hello(const struct site *site,
                uint32_t generation,
                uint8_t out[GW_HELLO_BYTES]);

/* Sends it, reads the reply and returns the session; the loop runs meanwhile.
 */
uint32_t log_in(struct site *site, int fd, uint32_t generation);

#endif
