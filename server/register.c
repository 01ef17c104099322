/* Registers the memory of answers and pushes with the transports: see
   gw_member_register_memory. */
#include "config.h"

#include "server/server_state.h"

static void each_rank(struct gw_server *server,
                      float *const *arrays,
                      void (*call)(struct gw_server *server, float *array))
{
    for (uint32_t rank = 0; arrays && rank < server->ranks; rank++)
        call(server, arrays[rank]);
}

/* Arrays that come and go with the policy. */
static void each_copy(struct gw_server *server,
                      void (*call)(struct gw_server *server, float *array))
{
    each_rank(server, server->shard->given, call);
    each_rank(server, server->shard->own, call);
}

static void register_bytes(struct gw_server *server, void *array, size_t bytes)
{
    const struct gw_memory memory = gw_memory_host(array, bytes);
    gw_member_register_memory(server->member, &memory);
}

static void register_array(struct gw_server *server, float *array)
{
    register_bytes(server, array, server->shard->elems * sizeof *array);
}

static void deregister(struct gw_server *server, float *array)
{
    gw_member_deregister_memory(server->member, array);
}

/* What a standby is sent besides weights. */
static void register_copied(struct gw_server *server)
{
    struct gw_shard *shard = server->shard;
    register_array(server, shard->reduced);
    for (unsigned s = 0; s < shard->optimizer->states; s++)
        register_array(server, shard->state[s]);
}

void gw_register_arrays(struct gw_server *server)
{
    if (server->shard->payload_free)
        return;
    register_array(server, server->shard->weights[0]);
    register_array(server, server->shard->weights[1]);
    if (server->shard->bf16)
        register_bytes(server, server->shard->bf16,
                       server->shard->elems * sizeof *server->shard->bf16);
    if (server->config.cluster.copies > 1)
        register_copied(server);
    each_copy(server, register_array);
    for (uint32_t rank = 0; server->shard->shared && rank < server->ranks;
         rank++)
        gw_member_register_memory(server->member, &server->shard->landed[rank]);
}

void gw_deregister_copies(struct gw_server *server)
{
    each_copy(server, deregister);
}
