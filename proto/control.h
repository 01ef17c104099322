/*
 * Control messages: what members tell each other besides gradients and weights.
 * Plain structs here; protobuf-c makes the bytes (control.proto) and stays
 * inside control*.c. Messages are reliable and in order between two members
 * (transport/member/member.h), so each is sent once. Pure but for the arena
 * that the caller brings; any thread, each with an arena of its own.
 *
 *   joining   member > coordinator   JOIN, DECLARE, READY
 *             coordinator > member   WELCOME, VIEW, DECLARE (keys), START
 *   windows   worker <> shard        WINDOW
 *   deciding  shard > shard 0        VOTE, ARRIVED, SETTLED
 *             worker > shard 0       SCORE, SPEED
 *             coordinator > shard 0  DECISION (splits to be repeated)
 *             shard 0 > everyone     DECISION
 *   saving    member > coordinator   SAVED, FILE_OPEN;  back  FILE_REPLY
 *             coordinator > shard 0  STORED
 *   watching  member > coordinator   REPORT, STALL, FAULT, STOP, BYE
 *             coordinator > worker   POLL
 *             observer > coordinator STATUS;  back  STATUS
 *   ordering  observer > coordinator REQUEST;  back  STATUS
 *             coordinator > shard 0  REQUEST
 *   ending    coordinator > member   END;  > shard 0  STOP
 */
#ifndef GW_PROTO_CONTROL_H
#define GW_PROTO_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "proto/course.h"
#include "proto/device.h"
#include "proto/map.h"
#include "proto/secret.h"
#include "proto/status.h"

#define GW_DIGEST_BYTES 32

/* Steps, clocks and versions are below this: cuts carry them as doubles, which
   hold whole numbers up to it, and a clock more is still a number. A message
   with a larger one is refused. */
#define GW_CLOCK_MAX ((uint64_t)1 << 53)

/* Parts keep a message below the 64 KiB of a frame. */
#define GW_KEYS_PER_PART    256
#define GW_MEMBERS_PER_PART 200
#define GW_VALUES_PER_PART  4096

enum gw_message_kind {
    GW_MESSAGE_JOIN = 1,
    GW_MESSAGE_WELCOME,
    GW_MESSAGE_DECLARE,
    GW_MESSAGE_VIEW,
    GW_MESSAGE_START,
    GW_MESSAGE_READY,
    GW_MESSAGE_WINDOW,
    GW_MESSAGE_DECISION,
    GW_MESSAGE_VOTE,
    GW_MESSAGE_SCORE,
    GW_MESSAGE_REPORT,
    GW_MESSAGE_STOP,
    GW_MESSAGE_SAVED,
    GW_MESSAGE_STORED,
    GW_MESSAGE_END,
    GW_MESSAGE_BYE,
    GW_MESSAGE_STALL,
    GW_MESSAGE_FILE_OPEN = 19, /* 18 was one that nobody sends any more */
    GW_MESSAGE_FILE_REPLY,
    GW_MESSAGE_STATUS,
    GW_MESSAGE_SETTLED,
    GW_MESSAGE_ARRIVED,
    GW_MESSAGE_REQUEST,
    GW_MESSAGE_SPEED,
    GW_MESSAGE_SIGHT,
    GW_MESSAGE_FAULT,
    GW_MESSAGE_POLL,
    GW_MESSAGE_KINDS,
};

/*
 * What a member needs of its host's cores. Masks are of NUMA nodes, bit n of
 * the one that the system calls n; 0: nothing is known to be near.
 */
struct gw_need {
    uint32_t threads; /* worker: that compute on cores; 0: it does not say */
    uint64_t device;  /* near the device that computes for it */
    uint64_t network; /* near its interfaces */
};
#define GW_NEED_THREADS_MAX 1024 /* the range of worker.threads */

