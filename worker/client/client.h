/*
 * The client: how a process that computes takes part in a job. Join, declare
 * keys, then at every clock wait for weights, push gradients, and again.
 *
 *   open > declare > [seed] > { wait .. push .. } > close
 *
 * Threads: one caller. Calls that wait drive the client's loop themselves;
 * while the caller computes, a communication thread does (in simulation, the
 * simulator). Buffers belong to the caller and stay where they are until close;
 * some must also stay as they are, as said below.
 *
 * Every call returns GW_OK, GW_EEND (the job has no further step; the reason is
 * in gw_client_end), or a failure after which only close makes sense; its line
 * is in gw_client_error.
 */
#ifndef GW_WORKER_CLIENT_H
#define GW_WORKER_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "proto/config.h"
#include "proto/control.h"
#include "proto/log.h"
#include "proto/map.h"
#include "proto/colocated.h"
#include "proto/metrics.h"
#include "proto/split.h"
#include "proto/status.h"
#include "proto/terms.h"
#include "proto/wire.h"
#include "transport/link/loop.h"
#include "transport/link/transport.h"
#include "worker/client/client_options.h"

struct gw_client;

/*
 * Joins the coordinator and waits for the job. Everything the options point to
 * outlives the client. On failure nothing is left behind.
 */
enum gw_status gw_client_open(const struct gw_client_options *options,
                              struct gw_client **client_p,
                              struct gw_error *error);

/* Tells the coordinator good-bye, if it is still there. */
void gw_client_close(struct gw_client *client);

/* The job file's text, our rank, and how many workers there are. */
const char *gw_client_job(const struct gw_client *client);
uint32_t gw_client_rank(const struct gw_client *client);
/* `tuned` of the declaration when the checkpoint was made from which the job
   goes on; "": nothing was tuned, or the job begins. */
const char *gw_client_tuned(const struct gw_client *client);

/* The clock at which the job goes on; all zero: it begins. */
const struct gw_course_cut *gw_client_from(const struct gw_client *client);

/* Waits until all members have joined, which they do before any of them
   declares anything: the members of this host. *colocated_p lasts until the
   client is closed. */
enum gw_status gw_client_meet(struct gw_client *client,
                              struct gw_colocated *colocated_p);

/* The declaration of every worker before the job starts; must be equal. */
struct gw_client_declaration {
    const struct gw_key *keys; /* in the order of the arenas */
    size_t n_keys;
    uint8_t data_digest[GW_DIGEST_BYTES];
    struct gw_course course; /* from the first clock on, */
    uint64_t total_steps;    /* up to this one */
    uint64_t test_samples;   /* size of the test set; 0: there is none */
    const char *device;      /* the device that computes, in words, */
    const char *tuned;       /* and the methods of its products; "": defaults */
    const char *note;        /* how data was read, for people; "": as it is */
    struct gw_program program;
    uint32_t workers;     /* cluster.workers */
    unsigned connections; /* per shard */
};

/*
 * Declares the keys and waits until all members agree and the servers are
 * ready. After that the layout and the first clock are known.
 */
enum gw_status
gw_client_declare(struct gw_client *client,
                  const struct gw_client_declaration *declaration);

/* Memory that a client takes for its tables of keys and chunks, with so many
   connections to each shard. Any thread. */
uint64_t gw_client_table_bytes(const struct gw_map *map, uint64_t connections);

/* The place of key i in an arena: bytes from its beginning. */
uint64_t gw_client_key_offset(const struct gw_client *client, size_t key);
uint64_t gw_client_arena_bytes(const struct gw_client *client);

/* The settings that the job leaves to its program, once declared. */
void gw_client_copy_program(const struct gw_client *client,
                            struct gw_config *config);

/*
 * Terms that hold for this rank's pushes from `clock` on, of all groups that
 * have any: sent before the pushes of that clock, which are yet to come. Not
 * under policies by which ranks take the steps. GW_ENOMEM, and the client's
 * failure.
 */
enum gw_status gw_client_set_terms(struct gw_client *client,
                                   uint64_t clock,
                                   const struct gw_group_terms *terms,
                                   uint32_t n);

