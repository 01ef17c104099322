/*
 * Inside the client: what its files share.
 *
 *   client.c          joining, declaring, pushing, ending
 *   client_wait.c     the caller waits: for weights, for others
 *   client_connect.c  connections to the shards, and what they lose
 *   client_control.c  messages of the coordinator and the servers; stalls
 *   client_data.c     chunks: pushes and wants out, weights in
 *   client_landing.c  where weights are and arrive
 *   client_far.c      gradients that leave from a device's memory
 *   client_shown.c    and those that are read where they are
 *   client_node.c     other workers of this host,
 *   client_sum.c      and what they push together
 *   client_split.c    which part of a step is this rank's
 *   client_even.c     one version of all chunks, for who was late
 *   client_switch.c   from one policy to the next
 *   client_files.c    this worker's part of checkpoints
 */
#ifndef GW_WORKER_CLIENT_STATE_H
#define GW_WORKER_CLIENT_STATE_H

#include <stdatomic.h>

#include "proto/config.h"
#include "proto/staleness.h"
#include "transport/member/member.h"
#include "worker/client/client.h"
#include "worker/client/client_node.h"

/* A server's shard, as a worker sees it. */
struct gw_client_shard {
    struct gw_peer *peer;
    char address[GW_ADDRESSES_MAX];
    char host[64];
    uint64_t incarnation;
    uint32_t server;
    uint32_t landing, seeds; /* windows it gave us; GW_WINDOW_NONE: not yet */
    uint32_t weights[GW_ENCODINGS]; /* windows we gave it, for weights as the
                                       job has them sent, and raw */
    uint32_t gradients;             /* window that it may only read */
    uint8_t shown;  /* links over which it sees these and raw weights, a bit for
                       each; */
    uint8_t read;   /* those over which it has read some, since they came, */
    uint8_t unread; /* whose last one broke before that, */
    uint8_t unseeing;         /* and the last two: nothing is shown over them */
    _Atomic int takes_device; /* payloads, from a device's memory */
};

/* By whom a chunk is pushed, and its weights come. */
enum gw_client_via {
    GW_CHUNK_ALONE,
    GW_CHUNK_OWNED, /* by us, as the sum of our group */
    GW_CHUNK_GIVEN, /* by another of our group */
};

/* A chunk on its way out and back. */
struct gw_client_chunk {
    _Atomic uint64_t have; /* version that is there, + 1; 0: nothing yet */
    const void *device;    /* whose arena has it; NULL: ours on the host. For
                              who has found that version */
    uint64_t want;         /* version asked for, + 1; 0: nothing */
    uint64_t pushed;       /* clock pushed and not yet answered, + 1; 0: none */
    uint64_t pull;         /* name of the pull not yet answered, 0: none */
    uint32_t samples;
    uint8_t via;     /* enum gw_client_via, of what was pushed last */
    uint8_t apart;   /* its weights come from the shard all the same */
    uint8_t seeding; /* seed sent and not yet answered */
    uint8_t stays;   /* its gradient is on the device and not in the arena; of
                        the caller's until it is pushed */
    uint8_t still;   /* what is pushed stays as it is until it is answered */
    uint8_t sending; /* frames */
    uint8_t due;     /* to be sent, as soon as what is being sent has left */
    struct gw_send send;             /* of the push or the seed, */
    uint8_t note[GW_SHOWN_AT_BYTES]; /* its payload, if that is shown */
};

struct gw_client;
struct gw_client_files;

/* The want for one key at one shard over one link. */
struct gw_client_want {
    struct gw_client *client;
    size_t key;
    uint32_t shard;
    unsigned link;
    uint8_t bytes[GW_WANT_BYTES];
    struct gw_send send;
    int sending;
    int again; /* something else is wanted since it was posted */
};

/* A run of keys handed over by the caller. */
struct gw_client_run {
    size_t first, n;
    uint64_t clock, next;
    uint32_t samples;
    int sums;  /* the policy is one under which groups push as one */
    int still; /* and gradients stay as they are until they are answered */
    int apart; /* with `next` another policy begins: nobody may be behind */
};

/* What the caller waits for, and is told of when it takes too long. Who has not
   come or not connected is told by the coordinator and by the shards. */
enum gw_client_waiting {
    GW_WAITING_UNWATCHED,
    GW_WAITING_WEIGHTS,
    GW_WAITING_PULL,
    GW_WAITING_SCORE,
    GW_WAITING_FILE,
};