/* "Here I am." From every worker and every shard. */
struct gw_join {
    uint8_t role;
    const char *host;
    uint64_t machine; /* equal for processes that share a kernel; 0: it does
                         not say, and shares a host with nobody */
    uint32_t pid;
    uint64_t process; /* server: equal for the threads of one process */
    uint32_t threads, thread;
    const char *address; /* server: where this shard listens; worker: where
                            others of its host meet it, "" for nowhere */
    uint32_t rank;       /* worker: wanted, or GW_RANK_NONE */
    struct gw_need need;
    struct gw_secret secret; /* the member's own */
    int has_proof;           /* of the job's secret (secret.h): */
    uint8_t proof[GW_PROOF_BYTES];
    const char *cannot; /* "" or NULL; else it does not join, and why: nobody
                           need wait for it */
};

struct gw_welcome {
    uint32_t rank;     /* worker: given; server: GW_RANK_NONE */
    const char *job;   /* text of the job file, defaults filled in */
    const char *tuned; /* worker: of the checkpoint from which the job goes on,
                          shorter than GW_TUNED_BYTES; "": none */
    struct gw_course_cut from; /* where it goes on; zero: at the beginning */
    uint64_t silence_us;       /* that is borne until the start, at most
                                  GW_SILENCE_MAX_US; 0: what was before */
};

/*
 * The keys, by hash from every worker and by name from rank 0; the coordinator
 * passes rank 0's on to the shards. `keys` holds keys_n of keys_total.
 */
struct gw_declare {
    uint64_t keys_hash;
    uint8_t data_digest[GW_DIGEST_BYTES];
    struct gw_course course; /* that the job takes from here on, */
    uint64_t total_steps;    /* up to this step */
    const char *device;      /* what computes, in words: bits depend on it */
    uint32_t keys_total, keys_first, keys_n;
    const struct gw_key *keys;
    uint8_t shares;        /* others of its host can see its gradients */
    const char *tuned;     /* what it has chosen, to be kept; likewise */
    const char *note;      /* for people: how its data was read; "": as it is */
    uint64_t test_samples; /* of the test set; 0: there is none */
};

struct gw_view_member {
    uint8_t role;
    uint32_t id;     /* rank of a worker, number of a shard */
    uint32_t server; /* number of the server process */
    uint64_t incarnation;
    const char *address;
    const char *host;
    uint64_t machine; /* as of Join, */
    struct gw_need need;
    int has_secret;          /* it dials the member that is told: */
    struct gw_secret secret; /* of that pair */
};

struct gw_view {
    uint64_t epoch;
    uint32_t members_total, members_first, members_n;
    const struct gw_view_member *members;
};

/* State that is one for the whole job, kept by shard 0 and in manifests. */
struct gw_decision_state {
    uint64_t clock;   /* steps decided, applied or skipped; where each push is
                         applied by itself, pushes / workers */
    uint64_t applied; /* optimizer steps, as Adam counts them */
    double loss_scale;
    uint64_t good_steps; /* since the loss scale last changed */
    uint32_t skipped_in_a_row;
    double best_loss; /* of the best evaluation; meaningless before one */
    uint64_t best_clock;
    uint32_t evaluations, evaluations_without_progress;
    uint64_t pushes; /* applied, a step counting as one of each worker: divided
                        by the workers it is what schedules follow */
};

struct gw_start {
    uint64_t total_steps;
    struct gw_course course;
    struct gw_decision_state state;
    const char *resume;     /* directory of the checkpoint, "" to begin anew */
    const char *dir;        /* checkpoint.dir, "" for none */
    const char *token;      /* what a file says that shows that it is shared */
    const uint64_t *clocks; /* each rank's first clock; none: state.clock */
    uint32_t clocks_n;
    uint8_t has_inner;     /* the checkpoint has a file of each worker */
    const uint32_t *split; /* speed: each rank's weight from state.clock on
                              (split.h); none: even */
    uint32_t split_n;
    const uint32_t *groups; /* sizes of blocks of ranks that push one sum
                               (groups.h); none: every rank pushes by itself */
    uint32_t groups_n;
    uint64_t silence_us;   /* as in a welcome, from here on */
    uint64_t test_samples; /* as workers have declared */
};

