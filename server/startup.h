/*
 * From the keys to READY. The struct is private to startup.c.
 */
#ifndef GW_SERVER_STARTUP_H
#define GW_SERVER_STARTUP_H

#include "proto/config.h"
#include "proto/control.h"
#include "proto/map.h"
#include "transport/link/prefault.h"
#include "transport/member/member.h"

struct gw_server;

struct gw_startup {
    struct gw_key *keys;
    uint32_t keys_seen, keys_total;
    char resume[GW_PATH_BYTES], dir[GW_PATH_BYTES], token[GW_STRING_MAX];
    struct gw_prefault pages; /* the shard's arrays, before it is ready */
    struct gw_memory *memory; /* all of them, until then */
};

/* Keys, a call of struct gw_message_handler; then the start. */
void gw_startup_keys(void *owner,
                     struct gw_peer *peer,
                     const struct gw_message *message);
void gw_startup_stop(struct gw_server *server);
void gw_startup_close(struct gw_server *server);
void gw_startup_begin(struct gw_server *server, const struct gw_start *start);

#endif
