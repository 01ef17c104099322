/* Tells the transports where answers come from: see gw_member_lend. */
#include "config.h"

#include "server/server_state.h"

static void each_rank(struct gw_server *server,
                      float *const *arrays,
                      void (*call)(struct gw_server *server, float *array))
{
    for (uint32_t rank = 0; arrays && rank < server->ranks; rank++)
        call(server, arrays[rank]);
}

static void each_array(struct gw_server *server,
                       void (*call)(struct gw_server *server, float *array))
{
    const struct gw_shard *shard = server->shard;
    if (shard->hollow)
        return;
    call(server, shard->weights[0]);
    call(server, shard->weights[1]);
    each_rank(server, shard->given, call);
    each_rank(server, shard->own, call);
}

static void lend(struct gw_server *server, float *array)
{
    gw_member_lend(server->member, array, server->shard->elems * sizeof *array);
}

static void take_back(struct gw_server *server, float *array)
{
    gw_member_take_back(server->member, array);
}

void gw_lend_arrays(struct gw_server *server)
{
    each_array(server, lend);
}

void gw_take_arrays_back(struct gw_server *server)
{
    each_array(server, take_back);
}