struct gw_ready {
    uint64_t version;
};

struct gw_window_open {
    uint8_t kind; /* enum gw_frame_kind that may land there */
    uint32_t id;
    uint64_t bytes;
};

enum gw_decision_kind {
    GW_DECIDE_STEP = 1, /* whole step: apply or skip */
    GW_DECIDE_TRUST,    /* lamb: the trust ratio of each key; shards only */
    GW_DECIDE_CUT,      /* a checkpoint at this clock */
    GW_DECIDE_SCORE,    /* result of an evaluation */
    GW_DECIDE_END,      /* no step of this clock or later */
    GW_DECIDE_DRAIN,    /* each push: answer no want, say who stands where */
    GW_DECIDE_RESUME,   /* each push: answer again, from `clocks` on */
    GW_DECIDE_COUNT,    /* backup: whose pushes make this step */
    GW_DECIDE_SWITCH,   /* `policy` holds from this clock on */
    GW_DECIDE_SPLIT,    /* speed: who gets how much of each step from here */
    GW_DECIDE_PASSED,   /* backup: those of steps that went on without a worker
                           that did not take their decisions */
};

enum gw_end_reason {
    GW_END_COMPLETE = 1, /* all steps done */
    GW_END_EARLY,        /* no progress any more */
    GW_END_STOPPED,      /* a signal, or gradweir ctl */
    GW_END_NONFINITE,    /* too many skipped steps */
};

/* One entry of the stream that every shard and worker follows. */
struct gw_decision {
    uint64_t number;     /* from 1, without gaps */
    uint32_t stands_for; /* passed: so many, of which `number` is the last; else
                            0, which is 1 */
    uint8_t kind;
    uint8_t reason; /* end: enum gw_end_reason; cut: 1 if it is the best;
                       resume: 1 if the ranks score the test set first */
    uint8_t apply;  /* step: 1 apply, 0 skip */
    uint64_t clock;
    /* step: clip factor, loss scale for the next step, gradient norm;
       trust: one ratio per key; score: loss, accuracy; split: each rank's
       weight (split.h); of the coordinator: of as many as there are clocks */
    const double *values;
    uint32_t values_n;
    const uint32_t *ranks; /* step: who sent something non-finite;
                              count: who counts, in order */
    uint32_t ranks_n;
    const uint64_t *clocks; /* each push: the clock of each rank at which it
                               holds; none: `clock` for all. Switch: where the
                               ranks stand, which are at `clock` from then on.
                               Splits of the coordinator: from which on each
                               holds. Passed: + 1, 0 for none, the last clock in
                               which the worker counts, and the last in which it
                               does not */
    uint32_t clocks_n;
    const char *policy; /* switch: the word */
};

/*
 * While a drain goes on, of a shard of which no rank has pushed a part of a
 * clock: where each rank stands, and which of them wait for weights here. A
 * rank that waits at the same clock everywhere will push nothing more.
 */
struct gw_settled {
    uint64_t decision;      /* number of the drain */
    const uint64_t *clocks; /* [ranks] the next clock of each */
    uint32_t clocks_n;
    const uint32_t *blocked; /* ranks, in order */
    uint32_t blocked_n;
};

/* Whether the coordinator acts on a decision, and is told of it: not of those
   that each step has, but of who counts, for as long as it keeps up. */
int gw_decision_is_of_each_step(const struct gw_decision *decision);

/* backup: all of these ranks' pushes of this clock to this shard are here, in
   the order in which they became so. */
struct gw_arrived {
    uint64_t clock;
    const uint32_t *ranks;
    uint32_t ranks_n;
};

