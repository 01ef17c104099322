/*
 * Login: the first bytes on a link. The opener sends one hello, the acceptor
 * answers with one reply or closes without a byte. Both are of fixed size and
 * hold no lengths, so nothing a stranger sends is parsed as structure. A key
 * exchange can be put in front without changing either. Pure functions.
 *
 * Bytes 0..39 (magic, wire version, size, program version) keep their place in
 * every wire version, so that two versions can name each other.
 */
#ifndef GW_PROTO_LOGIN_H
#define GW_PROTO_LOGIN_H

#include <stdint.h>

#include "proto/secret.h"
#include "proto/status.h"

#define GW_HELLO_BYTES      96
#define GW_REPLY_BYTES      256
#define GW_VERSION_TEXT_MAX 24
#define GW_REASON_TEXT_MAX  160
#define GW_RANK_NONE        UINT32_MAX
#define GW_LINKS_MAX        8 /* connections per pair of processes */

/* Flag of a proof, in a hello: it is tried once per connection. */
#define GW_HELLO_PROOF_BYTES 12

enum gw_role {
    GW_ROLE_COORDINATOR = 1,
    GW_ROLE_SERVER = 2, /* one shard of a server process */
    GW_ROLE_WORKER = 3,
    GW_ROLE_OBSERVER = 4, /* launcher, status, ctl: no part of the job */
    /* In views alone: a shard of a server process that keeps a copy of the one
       with its number, and takes its place when that is lost. It logs in as a
       server. */
    GW_ROLE_STANDBY = 5,
};

/* A part of the weights is there. */
static inline int gw_role_has_shard(uint8_t role)
{
    return role == GW_ROLE_SERVER || role == GW_ROLE_STANDBY;
}

struct gw_hello {
    uint8_t role;         /* the opener's */
    uint8_t link;         /* number among the connections of this pair */
    uint8_t links;        /* how many there will be */
    uint32_t generation;  /* the link's, from 1; a newer one ends the older */
    uint32_t rank;        /* rank of a worker, number of a shard, or none yet */
    uint32_t epoch;       /* the cluster's; 0: not a member yet */
    uint64_t job;         /* 0: not known yet (joining by address) */
    uint64_t incarnation; /* the opener's, never 0 */
    uint64_t expects;     /* incarnation of the acceptor, 0: any */
    char version[GW_VERSION_TEXT_MAX]; /* the program's */
    uint16_t wire; /* version of the protocol; encoding writes its own */
    uint8_t proof[GW_HELLO_PROOF_BYTES]; /* zeros where there is none */
};

struct gw_reply {
    enum gw_status status; /* GW_OK, or why not */
    uint32_t session;      /* goes into every frame of this link */
    uint32_t epoch;
    uint64_t job;
    uint64_t incarnation; /* the acceptor's */
    char version[GW_VERSION_TEXT_MAX];
    uint16_t wire;                   /* as in the hello */
    char reason[GW_REASON_TEXT_MAX]; /* one line where status is not GW_OK */
};

const char *gw_role_name(uint8_t role);

void gw_hello_encode(const struct gw_hello *hello, uint8_t out[GW_HELLO_BYTES]);

/*
 * GW_EPROTO: not a hello at all (close without a byte); GW_EVERSION: a hello of
 * another wire version, of which only `version` and `wire` are set (answer with
 * a reply that says so). *hello is set otherwise only on GW_OK.
 */
enum gw_status gw_hello_decode(const uint8_t in[GW_HELLO_BYTES],
                               struct gw_hello *hello);

/*
 * Makes the proof that the opener has the secret of its pair with the acceptor,
 * over all else that the hello says; or checks the proof of a hello that came:
 * GW_EREFUSED if it is wrong. GW_ENOMEM.
 */
enum gw_status gw_hello_prove(struct gw_hello *hello,
                              const struct gw_secret *pair);
enum gw_status gw_hello_is_proved(const struct gw_hello *hello,
                                  const struct gw_secret *pair);

void gw_reply_encode(const struct gw_reply *reply, uint8_t out[GW_REPLY_BYTES]);

/* As gw_hello_decode; the texts are always ended and printable. */
enum gw_status gw_reply_decode(const uint8_t in[GW_REPLY_BYTES],
                               struct gw_reply *reply);

#endif
