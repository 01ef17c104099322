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
#include "server/checkpoint/manifest.h"
#include "server/policy/regime.h"
#include "transport/link/loop.h"

/* The caller fills the first part; the texts and the disk outlive it. */
struct gw_begin {
    struct gw_disk *disk;
    const char *dir;    /* checkpoint.dir, "" for none */
    const char *resume; /* the directory to go on from; NULL or "": none */
    const struct gw_config *config;
    void (*note)(void *owner, const char *text); /* a line for people */
    void *owner;

    int is_resumed;           /* there is a checkpoint to go on from, */
    struct gw_config *then;   /* of the job that made it, NULL where that cannot
                                 be read, */
    struct gw_course_cut cut; /* and the course that this took up to there */
    struct gw_manifest from;  /* and it is whole */
    struct gw_regime regime;  /* the policy that the job begins with */
    int anew;                 /* the servers' optimizer has no state there */
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

/* A line to who asked. */
void gw_begin_note(const struct gw_begin *begin, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Lines about what is seen only once the job's steps are known: that it ends
 * before a phase of its plan or a round of easgd; where a job goes on whose
 * steps or training set are others than those that made the checkpoint, and
 * what becomes of all that is counted in steps and epochs; and that the model
 * in parts meets at other steps.
 */
void gw_begin_note_steps(const struct gw_begin *begin,
                         uint64_t total_steps,
                         const struct gw_course *course);

/*
 * What the checkpoint counts, in the units of the job that goes on from it:
 * pushes, of as many workers as that has; evaluations, as if they had been as
 * often as that makes them. Whether its steps are those that the checkpoint was
 * made by; and, where they are, whether ranks go on each at the step to which
 * it had come, as they do under the same policy of single pushes. The course is
 * the one of the job that goes on.
 */
uint64_t gw_begin_pushes(const struct gw_begin *begin);
uint32_t gw_begin_evaluations(const struct gw_begin *begin,
                              const struct gw_course *now);
int gw_begin_keeps_course(const struct gw_begin *begin,
                          const struct gw_course *now);
int gw_begin_goes_apart(const struct gw_begin *begin,
                        const struct gw_course *now);

/* GW_EMISMATCH: what was found is of a model with other keys. */
enum gw_status gw_begin_check_model(const struct gw_begin *begin,
                                    uint64_t keys_hash,
                                    struct gw_error *error);

#endif
