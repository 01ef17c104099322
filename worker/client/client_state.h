/*
 * Inside the client. Each part is a struct of one file, and its fields are
 * private to that file; other files use calls. The job, the map and the table
 * of chunks are read by all, and changed by one.
 *
 *   client.h           the calls of a worker
 *   client_state.h     the parts and their calls
 *   client.c           life: open, declare, attach, finish, close
 *
 *   client_tell.c      the first failure; messages to peers
 *   client_handler.c   table of messages; links that come, break and die
 *   client_session.c   the coordinator: join, job, view, start, end
 *   client_report.c    reports to the coordinator
 *   client_save.c      a checkpoint that the caller asks for
 *   client_decision.c  the stream of decisions: end, cut, score, quorum
 *   client_policy.c    the policy that holds, and the switch to the next one
 *   client_split.c     this rank's part of each step
 *   client_cut.c       cuts at which this worker has to save
 *   client_files.c     this worker's files in checkpoints
 *
 *   client_wait.c      the caller waits
 *   client_catch_up.c  one version of all chunks, for a worker that was late
 *   client_stall.c     waits that take too long
 *
 *   client_shard.c     the shards: peers and windows
 *   client_connect.c   links to shards, and repeats after a break
 *   client_chunk.c     table of chunks: pushed, wanted, there
 *   client_push.c      a push from the caller to the link
 *   client_terms.h     hyperparameters, before the pushes that need them
 *   client_terms.c
 *   client_out.c       the place of the bytes of a chunk that leaves
 *   client_want.c      requests for weights
 *   client_weights.c   weights that arrive
 *   client_landing.c   memory in which they arrive
 *
 *   client_host_group.h  other workers of this host
 *   client_host_group_state.h
 *   client_host_group.c  their links
 *   client_sum.c         sums of their gradients
 *   client_reduce.h      ways to make these sums
 *   client_reduce.c
 *   client_reduce_nvlink.c
 *   client_reduce_shm.c
 */
#ifndef GW_WORKER_CLIENT_STATE_H
#define GW_WORKER_CLIENT_STATE_H

#include <stdatomic.h>

#include "proto/config.h"
#include "proto/dispatch.h"
#include "transport/member/away.h"
#include "transport/member/member.h"
#include "worker/client/client.h"
#include "worker/client/client_host_group.h"
#include "worker/client/client_terms.h"

/* Welcome, once it has come. */
struct gw_client_job {
    char *text;
    char tuned[GW_TUNED_BYTES];
    uint32_t rank, ranks;
    struct gw_config config;
    int payload_free; /* payloads are lengths without memory */
};

/* The member that pushes a chunk and brings its weights. */
enum gw_client_via {
    GW_CHUNK_ALONE, /* this worker, for itself */
    GW_CHUNK_OWNED, /* this worker, as the sum of its host */
    GW_CHUNK_GIVEN, /* another worker of this host */
};

/* A chunk on its way out and back; client_chunk.c alone changes it. */
struct gw_client_chunk {
    _Atomic uint64_t have; /* version that is there, + 1; 0: nothing yet */
    const void *device;    /* the arena that has it, on a device; NULL: ours on
                              the host. Valid for a reader of that version */
    uint64_t want;         /* version asked for, + 1; 0: nothing */
    uint64_t pushed;       /* clock pushed and not yet answered, + 1; 0: none */
    uint64_t pull;         /* name of the pull not yet answered, 0: none */
    uint32_t samples;
    uint8_t empty;     /* the push has no bytes, */
    uint8_t uncounted; /* and its samples do not count */
    uint8_t via;       /* enum gw_client_via, of the last push */
    uint8_t apart;     /* its weights come from the shard all the same */
    uint8_t seeding;   /* seed sent and not yet answered */
    uint8_t still;     /* the gradient does not change until it is answered */
};

/* The terms of a push, by the policy that holds. */
struct gw_push_terms {
    int local; /* gradients of a local policy, made on the host */
    int sums;  /* the workers of a host push one sum */
    int still; /* gradients stay as they are until they are answered */
    int apart; /* another policy begins with the next version: each worker asks
                  the shards itself, so that none is behind */
};

struct gw_client {
    struct gw_client_options options;
    struct gw_loop *loop;
    struct gw_log *log;
    struct gw_metrics *metrics;
    struct gw_member *member;
    struct gw_peer *coordinator;
    struct gw_away away; /* of the coordinator; client_home.c changes it */
    const struct gw_client_declaration *declaration; /* until the start */