/* Single pushes, where all ranks stand still: the step that it is. */
struct gw_client_meeting {
    uint64_t step;
    uint64_t name; /* of the pull there: the decision's number */
};

/* A policy and the clock from which it holds. */
struct gw_client_switch {
    uint64_t clock; /* + 1; 0: none is decided */
    struct gw_policy_word word;
    uint64_t renumbers; /* the decision that numbers clocks anew; 0: none */
};

/* train.split = speed: the part in force and the one to come, in any order. */
struct gw_client_split {
    uint32_t *weight; /* [ranks] scratch; NULL: parts are even */
    struct {
        _Atomic uint64_t clock; /* from which it holds */
        _Atomic uint64_t range; /* begin << 32 | end */
    } entry[2];
};

/* Bulk frames leave behind control messages; earlier chunks leave earlier. */
#define GW_CLIENT_PRIORITY 1

#define GW_CLIENT_RUNS 256 /* a power of two; more wait for room */
#define GW_CLIENT_CUTS                                                         \
    4 /* a power of two; shard 0 has no more open at once                      \
       */

/* A checkpoint: its step, and our clock there. */
struct gw_client_cut {
    uint64_t name, clock;
};

struct gw_client {
    struct gw_client_options options;
    struct gw_loop *loop;
    struct gw_log *log;
    struct gw_metrics *metrics;

    /* what every frame and every look of a waiting caller needs */
    _Atomic int failed; /* the job is over for us: error says why */
    int each;           /* the word that holds: each push makes a version */
    struct gw_map *map;
    struct gw_client_chunk *chunk; /* [map->chunks] */
    struct gw_client_shard *shard; /* [shards] */
    uint64_t progress_us;
    _Atomic uint64_t decision, decision_needed; /* as followed so far */
    _Atomic uint64_t told_decision; /* the last that the coordinator has too */
    uint64_t voided;                /* wants of before this decision are void */
    _Atomic int renews; /* next renumbers, and all may go on by it */
    _Atomic uint64_t end_clock;
    _Atomic uint64_t called; /* clock + 1 at which all stand still to be scored,
                                or for good; 0: none */
    uint64_t waits_version;  /* of the wait that is going on */
    size_t waits_first, waits_n;
    int end_reason;

    struct gw_member *member;
    struct gw_peer *coordinator;
    struct gw_error error;
    int joined;
    int ended; /* by the coordinator */
    int said_bye;
    struct gw_log_limit limit;

    char *job;
    char tuned[GW_TUNED_BYTES];
    uint32_t rank, ranks;
    struct gw_config config;

    /* the policy that holds; changed by the caller, with the loop in hand */
    struct gw_policy_word word;
    uint64_t until; /* the step at which the plan has another */
    int may_jump;   /* the word: who is late goes on at a newer version */
    struct gw_client_switch next, after; /* the loop's */
    _Atomic uint64_t next_clock;         /* next.clock, for the caller */

    uint32_t members_seen, members_total, shards;
    int view_complete, started;
    struct gw_met met; /* on this host */
    struct gw_start start;
    struct gw_course_cut from; /* of Welcome */
    uint64_t first_clock;
    int needs_seed;
    unsigned connections;

    struct gw_client_node *node; /* NULL: no others of this host */
    float *weights, *gradients;
    const struct gw_device_arenas *device; /* NULL: they are made there */
    uint16_t *bf16; /* where weights arrive; NULL: in their arena */
    int bf16_stays; /* and is not widened into that */
    int pulled;     /* the caller's: weights are raw, whatever arrives else */
    int hollow;     /* the job's payloads are lengths: neither has memory */
    struct gw_client_want *want; /* [keys][shards][connections] */

    /* from the caller to the loop */
    struct gw_client_run run[GW_CLIENT_RUNS];
    _Atomic uint32_t runs_in, runs_out;
    struct gw_task runs_task, stop_task;

    /* decisions */
    _Atomic double loss_scale;
    _Atomic uint64_t late_clock;    /* + 1, the last that goes on without us */
    _Atomic uint64_t counted_clock; /* + 1, the last that does not */
    _Atomic uint64_t polled;        /* clock + 1 of the last poll */
    uint64_t score_clock;           /* + 1, of the last one */
    uint64_t scored_clock;          /* whose result the caller waits for */
    struct gw_client_score score;
    struct gw_client_split split;
    struct gw_client_meeting meeting;
    int scores;          /* for the test set to be scored */
    _Atomic int drained; /* from a drain to its end, or the job's */
    _Atomic uint64_t staleness[GW_STALENESS_BUCKETS]; /* each push */