/* The clock to begin with; non-zero where rank 0 has to seed the weights. */
uint64_t gw_client_first_clock(const struct gw_client *client);
int gw_client_needs_seed(const struct gw_client *client);
/* It begins in the place of another worker, at that clock. */
int gw_client_begins_again(const struct gw_client *client, uint64_t clock);

/* Evaluations that were made before the first clock, of its own or earlier. */
uint64_t gw_client_evaluations(const struct gw_client *client);

/* The kind of memory that suits the weights, and the gradients: one that
   servers and workers of this host can map, if they write or read there. */
enum gw_memory_kind gw_client_memory_kind(const struct gw_client *client);
enum gw_memory_kind gw_client_gradients_kind(const struct gw_client *client);

/* Non-zero if other workers of this host sum with this one; known when
   declared. */
int gw_client_has_host_group(const struct gw_client *client);

/* Elements [first, first + elems) of n ranks, summed in the servers' tree.
   part[i]: NULL leaves its place out; that of rank `self` is the device's own.
   The sum is on the device, over its own; unless it stays, on the host too. */
struct gw_device_sum {
    const float *const *part;
    uint32_t n, self;
    size_t first, elems;
    int stays;
};

/*
 * Gradients and weights that a device has, in arenas alike the client's: how
 * gradients of this host's workers are summed where they lie, and weights that
 * one has are copied by the others, if each device finds all of them; and how
 * gradients leave it. Calls come from the loop's thread, but for `sum`, `put`
 * and `flush`, which come from others, while nothing is imported or released.
 */
struct gw_device_arenas {
    void *owner;
    const float *gradients;
    const void *weights;
    struct gw_memory pages; /* with gradients, for devices of the network; 0
                               bytes: these may not read them */
    int exported;           /* to other workers, by these words: */
    struct gw_sight_words own_gradients, own_weights, own_trial;
    uint64_t nonce; /* names the numbers that are left to be tried: */
    /* GW_OK if the numbers that another worker has left, by its words and
       nonce, are read as they were written, and not slower than by way of the
       host; else the reason. On the loop; heartbeats go on meanwhile */
    enum gw_status (*try)(void *owner,
                          const struct gw_sight_words *words,
                          uint64_t nonce,
                          struct gw_loop *loop,
                          struct gw_error *error);
    /* all have tried it */
    void (*tried)(void *owner);
    /* another worker's, by its words, until `release_arena`; NULL with a line
     */
    const void *(*import_arena)(void *owner,
                                const uint8_t words[GW_SIGHT_WORDS_MAX],
                                struct gw_error *error);
    /* how the device reaches it, in words; "": it is not known */
    const char *(*path)(void *owner, const void *arena);
    void (*release_arena)(void *owner, const void *arena);
    /* nonfinite[i]: part i is not finite. GW_EIO with a line. */
    enum gw_status (*sum)(void *owner,
                          const struct gw_device_sum *what,
                          uint8_t *nonfinite,
                          struct gw_error *error);
    /* Weights that have arrived in the client's arena of that encoding go to
       the device, where nothing that is queued reads or writes them; they are
       there when `flush` returns. GW_EIO with a line. */
    void (*put)(void *owner,
                enum gw_encoding encoding,
                size_t first,
                size_t elems);
    enum gw_status (*flush)(void *owner, struct gw_error *error);
    /* To the same place in the client's gradients, from where nothing is
       queued any more that makes them; waits, for sums and weights on their
       way as well. GW_EIO with a line. */
    enum gw_status (*bring)(void *owner,
                            size_t first,
                            size_t elems,
                            struct gw_error *error);
};

/* After declare: non-zero if a transport for tensors takes gradients from these
   pages of a device. 0: *why has the reason. */
int gw_client_takes_device(struct gw_client *client,
                           const struct gw_memory *pages,
                           char *why,
                           size_t why_bytes);

/*
 * Arenas of gw_client_arena_bytes each, 64-byte aligned; each as the memory
 * which it begins. Where gw_client_bf16_bytes is not 0, weights arrive as bf16
 * in an arena of so many bytes, at half their place in the other one. There
 * they are `weights` as soon as they are waited for; unless they are to stay,
 * for a device that makes fp32 of them by itself.
 */