/*
 * Between workers of a host: first the words by which the other's device finds
 * the gradients and the weights of the sender's (kernels.h, show; none: it has
 * no such device), and by which it finds numbers of a nonce that were left to
 * be tried; then, when all have said them, whether the sender's finds all of
 * theirs and reads the numbers right.
 */
#define GW_SIGHT_WORDS_MAX 88
enum gw_sees {
    GW_SIGHT_WORDS, /* not yet: here are words */
    GW_SIGHT_BLIND,
    GW_SIGHT_SEES
};
struct gw_sight_words {
    uint8_t byte[GW_SIGHT_WORDS_MAX];
    uint32_t n; /* 0: there are none */
};
struct gw_sight {
    enum gw_sees verdict;
    struct gw_sight_words gradients, weights, trial;
    uint64_t nonce; /* of the trial's numbers */
};

/* speed: how fast a worker computes, as far as it has not waited. */
struct gw_speed {
    uint64_t clock; /* the first step that it was measured in */
    double samples_per_s;
};

/* A shard's part of a decision; `values` begin at its chunk number `first`. */
struct gw_vote {
    uint64_t clock;
    uint8_t phase; /* 1: square sums of the gradient; 2: of weights and
                      directions, two values per chunk */
    uint32_t first, total;
    uint64_t samples;
    const double *values;
    uint32_t values_n;
    const uint32_t *bad_ranks;
    uint32_t bad_ranks_n;
};

/* A worker's part of an evaluation. */
struct gw_score {
    uint64_t clock;
    double loss; /* sum over samples */
    uint64_t correct, samples;
};

struct gw_report {
    uint64_t clock;
    double loss; /* sum over samples; servers: 0 */
    uint64_t samples, correct;
    uint64_t rss_bytes;
    const uint64_t *counters; /* of the counter table, in its order */
    uint32_t counters_n;
    const uint64_t *staleness; /* workers: chunks that were applied when that
                                  many updates had been made in between */
    uint32_t staleness_n;
    uint64_t decision; /* the last that the sender had followed */
};

/* "Report this step too": none has been logged for as long as log.every says. A
   worker that has it behind it, or for which it is not one, need not. */
struct gw_poll {
    uint64_t clock;
};

struct gw_stop {
    const char *text; /* who asks, for the log */
};

struct gw_saved {
    uint64_t clock;
    enum gw_status status;
    const char *file; /* name within the checkpoint's directory */
    uint64_t bytes;
    uint8_t sha256[GW_DIGEST_BYTES];
    const char *text; /* what failed, where status is not GW_OK */
};

struct gw_stored {
    uint64_t clock;
    uint8_t ok;
};

/* "The job is over": why, in one line, and with which exit status. */
struct gw_end {
    enum gw_status status;
    uint64_t clock;
    const char *text;
};

struct gw_bye {
    uint64_t clock;
    int has_sha256;
    uint8_t sha256[GW_DIGEST_BYTES]; /* rank 0: of the weights */
    uint64_t rss_bytes;
    const uint64_t *counters;
    uint32_t counters_n;
};

struct gw_stall {
    uint64_t clock;
    double seconds;
    const char *text;
    uint8_t stuck; /* the text is of a peer that the sender dials in vain, ""
                      when it is there; nothing else is said */
};

/* A worker or a shard has broken the protocol on a link to the sender, which is
   closed. */
struct gw_fault {
    uint8_t role;
    uint32_t id; /* rank or number */
    const char *text;
};

/*
 * Files for members that do not see checkpoint.dir: workers, and shards on
 * other hosts; the coordinator reads and writes them for them. A member has one
 * request at a time, numbered; what carries another number is stale.
 *
 * Writing: FILE_OPEN with the size. FILE_REPLY gives a window and says how much
 * is written; the member may be ahead of that by the size of the window. Byte p
 * of the file goes to p modulo that size, and the put's clock is p. After a
 * link broke the member begins again at what was said to be written. A reply
 * with all bytes written means that the file is safe.
 *
 * Reading: FILE_OPEN with a range and a window, answered by a put there, its
 * clock the offset; a range of no bytes is answered by a FILE_REPLY with the
 * size of the file. After a link broke the member asks again.
 *
 * The count of a put is the request's number.
 */
