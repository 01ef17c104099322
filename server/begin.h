/*
 * Where a job begins: which checkpoint it goes on from, and what speaks against
 * its directory. For the coordinator, and for who asks beforehand. Blocking
 * calls, which write nothing.
 */
#ifndef GW_SERVER_BEGIN_H
#define GW_SERVER_BEGIN_H

#include <stddef.h>
#include <stdint.h>

#include "proto/config.h"
#include "proto/status.h"
#include "server/manifest.h"
#include "server/regime.h"
#include "transport/loop.h"

/* The caller fills the first part; the texts and the disk outlive it. */
struct gw_begin {
    struct gw_disk *disk;
    const char *dir;    /* checkpoint.dir, "" for none */
    const char *resume; /* the directory to go on from; NULL or "": none */
    const struct gw_config *config;
    void (*note)(void *owner, const char *text); /* a line for people */
    void *owner;

    int is_resumed;          /* there is a checkpoint to go on from, */
    struct gw_manifest from; /* and it is whole */
    struct gw_regime regime; /* the policy that the job begins with */
    int anew;                /* the servers' optimizer has no state there */
};

/*
 * Finds the newest checkpoint that is whole where the job is to go on from one;
 * those that are not are noted by name, and so is which one it is. One that was
 * begun and never finished is none: the job begins anew. GW_ENOENT, GW_ECORRUPT
 * (none is whole), GW_EMISMATCH (of another optimizer), GW_EEXIST (the job does
 * not go on, and the directory holds checkpoints), each with a line. What was
 * found is freed with gw_begin_free in any case.
 *
 * Under another policy than the checkpoint's servers may run another optimizer,
 * which then begins anew. That it is another one is noted.
 */
enum gw_status gw_begin_find(struct gw_begin *begin, struct gw_error *error);
void gw_begin_free(struct gw_begin *begin);

/* GW_EEXIST: the directory holds checkpoints. */
enum gw_status gw_begin_check_empty(const struct gw_begin *begin,
                                    struct gw_error *error);

/* GW_EEXIST: another job runs with the directory. */
enum gw_status gw_begin_check_free(const struct gw_begin *begin,
                                   struct gw_error *error);

/* Where the job repeats the splits of another run (train.split_from): what
   gw_splits_read fails with. */
enum gw_status gw_begin_check_splits(const struct gw_begin *begin,
                                     const struct gw_config *config,
                                     struct gw_error *error);

/*
 * Lines about what is seen only once the job's steps are known: that it ends
 * before a phase of its plan or a round of easgd, and that the model in parts
 * meets at other steps than under the job that made the checkpoint.
 */
void gw_begin_note_steps(const struct gw_begin *begin,
                         uint64_t total_steps,
                         uint64_t steps_per_epoch);

/* GW_EMISMATCH: what was found is of a model with other keys. */
enum gw_status gw_begin_check_model(const struct gw_begin *begin,
                                    uint64_t keys_hash,
                                    struct gw_error *error);

#endif
