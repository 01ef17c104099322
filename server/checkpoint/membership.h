/*
 * The members of a running job, in a file of checkpoint.dir: what a coordinator
 * has to know that takes the place of one that has died. It is there while the
 * job runs, replaced whole and synced before members hear of a change.
 *
 * Blocking calls; any thread, one at a time.
 */
#ifndef GW_SERVER_MEMBERSHIP_H
#define GW_SERVER_MEMBERSHIP_H

#include <stddef.h>
#include <stdint.h>

#include "proto/control.h"
#include "proto/status.h"
#include "server/checkpoint/store.h"
#include "transport/link/loop.h"
#include "transport/link/transport.h"

#define GW_MEMBERSHIP_NAME ".gradweir-members"

struct gw_membership_member {
    uint8_t role;
    uint8_t caught;  /* standby: it has all that its primary has */
    uint32_t id;     /* rank or shard; of a standby that of its primary */
    uint32_t server; /* number of the server process, */
    uint32_t thread; /* and of its thread */
    uint32_t pid;
    uint64_t incarnation, machine;
    char host[64];
    uint8_t secret[GW_DIGEST_BYTES]; /* SHA-256 of the member's own */
};

struct gw_membership {
    uint64_t job, epoch;
    char address[GW_ADDRESS_MAX];  /* the coordinator's */
    char token[GW_TOKEN_MAX];      /* by which members know checkpoint.dir */
    uint8_t text[GW_DIGEST_BYTES]; /* SHA-256 of the job as members have it */
    uint64_t silence_us;
    uint64_t began_us; /* its first step could be made; since 1970, 0: not
                          known */
    uint64_t begin;    /* the clock with which the job began, */
    struct gw_course_cut from; /* and where it went on from */
    uint8_t sums;              /* workers of a host push one sum */
    uint32_t *threads; /* [servers] of each server, also of one that is lost */
    size_t servers;
    struct gw_membership_member *member; /* [members] */
    size_t members;
};

/* Errors of the disk; GW_ENOMEM. */
enum gw_status gw_membership_write(struct gw_disk *dir,
                                   const struct gw_membership *membership,
                                   struct gw_error *error);

/* GW_ENOENT: there is none. GW_ECORRUPT, GW_ENOMEM, the errors of the disk.
   Free it with gw_membership_free. */
enum gw_status gw_membership_read(struct gw_disk *dir,
                                  struct gw_membership *membership_p,
                                  struct gw_error *error);

/* The job has ended. */
void gw_membership_remove(struct gw_disk *dir);

void gw_membership_free(struct gw_membership *membership);

/* SHA-256 of n bytes. */
void gw_membership_digest(const void *bytes,
                          size_t n,
                          uint8_t digest[GW_DIGEST_BYTES]);

#endif