struct gw_client_arenas {
    struct gw_memory weights, gradients;
    struct gw_memory bf16;
    int bf16_stays;
};
uint64_t gw_client_bf16_bytes(const struct gw_client *client);

/*
 * Hands over the arenas, which stay where they are until the client is closed;
 * connects to every shard and asks for all weights of the first clock. Weights
 * are written by the client between a want and its answer; gradients are read,
 * also by others of this host, and may become those of several ranks, between a
 * push and the arrival of the next version of the same key. With `seed`, rank 0
 * sends its weights as the first version. `device` is the caller's until the
 * client is closed; NULL: gradients are made in the arena.
 */
enum gw_status gw_client_attach(struct gw_client *client,
                                const struct gw_client_arenas *arenas,
                                const struct gw_device_arenas *device,
                                int seed);

/* The encoding of the weights that were waited for last: bf16 where they stay
   so, but pulled weights, for a score or the end, are raw. Caller's thread. */
enum gw_encoding gw_client_weights_as(const struct gw_client *client);

/*
 * The place of a key's weights, run by run, from *part zeroed on, until it
 * returns 0: the client's arena; or the arena on a device, ours or one that
 * ours sees, to which a worker of this host has brought them for all. The
 * caller's thread.
 */
struct gw_client_place {
    size_t at, bytes;   /* as fp32, of the key's */
    const void *device; /* gw_device_arenas.weights of some worker; NULL: the
                           client's arena */
    uint32_t next;      /* the client's */
};
int gw_client_next_place(const struct gw_client *client,
                         size_t key,
                         struct gw_client_place *part);

/*
 * Gradients of a key are made on a device and pushed next. *part becomes the
 * first run of them, from byte part->at on, that is read in the arena; the rest
 * is read on the device. 0: there is none. The caller's thread, from at = 0 to
 * the end, before each push of the key.
 */
struct gw_client_part {
    size_t at, bytes;
};
int gw_client_next_on_host(struct gw_client *client,
                           size_t key,
                           struct gw_client_part *part);

/*
 * Waits until the weights of keys [first, first + n) have at least `version`.
 * Costs nothing when they are there. GW_EEND when the job ends at or before
 * clock `version` (see gw_client_wait_end). GW_EAGAIN, where each push makes
 * a version: all ranks stand still, this one at clock `version`, of which
 * nothing has been pushed, to score the test set (gw_client_is_scored: pull,
 * score, go on) or to take up another policy (gw_client_switch).
 */
enum gw_status gw_client_wait(struct gw_client *client,
                              size_t first,
                              size_t n,
                              uint64_t version);

/* The same of one chunk that shard 0 has: then all decisions about clock
   `version` are known, which shard 0 makes before it gives out that version. */
enum gw_status gw_client_wait_leader(struct gw_client *client,
                                     uint64_t version);

/*
 * Under backup:B, for a worker that may be late: waits until all weights have
 * one version, *clock_p or newer, and sets *clock_p to it; or, if the others
 * have gone on to per-push policies, until all stand still, and sets it to this
 * worker's clock there. Gradients of older clocks are not pushed any more.
 * Under other policies it does nothing. GW_EEND as above.
 */
enum gw_status gw_client_catch_up(struct gw_client *client, uint64_t *clock_p);

/*
 * Keys of clock version - 1 have been pushed, or skipped: waits for the weights
 * that are made of these pushes, also where the job ends with them. GW_EEND: it
 * ends before. GW_EAGAIN: ranks stand still, or clocks get new numbers, before
 * these weights come. has_made: it would return at once; thread: any.
 */
enum gw_status gw_client_wait_made(struct gw_client *client,
                                   size_t first,
                                   size_t n,
                                   uint64_t version);
int gw_client_has_made(const struct gw_client *client,
                       size_t first,
                       size_t n,
                       uint64_t version);

/* Non-zero if gw_client_wait would return GW_OK at once. Thread: any. */
int gw_client_has(const struct gw_client *client,
                  size_t first,
                  size_t n,
                  uint64_t version);

/* Non-zero where `clock` goes on, or went, without this worker: its pushes of
   that clock do not count. Thread: any. */
int gw_client_is_late(const struct gw_client *client, uint64_t clock);

/* Non-zero if this worker's pushes of its last clock, `clock`, are part of a
   version; known when it has weights of a newer one. */