    /* checkpoints that we have not given our part of, oldest first */
    struct gw_client_cut cut[GW_CLIENT_CUTS];
    _Atomic uint32_t cuts_in, cuts_out;
    struct gw_client_files *files; /* from the first one on */

    struct gw_timer watch;
    uint64_t stalled_us;
    enum gw_client_waiting waiting;
    uint64_t linger_until_us;
};

/* Over which of the connections to its shard a chunk goes. */
static inline unsigned gw_client_link_of(const struct gw_client *client,
                                         uint32_t chunk)
{
    return chunk % client->connections;
}

/* Whether a chunk lacks something that a shard has to send. */
static inline int gw_client_asks_for(const struct gw_client_chunk *chunk)
{
    return chunk->pull ||
           (chunk->want && (chunk->via != GW_CHUNK_GIVEN || chunk->apart));
}

/* As what weights are wanted, but for plain pulls. */
static inline enum gw_encoding
gw_client_encoding(const struct gw_client *client)
{
    return client->config.train.weights;
}

/* client.c */
void gw_client_fail(struct gw_client *client,
                    enum gw_status status,
                    const char *format,
                    ...) __attribute__((format(printf, 3, 4)));
void gw_client_tell(struct gw_client *client,
                    struct gw_peer *peer,
                    const struct gw_message *message);

/* Whether what is pushed now is the sum of those of this host. */
int gw_client_pushes_sums(const struct gw_client *client);

enum gw_status gw_client_wait_for(struct gw_client *client,
                                  int (*done)(const struct gw_client *client),
                                  enum gw_client_waiting waiting);

/* client_control.c */
extern const struct gw_member_handler gw_client_handler;
void gw_client_watch(struct gw_client *client); /* for stalls, until close */
/* For the coordinator to name: how a shard, or a neighbour, broke the protocol
   on a link that is closed for it. */
void gw_client_tell_fault(struct gw_client *client,
                          const struct gw_peer *peer,
                          const char *why);
/* Fault for struct gw_member_handler, for the coordinator to see; once it has
   told. */
void gw_client_stuck(struct gw_client *client,
                     const struct gw_peer *peer,
                     const char *text);

/* client_split.c. GW_ENOMEM, GW_EPROTO: weights that do not add up. */
enum gw_status gw_client_split_begin(struct gw_client *client,
                                     const struct gw_start *start);
void gw_client_split_close(struct gw_client *client);
void gw_client_split_decided(struct gw_client *client,
                             const struct gw_decision *decision);

/* client_switch.c */
void gw_client_follow_word(struct gw_client *client,
                           const struct gw_policy_word *word,
                           uint64_t step);
void gw_client_switch_decided(struct gw_client *client,
                              const struct gw_decision *decision);

/* client_connect.c */
void gw_client_connect(struct gw_client *client);
void gw_client_link_up(struct gw_client *client,
                       struct gw_peer *peer,
                       unsigned link);
void gw_client_window(struct gw_client *client,
                      struct gw_peer *peer,
                      const struct gw_window_open *window);
int gw_client_windows_open(const struct gw_client *client);

/* client_shown.c: what shards of this host read where it is. Over each link
   that comes the arenas are shown anew; not over one that broke on it. */
void gw_client_show_arenas(struct gw_client *client,
                           uint32_t shard,
                           unsigned link);
/* The chunk that was shown has its answer: the shard has read it. */
void gw_client_was_read(struct gw_client *client, uint32_t chunk);
/* Whether what is to be sent of a chunk is shown instead; makes its send say
   where it lies. */
int gw_client_is_shown(const struct gw_client *client, uint32_t chunk);
void gw_client_show(struct gw_client *client, uint32_t chunk);
/* For the log, when links have come. */
void gw_client_tell_shown(const struct gw_client *client);

/* client_data.c */
enum gw_status gw_client_data_open(struct gw_client *client,
                                   struct gw_error *error);
void gw_client_data_close(struct gw_client *client);
void gw_client_frame(struct gw_client *client,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame);
/* A want for what a chunk lacks, under the condition that the policy makes of
   it, for `count` chunks from `first` on. */