    _Atomic int failed; /* the job is over for this client: error says why */
    struct gw_error error;
    uint64_t
        progress_us; /* the loop's: when something last came or was pushed */
    struct gw_log_limit limit; /* lines about links that break */
    uint32_t group_ranks; /* ranks of this host that push one sum, at least 1 */

    /* set once */
    const struct gw_client_job *job; /* NULL until Welcome */
    struct gw_map *map;              /* NULL until declared */
    uint64_t again; /* + 1: the clock at which it begins in the place of
                       another worker; 0: it does not */
    const struct gw_client_chunk *chunk; /* [map->chunks], as above */

    /* parts, each private to its file */
    struct gw_client_session *session;
    struct gw_client_declared *declared;
    struct gw_client_report *report;
    struct gw_client_save *save;
    struct gw_client_decisions *decisions;
    struct gw_client_policy *policy;
    struct gw_client_split *split;
    struct gw_client_cuts *cuts;
    struct gw_client_files *files; /* NULL before the first one */
    struct gw_client_waits *waits;
    struct gw_client_stalls *stalls;
    struct gw_client_shards *shards;
    struct gw_client_terms *terms;
    struct gw_client_chunks *chunks;
    struct gw_client_pushes *pushes;
    struct gw_client_out *out;
    struct gw_client_wants *wants;
    struct gw_client_landing *landing;
    struct gw_host_group *group; /* NULL: no other worker of this host */
};

/* Bulk frames leave after control messages; earlier chunks leave earlier. */
#define GW_CLIENT_PRIORITY 1

/* The encoding of weights that are wanted; pulls are raw. */
static inline enum gw_encoding
gw_client_encoding(const struct gw_client *client)
{
    return client->job->config.train.weights;
}

/* ---- client_tell.c ---- */

/* The first failure is kept; later ones change nothing. */
void gw_client_fail(struct gw_client *client,
                    enum gw_status status,
                    const char *format,
                    ...) __attribute__((format(printf, 3, 4)));
void gw_client_tell(struct gw_client *client,
                    struct gw_peer *peer,
                    const struct gw_message *message);
/* Reports to the coordinator that a peer broke the protocol on a link, which is
   closed for it. */
void gw_client_tell_fault(struct gw_client *client,
                          const struct gw_peer *peer,
                          const char *why);
/* Reports a cause that keeps others waiting (gw_member_handler.stuck). */
void gw_client_stuck(struct gw_client *client,
                     const struct gw_peer *peer,
                     const char *text);

/* ---- client_handler.c ---- */

extern const struct gw_member_handler gw_client_handler;

/* ---- client_save.c ---- */

enum gw_status gw_client_save_open(struct gw_client *client);
void gw_client_save_close(struct gw_client *client);
gw_message_handle_fn gw_client_got_status;
/* The coordinator is another one: it hears of a request without an answer. */
void gw_client_save_renew(struct gw_client *client);

/* ---- client_report.c ---- */

enum gw_status gw_client_report_open(struct gw_client *client);
void gw_client_report_close(struct gw_client *client);
gw_message_handle_fn gw_client_got_poll;
void gw_client_count_staleness(struct gw_client *client, uint32_t staleness);

/* ---- client_decision.c ---- */

enum gw_status gw_client_decisions_open(struct gw_client *client);
void gw_client_decisions_close(struct gw_client *client);
gw_message_handle_fn gw_client_got_decision;
/* The client fails if this is no number that scales a loss. */
void gw_client_set_loss_scale(struct gw_client *client, double loss_scale);
/* Number of the last decision that was followed. Any thread. */
uint64_t gw_client_decided(const struct gw_client *client);
/* The last decision that the coordinator has as well. Any thread. */
uint64_t gw_client_told_decision(const struct gw_client *client);
/* Number of the last decision that the sender of a frame had followed. */
uint64_t gw_client_decision(const struct gw_client *client,
                            const struct gw_frame *frame);
/* Weights that were made with that decision are in the arena. */
void gw_client_need_decision(struct gw_client *client, uint64_t number);
/* Every decision that weights in the arena were made with is known. */
int gw_client_has_decisions(const struct gw_client *client);
/* Clock + 1 at which all ranks stand still to be scored, or for good; 0: none.
   Any thread. */
