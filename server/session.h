/*
 * Workers, as a shard knows them: their frames, the path of a push, the way of
 * weights out.
 */
#ifndef GW_SERVER_SESSION_H
#define GW_SERVER_SESSION_H

#include "proto/groups.h"
#include "proto/secret.h"
#include "server/behind.h"
#include "server/policy/policy.h"
#include "server/sum.h"
#include "server/terms.h"
#include "transport/member/member.h"

struct gw_server;

/* A worker, as this shard knows it. */
struct gw_session {
    struct gw_behind behind; /* shard 0: that it has not been told */
    struct gw_group group;   /* its sums are pushed together */
    struct gw_parts parts;   /* none where it is by itself */
    struct gw_terms_rows terms;
    struct gw_peer *peer;    /* NULL while it is not connected */
    uint64_t incarnation;    /* that the view names */
    int has_secret;          /* the view has one: */
    struct gw_secret secret; /* that its logins prove */
    char host[64];
    int begins_late;  /* it is in the place of another one */
    uint32_t landing; /* window: its pushes */
    uint32_t seeds;   /* window: rank 0's first weights */
    uint32_t
        gradients;   /* window of its own, that it exports, as it said last */
    uint64_t clock;  /* each push: the next one, of all chunks here */
    uint32_t pushed; /* its chunks that are in; quorum: held, until it is
                        decided which ranks count */
};

/* session_open.c */
enum gw_status gw_session_open(struct gw_server *server,
                               struct gw_error *error);
void gw_session_close(struct gw_server *server);
enum gw_status gw_session_admit(struct gw_server *server, struct gw_peer *peer);
/* A link is up: perhaps all are. */
void gw_session_present(struct gw_server *server);
void gw_session_link_down(struct gw_server *server,
                          struct gw_peer *peer,
                          unsigned link);
/* session_frame.c */
void gw_session_frame(struct gw_server *server,
                      struct gw_peer *peer,
                      unsigned link,
                      const struct gw_frame *frame,
                      const void *payload);
/* session.c: a push; all that is due of one chunk, the owner is the server. */
void gw_session_push(struct gw_server *server,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame);
void gw_session_look(void *owner, uint32_t chunk);

/* session_answer.c: wants; answers to all that may have weights by now, where
   the turn is over later. */
void gw_session_want(struct gw_server *server,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const uint8_t *payload);
struct gw_policy_view
gw_session_view(const struct gw_server *server, uint32_t rank, uint32_t chunk);
void gw_session_answer(struct gw_server *server, uint32_t chunk);

/*
 * imports.c: a chunk's place in an arena that a worker exports, valid until the
 * loop goes on; NULL: its link was cut, and the pushes that came by the link
 * are taken back. The other does so for all held pushes of a chunk, before they
 * are summed; 0: some were taken back.
 */
const float *gw_imports_find(const struct gw_server *server,
                             struct gw_peer *peer,
                             uint32_t window,
                             uint32_t chunk);
int gw_imports_find_all(struct gw_server *server, uint32_t chunk);

#endif