int gw_client_counts(const struct gw_client *client, uint64_t clock);

/* The program of this worker, rank 0, has no step behind `clock`: asks for the
   end of the job, there or as soon as it can be. */
enum gw_status gw_client_finished(struct gw_client *client, uint64_t clock);

/* Waits at `clock`, without a push, for a decision on the end. Returns as
   gw_client_wait. */
enum gw_status gw_client_await_end(struct gw_client *client, uint64_t clock);

/* After GW_EEND: waits for the weights with which the job ends. */
enum gw_status gw_client_wait_end(struct gw_client *client);

/* The caller has done a part of its computation for a step, or an evaluation:
   in simulation the time that this takes passes here, until the step is over
   without it. */
void gw_client_computed(struct gw_client *client,
                        const struct gw_computed *part);

/*
 * Gives the gradients of keys [first, first + n) of `clock`, sums over
 * `samples` samples, and asks for version `next` of the same keys, clock + 1
 * where every step is pushed. Returns at once. gw_client_skip gives none: the
 * arena is not read. With `counts` the sum of the others is divided by these
 * samples all the same. Without samples both do the same.
 */
enum gw_status gw_client_push(struct gw_client *client,
                              size_t first,
                              size_t n,
                              uint64_t clock,
                              uint64_t next,
                              uint32_t samples);
enum gw_status gw_client_skip(struct gw_client *client,
                              size_t first,
                              size_t n,
                              uint64_t clock,
                              uint64_t next,
                              uint32_t samples,
                              int counts);

/* The result of one evaluation, over all workers. */
struct gw_client_score {
    double loss, accuracy; /* means over the test set */
    int best;
};

/*
 * Gives this rank's part of the evaluation at `clock` and waits for the
 * result. Whether the job ends here is told by the next wait.
 */
/* The score of that step is known. */
int gw_client_was_scored(const struct gw_client *client, uint64_t step);

enum gw_status gw_client_score(struct gw_client *client,
                               uint64_t clock,
                               double loss,
                               uint64_t correct,
                               uint64_t samples,
                               struct gw_client_score *score);

/*
 * The word of cluster.policy that holds, and the step up to which it does by
 * the job's plan; another may be asked for before.
 */
const struct gw_policy_word *gw_client_policy(const struct gw_client *client,
                                              uint64_t *until_p);

/*
 * Before the clock *clock_p: non-zero where another policy holds from here on.
 * Coming from per-push policies all ranks are at one clock then, to which
 * *clock_p is set.
 */
int gw_client_switch(struct gw_client *client, uint64_t *clock_p);

/*
 * Non-zero where each push makes a version: ranks then go through clocks of
 * their own, past the number of steps, until the job ends.
 */
int gw_client_is_per_push(const struct gw_client *client);

/* Non-zero if another policy is decided, and this worker is to take it up
   (gw_client_switch). Thread: any. */
int gw_client_has_next_policy(const struct gw_client *client);

/* Non-zero where no weights become newer without this worker's pushes. */
int gw_client_is_waited_for(const struct gw_client *client);

/* Non-zero where all ranks stand still to score the test set. */
int gw_client_is_scored(const struct gw_client *client);

/*
 * Each push, where all ranks stand still (GW_EAGAIN, GW_EEND): waits for all
 * weights as they are, the same for every rank. go_on then asks again for
 * weights of this rank's clock.
 */
enum gw_status gw_client_pull(struct gw_client *client);
enum gw_status gw_client_go_on(struct gw_client *client, uint64_t clock);

/*
 * train.split = speed: this rank's part of the samples of step `clock`, of
 * which weights have been waited for, or to which the job has just come; and
 * the step since which it has been the same.
 */
struct gw_client_share {
    uint64_t since;
    struct gw_split_range range;
};
struct gw_client_share gw_client_share(const struct gw_client *client,
                                       uint64_t clock);

/* The step in which the caller is, or which it has ended, for heartbeats: also
   where nothing of the step is pushed. */
void gw_client_set_step(struct gw_client *client, uint64_t clock);

/* Tells shard 0 how fast this worker computes, measured from step `clock` on;
   a few times a second at most. Dropped if shard 0 does not keep up. */