uint64_t gw_client_called(const struct gw_client *client);
/* The clocks at which all ranks stand still. The caller, with the loop. */
struct gw_client_standstill {
    uint64_t step;
    uint64_t name; /* the pull's: the decision's number */
};
struct gw_client_standstill
gw_client_standstill(const struct gw_client *client);
/* The standstill is over: its pull begins. Returns the name of the pull. */
uint64_t gw_client_leave_standstill(struct gw_client *client);
/* All ranks meet at the last clock of the job, by the last decision. */
void gw_client_meet_at_end(struct gw_client *client, uint64_t clock);
/* The evaluation of that step is given to shard 0; and its result. */
void gw_client_begin_score(struct gw_client *client,
                           const struct gw_score *score);
/* Shard 0 is another process: it gets a score that is not decided. */
void gw_client_score_again(struct gw_client *client);
uint64_t gw_client_scored_step(const struct gw_client *client);
int gw_client_has_score(const struct gw_client *client);
struct gw_client_score gw_client_last_score(const struct gw_client *client);

/* ---- client_policy.c ---- */

enum gw_status gw_client_policy_open(struct gw_client *client);
void gw_client_policy_close(struct gw_client *client);
/* The word holds from `step` on. */
void gw_client_set_policy(struct gw_client *client,
                          const struct gw_policy_word *word,
                          uint64_t step);
void gw_client_switch_decided(struct gw_client *client,
                              const struct gw_decision *decision);
/* The next policy gives clocks new numbers. */
int gw_client_next_renumbers(const struct gw_client *client);
/* All ranks may go on by it; and whether they may. The latter on any thread. */
void gw_client_may_renew(struct gw_client *client);
int gw_client_renews(const struct gw_client *client);
/* Before `clock`: takes up the next policy, if it begins there. The caller,
   with the loop. */
enum gw_client_taken {
    GW_SWITCH_NONE,
    GW_SWITCH_TAKEN,
    GW_SWITCH_RENUMBERED, /* *clock_p is the new clock */
};
enum gw_client_taken gw_client_take_policy(struct gw_client *client,
                                           uint64_t *clock_p);
/* The policy that holds at a clock, or is decided to. */
const struct gw_policy_word *gw_client_policy_at(const struct gw_client *client,
                                                 uint64_t clock);
const struct gw_policy_word *
gw_client_policy_now(const struct gw_client *client);
/* A worker that is late goes on at a newer version (backup). */
int gw_client_may_jump(const struct gw_client *client);
/* For a push with which version `next` is asked for. The caller's thread. */
struct gw_push_terms gw_client_push_terms(const struct gw_client *client,
                                          uint64_t next);
/* A push is now the sum of the workers of this host. */
int gw_client_pushes_sums(const struct gw_client *client);

/* ---- client_split.c ---- */

void gw_client_split_close(struct gw_client *client);
/* GW_ENOMEM, GW_EPROTO: weights that do not add up. */
enum gw_status gw_client_split_begin(struct gw_client *client,
                                     const struct gw_start *start);
void gw_client_split_decided(struct gw_client *client,
                             const struct gw_decision *decision);

/* ---- client_cut.c ---- */

enum gw_status gw_client_cuts_open(struct gw_client *client);
void gw_client_cuts_close(struct gw_client *client);
/* A checkpoint of that name is cut at this rank's `clock`. */
void gw_client_cut_decided(struct gw_client *client,
                           uint64_t clock,
                           uint64_t name);

/* ---- client_files.c ---- */

void gw_client_files_close(struct gw_client *client);
void gw_client_files_link_up(struct gw_client *client);
gw_message_handle_fn gw_client_got_file_reply;
/* The coordinator is another one; when it knows this worker it gets the file
   that is on its way, and hears of the last one that is saved. */
void gw_client_files_hold(struct gw_client *client);
void gw_client_files_renew(struct gw_client *client);
/* 0: no file is read. */
int gw_client_files_frame(struct gw_client *client,
                          const struct gw_frame *frame);
/* "file worker-0-of-2.safetensors", of the one that is sent or read; returns
   the name of its checkpoint. */
uint64_t
gw_client_file_name(const struct gw_client *client, char *text, size_t room);

/* ---- client_wait.c ---- */

/* The reason for which the caller waits; named when the wait takes too long.
   Members that have not joined or connected are named by the coordinator and by
   the shards. */
