/* Terms of this rank (proto/terms.h) on their way to the shards. Private to
   client_terms.c but for these calls, on the loop. */
#ifndef GW_WORKER_CLIENT_TERMS_H
#define GW_WORKER_CLIENT_TERMS_H

#include <stdint.h>

#include "proto/status.h"

struct gw_client;

enum gw_status gw_client_terms_open(struct gw_client *client);
void gw_client_terms_close(struct gw_client *client);

/* A link to a shard is up: sends terms that pushes to come need, before any. */
void gw_client_terms_link_up(struct gw_client *client,
                             uint32_t shard,
                             unsigned link);

/* Clocks get new numbers, from this one on. */
void gw_client_terms_renumber(struct gw_client *client, uint64_t clock);

/* Terms were set at this very clock. */
int gw_client_sets_terms(const struct gw_client *client, uint64_t clock);

#endif