struct gw_want gw_client_want_for(const struct gw_client *client,
                                  const struct gw_client_chunk *lacking,
                                  uint32_t first,
                                  uint32_t count);
/* Sends what there is of a chunk; whole, and as often as it takes. */
void gw_client_send_chunk(struct gw_client *client, uint32_t index);
/* Weights that a neighbour gives; `device` as a chunk has it. */
void gw_client_given(struct gw_client *client,
                     struct gw_peer *peer,
                     const struct gw_frame *frame,
                     const void *device);
/* Those of a chunk that we own are where they are given from, which is `device`
   as a chunk has it. */
void gw_client_put(struct gw_client *client,
                   const struct gw_frame *frame,
                   const void *device);
int gw_client_has(const struct gw_client *client,
                  size_t first,
                  size_t n,
                  uint64_t version);
void gw_client_want_all(struct gw_client *client, uint64_t version, int seed);
void gw_client_pull_all(struct gw_client *client, uint64_t name);
void gw_client_forget(struct gw_client *client);
void gw_client_forget_pushes(struct gw_client *client);
/* What is wanted is void, behind a decision. */
void gw_client_void(struct gw_client *client, uint64_t decision);
/* The last decision that the sender of a frame had followed. */
uint64_t gw_client_decision(const struct gw_client *client,
                            const struct gw_frame *frame);
/* The first chunk that is pulled and not there yet, or none. */
uint32_t gw_client_first_pulled(const struct gw_client *client);
int gw_client_has_pulled(const struct gw_client *client);
/* Asks for a version of all chunks of a key. */
void gw_client_want_key(struct gw_client *client, size_t key, uint64_t version);
/* The first chunk from `chunk` on that is not at that version, or `end`. */
uint32_t gw_client_next_missing(const struct gw_client *client,
                                uint32_t chunk,
                                uint32_t end,
                                uint64_t version);
/* Every decision that weights in the arena were made with is known. */
int gw_client_has_decisions(const struct gw_client *client);
uint32_t gw_client_first_missing(const struct gw_client *client,
                                 size_t first,
                                 size_t n,
                                 uint64_t version);

/* client_landing.c. Of gw_window_open. */
enum gw_status gw_client_landing_windows(struct gw_client *client,
                                         struct gw_client_shard *shard);
/* Where what the arena has at `offset` arrives, and how much room all has. */
void *gw_client_landing(const struct gw_client *client,
                        enum gw_encoding encoding,
                        uint64_t offset);
uint64_t gw_client_landing_bytes(const struct gw_client *client,
                                 enum gw_encoding encoding);
/* A chunk has arrived: it is where the caller looks for it after that. */
void gw_client_landed(struct gw_client *client, const struct gw_frame *frame);

/* client_far.c: whether a chunk is sent from a device's memory, if it is made
   there. Any thread. */
int gw_client_is_far(const struct gw_client *client, uint32_t chunk);
/* Whether every link to a shard takes that; asked when one comes. */
void gw_client_ask_links(struct gw_client *client, uint32_t shard);
void gw_client_tell_far(const struct gw_client *client);
/* Where what is pushed of a chunk is; of keys that the caller makes itself. */
void gw_client_set_stays(struct gw_client *client, uint32_t chunk, int stays);
void gw_client_made_on_host(struct gw_client *client, size_t first, size_t n);
/* Where the gradient of a chunk is that is to be sent now. NULL: the device has
   failed, and with it the client. */
const float *gw_client_gradient(struct gw_client *client, uint32_t chunk);

/* client_files.c */
void gw_client_files_close(struct gw_client *client);
/* A checkpoint of that name is cut at our `clock`. */
void gw_client_cut_decided(struct gw_client *client,
                           uint64_t clock,
                           uint64_t name);
/* What comes from the coordinator; 0 for what nobody waits for. */
void gw_client_files_link_up(struct gw_client *client);
int gw_client_files_reply(struct gw_client *client,
                          const struct gw_file_reply *reply);
int gw_client_files_frame(struct gw_client *client,
                          const struct gw_frame *frame);
/* "file worker-0-of-2.safetensors", of the one that is sent or read; returns
   the name of its checkpoint. */
uint64_t
gw_client_file_name(const struct gw_client *client, char *text, size_t room);

/* client_even.c */
int gw_client_is_even(struct gw_client *client,
                      uint64_t version,
                      unsigned *rounds,
                      uint64_t *even_p);

#endif