enum gw_client_waiting {
    GW_WAITING_UNWATCHED,
    GW_WAITING_WEIGHTS,
    GW_WAITING_PULL,
    GW_WAITING_SCORE,
    GW_WAITING_FILE,
};
struct gw_client_wait {
    enum gw_client_waiting reason;
    size_t first, n;  /* of weights: keys */
    uint64_t version; /* and version */
};

enum gw_status gw_client_waits_open(struct gw_client *client);
void gw_client_waits_close(struct gw_client *client);
enum gw_status gw_client_wait_for(struct gw_client *client,
                                  int (*done)(const struct gw_client *client),
                                  enum gw_client_waiting reason);
/* Between the two the caller has the loop and turns it by itself. */
void gw_client_begin_wait(struct gw_client *client,
                          const struct gw_client_wait *wait);
void gw_client_end_wait(struct gw_client *client);
/* The wait that is going on. */
struct gw_client_wait gw_client_waits_for(const struct gw_client *client);

/* ---- client_stall.c ---- */

enum gw_status gw_client_stalls_open(struct gw_client *client);
void gw_client_stalls_cancel(struct gw_client *client); /* its timer */
void gw_client_stalls_close(struct gw_client *client);
/* Watches the caller's waits until close. On the loop. */
void gw_client_stalls_watch(struct gw_client *client);

/* ---- client_shard.c ---- */

enum gw_status gw_client_shards_open(struct gw_client *client);
void gw_client_shards_close(struct gw_client *client);
/* Room for the shards among so many members. GW_ENOMEM. */
enum gw_status gw_client_shards_expect(struct gw_client *client,
                                       uint32_t members);
int gw_client_shards_are_expected(const struct gw_client *client);
/* The view names a shard. */
void gw_client_shard_named(struct gw_client *client,
                           const struct gw_view_member *member);
/* That server has that shard already. */
int gw_client_shard_is(const struct gw_client *client,
                       const struct gw_view_member *member);
/* Another server has the shard: it is neither dialled nor open. */
void gw_client_shard_rename(struct gw_client *client,
                            const struct gw_view_member *member);
/* Every number below the count of shards has been named. */
int gw_client_shards_are_named(const struct gw_client *client);
void gw_client_set_connections(struct gw_client *client, unsigned connections);
uint32_t gw_client_shards(const struct gw_client *client);
unsigned gw_client_connections(const struct gw_client *client);
/* NULL before it is dialled. */
struct gw_peer *gw_client_shard_peer(const struct gw_client *client,
                                     uint32_t shard);
/* The shard that is this peer, or as many as there are. */
uint32_t gw_client_shard_of(const struct gw_client *client,
                            const struct gw_peer *peer);
/* Dials it, and opens the windows for weights. */
enum gw_status gw_client_shard_dial(struct gw_client *client,
                                    uint32_t shard,
                                    struct gw_error *error);
const char *gw_client_shard_host(const struct gw_client *client,
                                 uint32_t shard);
/* Windows of the shard, for pushes and for seeds, and ours for weights. */
uint32_t gw_client_landing_window(const struct gw_client *client,
                                  uint32_t shard);
uint32_t gw_client_seeds_window(const struct gw_client *client, uint32_t shard);
uint32_t gw_client_weights_window(const struct gw_client *client,
                                  uint32_t shard,
                                  enum gw_encoding encoding);
void gw_client_shard_take_window(struct gw_client *client,
                                 uint32_t shard,
                                 const struct gw_window_open *window);
/* Its windows for pushes and seeds are there; those of all are. */
int gw_client_shard_is_open(const struct gw_client *client, uint32_t shard);
int gw_client_shards_are_open(const struct gw_client *client);
/* The connection to its shard over which a chunk goes. */
unsigned gw_client_link_of(const struct gw_client *client, uint32_t chunk);

/* ---- client_connect.c ---- */

void gw_client_connect(struct gw_client *client);
/* Another server has a shard: what has to be sent is sent when its windows are
   here. */
void gw_client_reconnect(struct gw_client *client,
                         const struct gw_view_member *member);
gw_message_handle_fn gw_client_got_window;
/* All windows of shards, and of this host's workers, are there. */
int gw_client_windows_open(const struct gw_client *client);
void gw_client_link_up(struct gw_client *client,
                       struct gw_peer *peer,
                       unsigned link);

