/*
 * The beginning of a job: the checkpoint that it goes on from, and the
 * obstacles in its directory. For the coordinator, and for commands that ask
 * beforehand. Blocking calls, which write nothing.
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
    struct gw_config *then;   /* the job that made it, NULL where that cannot be
                                 read, */
    struct gw_course_cut cut; /* and the course that this took up to there */
    struct gw_manifest from;  /* and it is whole */
    struct gw_regime regime;  /* the policy that the job begins with */
    int anew;                 /* the servers' optimizer has no state there */
};

/*
 * Finds the newest checkpoint that is whole where the job is to go on from
 * one; incomplete ones are noted by name, and so is the one that is found. One
 * that was begun and never finished does not count: the job starts from the
 * beginning. GW_ENOENT, GW_ECORRUPT (none is whole), GW_EMISMATCH (of another
 * optimizer), GW_EEXIST (the job does not go on, and the directory holds
 * checkpoints), each with a line. The result is freed with gw_begin_free in
 * any case.
 *
 * Under another policy than the checkpoint's servers may run another
 * optimizer, which then begins without state. That it is another one is noted.
 */
enum gw_status gw_begin_find(struct gw_begin *begin, struct gw_error *error);

/*
 * The rest of gw_begin_find for a job that left settings to its program: its
 * config has them now. GW_EMISMATCH (the checkpoint is of another optimizer),
 * GW_EUNSUPPORTED.
 */
enum gw_status gw_begin_take_program(struct gw_begin *begin,
                                     struct gw_error *error);
void gw_begin_free(struct gw_begin *begin);

/* Step of the newest checkpoint that has all its files, by name and size, in
   the directory `path`; 0: there is none. */
int gw_begin_newest(struct gw_disk *disk, const char *path, uint64_t *clock_p);

/* GW_EEXIST: the directory holds checkpoints. */
enum gw_status gw_begin_check_empty(const struct gw_begin *begin,
                                    struct gw_error *error);

/* GW_EEXIST: another job runs with the directory. */
enum gw_status gw_begin_check_free(const struct gw_begin *begin,
                                   struct gw_error *error);

/* For a job that repeats the splits of another run (train.split_from): the
   errors of gw_splits_read. */
enum gw_status gw_begin_check_splits(const struct gw_begin *begin,
                                     const struct gw_config *config,
                                     struct gw_error *error);

/* A line to who asked. */
void gw_begin_note(const struct gw_begin *begin, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Lines that need the number of the job's steps: it ends before a phase of its
 * plan or a round of easgd; it goes on with other steps or another training
 * set than the checkpoint was made with, and how counts of steps and epochs
 * are converted; the model in parts meets at other steps.
 */
void gw_begin_note_steps(const struct gw_begin *begin,
                         uint64_t total_steps,
                         const struct gw_course *course);

/*
 * Counts of the checkpoint in the units of the job that goes on from it:
 * pushes, for its number of workers; evaluations, for its interval.
 * `keeps_course`: its steps are the checkpoint's; `goes_apart`: they are, and
 * each rank goes on at the step that it had reached, as ranks do under the
 * same per-push policy. The course is the one of the job that goes on.
 */
uint64_t gw_begin_pushes(const struct gw_begin *begin);
uint32_t gw_begin_evaluations(const struct gw_begin *begin,
                              const struct gw_course *now);
int gw_begin_keeps_course(const struct gw_begin *begin,
                          const struct gw_course *now);
int gw_begin_goes_apart(const struct gw_begin *begin,
                        const struct gw_course *now);

/* GW_EMISMATCH: the checkpoint is of a model with other keys. */
enum gw_status gw_begin_check_model(const struct gw_begin *begin,
                                    uint64_t keys_hash,
                                    struct gw_error *error);

#endif
