/*
 * The members of the job: named by the coordinator, and connected. The struct
 * is private to members.c.
 */
#ifndef GW_SERVER_MEMBERS_H
#define GW_SERVER_MEMBERS_H

#include "proto/control.h"
#include "proto/colocated.h"
#include "proto/secret.h"
#include "transport/link/transport.h"

struct gw_server;

struct gw_members {
    uint32_t seen, total;
    int whole; /* the view is here, and is one of this job */
    char leader_address[GW_ADDRESSES_MAX];
    uint64_t leader_incarnation;
    struct gw_shard_name {
        uint64_t incarnation;
        int has_secret;
        struct gw_secret secret;     /* that its logins prove */
    } * shard_name;                  /* [total], by number */
    struct gw_colocation colocation; /* on this host */
    uint32_t shards_present; /* shard 0: the others that are connected */
    int present;             /* all that this shard waits for */
};

void gw_members_view(struct gw_server *server, const struct gw_view *view);
int gw_members_are_whole(const struct gw_server *server);
/* 0: the view has no shard of that number and incarnation, or no secret for
   it. */
int gw_members_shard(const struct gw_server *server,
                     uint32_t shard,
                     uint64_t incarnation,
                     const struct gw_secret **secret_p);
enum gw_status gw_members_dial_leader(struct gw_server *server,
                                      struct gw_error *error);
/* Another shard is connected. The second returns 1 once all ranks are, and at
   shard 0 all shards; the third tells later if it did. */
void gw_members_shard_comes(struct gw_server *server);
int gw_members_check_present(struct gw_server *server);
int gw_members_are_present(const struct gw_server *server);
void gw_members_close(struct gw_server *server);

#endif