/* ---- client_chunk.c ---- */

enum gw_status gw_client_chunks_open(struct gw_client *client);
void gw_client_chunks_close(struct gw_client *client);
/* Tables for the chunks of the map. GW_ENOMEM. */
enum gw_status gw_client_chunks_make(struct gw_client *client);
/* A gradient of `clock` is pushed, or the news that there is none. */
struct gw_pushed {
    uint64_t clock;
    uint32_t samples;
    int empty, uncounted;
};
void gw_client_chunk_pushed(struct gw_client *client,
                            uint32_t chunk,
                            const struct gw_pushed *pushed,
                            const struct gw_push_terms *terms);
void gw_client_chunk_set_via(struct gw_client *client,
                             uint32_t chunk,
                             enum gw_client_via via);
/* The sum of it that is pushed. */
void gw_client_chunk_summed(struct gw_client *client,
                            uint32_t chunk,
                            uint32_t samples,
                            int empty);
void gw_client_chunk_set_seeding(struct gw_client *client,
                                 uint32_t chunk,
                                 int seeding);
/* A version of all chunks of a key is wanted; a pull of all keys. */
void gw_client_key_wanted(struct gw_client *client,
                          size_t key,
                          uint64_t version);
void gw_client_all_pulled(struct gw_client *client, uint64_t name);
/* The pull, or else the push, the seed and the want, are answered. */
void gw_client_chunk_pull_answered(struct gw_client *client, uint32_t chunk);
void gw_client_chunk_answered(struct gw_client *client, uint32_t chunk);
/* The version has come into the caller's view: to our arena, or that of a
   device. */
void gw_client_chunk_is_there(struct gw_client *client,
                              uint32_t chunk,
                              uint64_t version,
                              const void *device);
/* Wants of before a decision are void; shards drop them too. */
void gw_client_void(struct gw_client *client, uint64_t decision);
/* A want was made when this decision was the last. */
int gw_client_is_void(const struct gw_client *client, uint64_t decision);
/* Weights that came by other wants than the pull, and seeds, do not count any
   more. */
void gw_client_forget(struct gw_client *client);
/* Clocks get new numbers: pushes of before are in. */
void gw_client_forget_pushes(struct gw_client *client);
/* The shard has to send something of a chunk. */
int gw_client_asks_for(const struct gw_client_chunk *chunk);
/* The first chunk that is pulled and not there yet, or GW_CHUNK_NONE. */
uint32_t gw_client_first_pulled(const struct gw_client *client);
int gw_client_has_pulled(const struct gw_client *client);
/* The first chunk from `chunk` on that is not at that version, or `end`. */
uint32_t gw_client_next_missing(const struct gw_client *client,
                                uint32_t chunk,
                                uint32_t end,
                                uint64_t version);
/* The same of n keys, or GW_CHUNK_NONE. */
uint32_t gw_client_first_missing(const struct gw_client *client,
                                 size_t first,
                                 size_t n,
                                 uint64_t version);

/* ---- client_push.c ---- */

enum gw_status gw_client_pushes_open(struct gw_client *client);
void gw_client_pushes_cancel(struct gw_client *client); /* its task */
void gw_client_pushes_close(struct gw_client *client);
/* Tables for the chunks of the map. GW_ENOMEM. */
enum gw_status gw_client_pushes_make(struct gw_client *client);
uint64_t gw_client_pushes_bytes(const struct gw_map *map);
/* The loop has taken all pushes of the caller. */
int gw_client_has_taken_pushes(const struct gw_client *client);
/* Sends a chunk's gradient, the sum of several, or its seed; whole, and as
   often as it takes. */
void gw_client_send_chunk(struct gw_client *client, uint32_t chunk);
/* Sends all weights as the first version. */
void gw_client_seed_all(struct gw_client *client);

/* ---- client_out.c ---- */

/* A place from which bytes leave. */
enum gw_client_place_kind {
    GW_BYTES_NONE,     /* the push has none */
    GW_BYTES_ARENA,    /* an arena on the host */
    GW_BYTES_DEVICE,   /* a device's memory, which the link reads */
    GW_BYTES_EXPORTED, /* an arena, in which the shard reads them: the bytes
                          that leave say the window */
};
struct gw_client_bytes {
    enum gw_client_place_kind place;
    const void *at; /* NULL: none, or the job has no payloads */
};

