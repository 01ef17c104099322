/* Workers in the place of others. */
#ifndef GW_SERVER_REPLACE_H
#define GW_SERVER_REPLACE_H

#include "proto/control.h"

struct gw_server;

/* The view is not the first one: ends the server where it is not of a later
   epoch, or names others than workers. Tells the coordinator where this shard
   stands. */
void gw_replace_view(struct gw_server *server, const struct gw_view *view);

#endif