void gw_client_tell_speed(struct gw_client *client,
                          uint64_t clock,
                          double samples_per_s);

/*
 * Tells the coordinator of a step or, where each push makes a version, of all
 * since the last report; dropped if it does not keep up.
 */
void gw_client_report(struct gw_client *client,
                      uint64_t clock,
                      double loss,
                      uint64_t correct,
                      uint64_t samples,
                      uint64_t rss_bytes,
                      const double *lr);

/* The clock, + 1, of the last step for which the coordinator has asked for a
   report, in addition to steps that are logged; 0: it has not. Thread: any. */
uint64_t gw_client_polled(const struct gw_client *client);

/* The clock at which the job ends, UINT64_MAX while that is not decided, and
   why (enum gw_end_reason). */
uint64_t gw_client_end_clock(const struct gw_client *client);
/* Non-zero where it ends with all ranks standing still: wanted weights do not
   come any more, and are pulled. */
int gw_client_ends_standing(const struct gw_client *client);
int gw_client_end_reason(const struct gw_client *client);

/* The factor of the loss in gradients at this clock. */
double gw_client_loss_scale(const struct gw_client *client);

/*
 * Checkpoints with a part of this worker, which has an optimizer of its own. A
 * cut is decided with or before the first weights of its clock. gw_client_cut
 * is non-zero, once for each, where there is one at `clock` of ours: save the
 * state before that clock's step changes it, under *name_p. Where each push
 * makes a version, a clock may have several.
 */
int gw_client_cut(struct gw_client *client, uint64_t clock, uint64_t *name_p);

/*
 * Sends this worker's file. Its parts, and the memory that they point to, stay
 * as they are until it is sent. Waits for the one before, and returns while
 * this one is on its way. A file that cannot be written fails the checkpoint,
 * and not the call. gw_client_saved waits until nothing is on its way; before
 * it has returned GW_OK nobody says good-bye.
 */
enum gw_status gw_client_save(struct gw_client *client,
                              uint64_t name,
                              const struct gw_file_part *parts,
                              size_t n);
enum gw_status gw_client_saved(struct gw_client *client);

/*
 * Asks the coordinator for a checkpoint; `waits_at`: of that clock, whose
 * weights are here and of which this worker pushes nothing before the answer,
 * while nobody goes on without it; NULL: of the next clock where one can be.
 * The answer: GW_OK: it is complete; GW_EIO, with a line: it has failed;
 * GW_EEND: the job ends. GW_EAGAIN, unless it waits: it is not there yet.
 */
void gw_client_ask_save(struct gw_client *client, const uint64_t *waits_at);
enum gw_status gw_client_save_answer(struct gw_client *client,
                                     int waits,
                                     struct gw_error *why);

/*
 * After declare: non-zero if the job goes on with a file that this worker has
 * saved; its size; n bytes of it, at `offset`. A file that cannot be read is a
 * failure.
 */
int gw_client_has_inner(const struct gw_client *client);
enum gw_status gw_client_load_size(struct gw_client *client, uint64_t *bytes_p);
enum gw_status
gw_client_load(struct gw_client *client, uint64_t offset, void *to, size_t n);

/*
 * Nothing that reads weights on other devices (gw_client_next_place) may be
 * queued any more: they are let go.
 * Says good-bye with the digest of the weights (rank 0, else zeros), and waits
 * for the coordinator to end the job. The status is the job's.
 */
enum gw_status gw_client_finish(struct gw_client *client,
                                uint64_t clock,
                                const uint8_t digest[GW_DIGEST_BYTES],
                                uint64_t rss_bytes);

/* The line that says why the last call failed or the job ended. */
const struct gw_error *gw_client_error(const struct gw_client *client);

/*
 * The caller cannot go on: every further call returns this error, and close
 * tells the coordinator, which ends the job by it.
 */
void gw_client_fail_with(struct gw_client *client,
                         const struct gw_error *error);

/* Non-zero when the job is over for this client: no call will do any more.
   Thread: any. */
int gw_client_is_over(const struct gw_client *client);

/* Asks the coordinator to stop the job, as a signal does. Thread: any, also a
   signal handler's watcher. */
void gw_client_stop(struct gw_client *client);

#endif
