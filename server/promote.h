/* The place of a server that is lost is taken by the standby of its shard. */
#ifndef GW_SERVER_PROMOTE_H
#define GW_SERVER_PROMOTE_H

#include "proto/control.h"

struct gw_server;

/* A later view names a server of a shard, perhaps this one, or says that a
   standby is none any more. */
void gw_promote_named(struct gw_server *server,
                      const struct gw_view_member *member);

#endif
