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
#include "transport/member/member.h"

struct gw_server;

struct gw_members {
    uint32_t seen, total;
    int whole; /* the view is here, and is one of this job */
    struct gw_shard_name *shard_name; /* [total], by number, */
    struct gw_shard_name *standby;    /* [total], of that number */
    struct gw_colocation colocation;  /* on this host */
    int present;                      /* all that this shard waits for */
};

/* A shard, or the standby of one. */
struct gw_shard_name {
    uint64_t incarnation; /* 0: there is none */
    int has_secret;
    struct gw_secret secret; /* that its logins prove */
    int is_here;             /* it has logged in here */
    int is_late;             /* a standby that comes while the job runs */
    char address[GW_ADDRESSES_MAX];
};

void gw_members_view(struct gw_server *server, const struct gw_view *view);
int gw_members_are_whole(const struct gw_server *server);
/* A shard of that number, or its standby, that may log in here. NULL: the view
   has none of that incarnation, or no secret for it. */
struct gw_shard_name *gw_members_shard(const struct gw_server *server,
                                       uint32_t shard,
                                       uint64_t incarnation);
/* Whether the view names a server of that shard, or its standby, which has not
   logged in here. */
int gw_members_misses(const struct gw_server *server,
                      uint32_t shard,
                      int standby);
/* Whether that process is the standby of any shard. */
int gw_members_is_standby(const struct gw_server *server, uint64_t incarnation);
enum gw_status gw_members_dial_leader(struct gw_server *server,
                                      struct gw_error *error);
/* The shard whose standby this is. */
enum gw_status gw_members_dial_primary(struct gw_server *server,
                                       struct gw_peer **peer_p,
                                       struct gw_error *error);
/* That process has that part already. */
int gw_members_are_named(const struct gw_server *server,
                         const struct gw_view_member *member);
/* A later view names another server for a shard, or its standby; one with the
   incarnation 0 takes it away. */
void gw_members_rename(struct gw_server *server,
                       const struct gw_view_member *member);
/* The first returns 1 once all ranks are connected, and at shard 0 all shards;
   the second tells later if it did, until the third. */
int gw_members_check_present(struct gw_server *server);
int gw_members_are_present(const struct gw_server *server);
void gw_members_wait_again(struct gw_server *server);
void gw_members_close(struct gw_server *server);

#endif