struct gw_file_open {
    const char *name; /* within the directory of the checkpoint */
    uint64_t clock;   /* of the checkpoint */
    uint8_t write;
    uint64_t offset, bytes;
    uint32_t window; /* reading: of the member */
    uint32_t request;
};

struct gw_file_reply {
    enum gw_status status;
    const char *text; /* what failed */
    uint64_t offset;  /* writing: bytes that are written */
    uint64_t bytes;   /* of the window; reading: of the file */
    uint32_t window;  /* writing: of the coordinator */
    uint32_t request;
};

/* What an observer asks the coordinator for; the answer has GW_ASK_NONE. */
enum gw_ask {
    GW_ASK_NONE,
    GW_ASK_STATUS, /* members and counters, for people */
    GW_ASK_JOB,    /* the text of the job file, defaults filled in */
};

struct gw_status_message {
    uint8_t request; /* enum gw_ask */
    const char *text;
    enum gw_status status; /* answer to a REQUEST: GW_OK, and `text` says what
                              will happen, or GW_EREFUSED, and it says why */
};

/* What the job's user wants of a running job. The coordinator takes it from an
   observer of its own host only, answers with a STATUS, and passes on to shard
   0 what is decided there. */
enum gw_request_kind {
    GW_REQUEST_POLICY = 1, /* another policy, where all chunks have one clock */
    GW_REQUEST_CHECKPOINT, /* a cut at the next clock where one can be */
    GW_REQUEST_STOP,       /* the end, as a signal asks for it */
};

struct gw_request {
    uint8_t kind;     /* enum gw_request_kind */
    const char *text; /* policy: the word; others: "" */
};

struct gw_message {
    enum gw_message_kind kind;
    union {
        struct gw_join join;
        struct gw_welcome welcome;
        struct gw_declare declare;
        struct gw_view view;
        struct gw_start start;
        struct gw_ready ready;
        struct gw_window_open window;
        struct gw_decision decision;
        struct gw_vote vote;
        struct gw_score score;
        struct gw_report report;
        struct gw_stop stop;
        struct gw_saved saved;
        struct gw_stored stored;
        struct gw_end end;
        struct gw_bye bye;
        struct gw_stall stall;
        struct gw_file_open file_open;
        struct gw_file_reply file_reply;
        struct gw_status_message status;
        struct gw_settled settled;
        struct gw_arrived arrived;
        struct gw_request request;
        struct gw_speed speed;
        struct gw_poll poll;
        struct gw_sight sight;
        struct gw_fault fault;
    };
};

/* Fixed memory for decoding; big enough for any 64 KiB message. */
#define GW_CONTROL_ARENA_BYTES ((size_t)768 << 10)

struct gw_control_arena {
    size_t used;
    _Alignas(16) uint8_t bytes[GW_CONTROL_ARENA_BYTES];
};

const char *gw_message_name(enum gw_message_kind kind);

/*
 * Bytes of a message, at most GW_MESSAGE_BYTES_MAX; GW_ERANGE if it is larger
 * or room is too small. *bytes_p is set on GW_OK. `arena` is scratch.
 */
enum gw_status gw_message_encode(const struct gw_message *message,
                                 struct gw_control_arena *arena,
                                 uint8_t *out,
                                 size_t room,
                                 size_t *bytes_p);

/*
 * Reads a message; whatever it points to lies in `arena` and lasts until the
 * arena's next use. GW_EPROTO for bytes that are no message of ours; *message
 * is set only on GW_OK. No allocation.
 */
enum gw_status gw_message_decode(const uint8_t *bytes,
                                 size_t n,
                                 struct gw_control_arena *arena,
                                 struct gw_message *message);

#endif