enum gw_status gw_client_out_open(struct gw_client *client);
void gw_client_out_close(struct gw_client *client);
/* Tables for the chunks of the map and the shards. GW_ENOMEM. */
enum gw_status gw_client_out_make(struct gw_client *client);
uint64_t gw_client_out_bytes(const struct gw_map *map);
/* The gradients: an arena on the host and, unless NULL, one on a device. */
void gw_client_out_attach(struct gw_client *client,
                          float *gradients,
                          const struct gw_device_arenas *device);
float *gw_client_gradients(const struct gw_client *client);
/* Opens the window in which a shard may read gradients. */
enum gw_status gw_client_out_window(struct gw_client *client, uint32_t shard);
/* A link came: asks it again for reads from a device, and exports the arenas
   over it; not if links broke on that. */
void gw_client_out_link_up(struct gw_client *client,
                           uint32_t shard,
                           unsigned link);
/* For the log, when links have come. */
void gw_client_out_log(const struct gw_client *client);
/* Finds the bytes of a chunk that leave next; a gradient that the link does not
   take from the device is brought to the arena. 0: the device has failed, and
   with it the client. */
int gw_client_out_find(struct gw_client *client,
                       uint32_t chunk,
                       struct gw_client_bytes *bytes_p);
/* The answer to a chunk has come: if it was exported, it has been read. */
void gw_client_out_answered(struct gw_client *client, uint32_t chunk);
/* The network would read a chunk in the device's memory. Any thread. */
int gw_client_leaves_device(const struct gw_client *client, uint32_t chunk);
/* The gradient is on the device, and not in the arena. The caller's until the
   push is posted, the loop's until it is answered. */
int gw_client_is_on_device(const struct gw_client *client, uint32_t chunk);
void gw_client_set_on_device(struct gw_client *client, uint32_t chunk, int is);

/* ---- client_want.c ---- */

enum gw_status gw_client_wants_open(struct gw_client *client);
void gw_client_wants_close(struct gw_client *client);
/* Tables for keys, shards and connections. GW_ENOMEM. */
enum gw_status gw_client_wants_make(struct gw_client *client);
uint64_t gw_client_wants_bytes(const struct gw_map *map, uint64_t connections);
/* A want for the weights that a chunk lacks, under the condition of the policy,
   for `count` chunks from `first` on. */
struct gw_want gw_client_want_for(const struct gw_client *client,
                                  const struct gw_client_chunk *lacking,
                                  uint32_t first,
                                  uint32_t count);
/* Asks for a version of a key that has just been pushed. */
void gw_client_want_pushed(struct gw_client *client,
                           size_t key,
                           uint64_t version);
/* Asks the shards, and no worker of this host, for a version of a key, or of
   all keys. */
void gw_client_want_key(struct gw_client *client, size_t key, uint64_t version);
void gw_client_want_all(struct gw_client *client, uint64_t version);
/* Asks for all weights as they are. */
void gw_client_pull_all(struct gw_client *client, uint64_t name);

/* ---- client_weights.c ---- */

void gw_client_frame(struct gw_client *client,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame);
/* Weights from the owner of a chunk; `device` as a chunk has it. */
void gw_client_given(struct gw_client *client,
                     struct gw_peer *peer,
                     const struct gw_frame *frame,
                     const void *device);
/* Weights of a chunk that we own have reached the place from which the others
   take them, `device` as a chunk has it. */
void gw_client_put(struct gw_client *client,
                   const struct gw_frame *frame,
                   const void *device);

/* ---- client_landing.c ---- */

enum gw_status gw_client_landing_open(struct gw_client *client);
void gw_client_landing_close(struct gw_client *client);
void gw_client_landing_attach(struct gw_client *client,
                              const struct gw_client_arenas *arenas);
/* The place in which weights of the arena's `offset` arrive, and the bytes of
   the whole. */
void *gw_client_landing(const struct gw_client *client,
                        enum gw_encoding encoding,
                        uint64_t offset);
uint64_t gw_client_landing_bytes(const struct gw_client *client,
                                 enum gw_encoding encoding);
/* A chunk has arrived: puts it where the caller looks for it. */
void gw_client_landed(struct gw_client *client, const struct gw_frame *frame);
/* The arenas have pulled weights, or wanted ones again. */
void gw_client_set_pulled(struct gw_client *client, int pulled);

#endif
