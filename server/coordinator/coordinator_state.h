/*
 * Inside the coordinator: what its files share.
 *
 *   coordinator.c         opening, messages, closing
 *   coordinator_ctl.c     what the user wants of a running job
 *   coordinator_join.c    who is there: ranks, shards, views, keys
 *   coordinator_decline.c members that say that they cannot come
 *   coordinator_group.c   which workers sum before they push
 *   coordinator_run.c     reports, scores, decisions
 *   coordinator_ahead.c   reports that are here before the decisions
 *   coordinator_tell.c    the view, keys and the start, to all of them
 *   coordinator_fault.c   what is wrong with a decision
 *   coordinator_split.c   speed: how steps are divided
 *   coordinator_switch.c  from one policy to the next
 *   coordinator_watch.c   what is waited for, and for how long
 *   coordinator_strangers.c  who has logged in and is no member
 *   coordinator_end.c     stopping, dying, the final report
 *   coordinator_look.c    where --resume would go on
 *   coordinator_origin.c  the checkpoint that a job goes on from
 *   coordinator_keep.c    checkpoints: files in, manifest last
 *   coordinator_inner.c   workers' own optimizers in them
 *   coordinator_files.c   files of members that do not see checkpoint.dir
 */
#ifndef GW_SERVER_COORDINATOR_STATE_H
#define GW_SERVER_COORDINATOR_STATE_H

#include "proto/policy.h"
#include "server/coordinator/coordinator.h"
#include "server/checkpoint/manifest.h"
#include "server/policy/regime.h"
#include "transport/link/backlog.h"
#include "transport/member/member.h"

enum gw_phase {
    GW_PHASE_GATHERING, /* members come */
    GW_PHASE_STARTING,  /* all are here: shards make or load their weights */
    GW_PHASE_RUNNING,
    GW_PHASE_ENDING, /* END is out; members leave */
    GW_PHASE_OVER,
};

struct gw_cut;
struct gw_decline;
struct gw_manifest;
struct gw_served;

/* The messages that a member has been told, of those that all are. */
struct gw_telling {
    struct gw_coordinator *self;
    uint32_t number;              /* among all members */
    const struct gw_roster *next; /* the first that it has not been told of */
    uint32_t members, keys;       /* that it has */
    int started;
};

/* A worker, or a shard of a server process. */
struct gw_roster {
    struct gw_peer *peer;
    struct gw_telling telling;
    struct gw_served *served; /* files, where it does not see them */
    uint8_t role;
    uint32_t id;     /* rank or shard */
    uint32_t server; /* number of the server process */
    char host[64];
    char address[GW_ADDRESSES_MAX];
    uint64_t process, machine, incarnation;
    struct gw_secret secret;
    struct gw_need need;
    uint32_t pid, threads, thread;
    char device[128];           /* worker: what computes, */
    char tuned[GW_TUNED_BYTES]; /* and which ways its products take */
    int declared, ready, bye;
    char fault[GW_PEER_FAULT_MAX + 64]; /* how it broke the protocol last, */
    uint64_t fault_us;                  /* and when; 0: it did not */
    unsigned faults;
    int shares;      /* worker: others of its host can see its gradients */
    char stuck[320]; /* whom it cannot reach, and why; "": nobody */
    int stuck_told;
    uint64_t rss_bytes;
    struct gw_metrics_snapshot counters;
    uint64_t clocks; /* each push: that it has told of, from its first on */
    struct gw_roster *next;
};

/* What the workers say of one step, until all have. */
struct gw_gather {
    uint64_t clock; /* + 1; 0: unused */
    uint32_t n;
    struct gw_score *part; /* [workers] */
    uint8_t *has;
};

#define GW_GATHERS 64

/* backup: who counts in a step. */
struct gw_counted {
    uint64_t clock;  /* + 1; 0: unused */
    uint8_t *counts; /* [workers] */
};

/* Where each push makes a version: what workers say, each at its own pace. */
struct gw_gather_each {
    uint64_t *first;                /* [workers] the clock each begins with */
    struct gw_score sum;            /* since the last step was told */
    uint64_t told;                  /* step / cadence.steps, + 1 */
    uint64_t told_step;             /* the last that was */
    struct gw_staleness *staleness; /* [workers] so far */
};

/* Members that came to say that they cannot join. */
struct gw_declined {
    uint64_t at_us;   /* when one last did, or joined in place of another; 0:
                         there is none in whose place nobody has joined */
    uint64_t machine; /* of the last one, */
    uint32_t pid;
    char text[400];          /* who it is, and why */
    struct gw_decline *list; /* in whose place nobody has joined */
    size_t n;
    struct gw_log_limit limit;
};

/* A look at checkpoint.dir when the job ends. */
struct gw_look {
    struct gw_coordinator *self; /* NULL: it was not begun */
    void (*told)(struct gw_coordinator *self);
    struct gw_work work;
    struct gw_timer timer;
    int is_going_on;
    int has_seen; /* else there was no answer in time */
    int is_there; /* a checkpoint is: */
    uint64_t clock;
};

/* How steps come on, as the watch sees it. */
struct gw_pace {
    uint64_t clocks;     /* of all workers together */
    uint64_t moved_us;   /* when that last grew */
    uint64_t longest_us; /* that it took to */
};

struct gw_ahead;
struct gw_keeper;
struct gw_origin;
struct gw_splitter;

struct gw_coordinator {
    struct gw_coordinator_options options;
    const struct gw_config *config;
    struct gw_loop *loop;
    struct gw_log *log;
    struct gw_log_limit limit; /* of lines that strangers provoke */
    struct gw_member *member;
    enum gw_phase phase;
    char *job_text;
    int has_local;       /* it listens at options.local */
    uint64_t silence_us; /* that everybody bears; known when all are here */

    struct gw_roster *roster;
    uint32_t workers, servers, shards; /* joined so far; shards of all */
    uint32_t declared, ready;
    uint64_t *server_process; /* [cluster.servers] */
    uint32_t *groups;         /* sizes of blocks of ranks, see start.groups */
    struct gw_declined declined;
    int ranks_asked; /* a worker has asked for its own */

    struct gw_roster **seat;   /* [workers + shards], when all are here */
    struct gw_backlog telling; /* of them, who may be told more */
    struct gw_start start;     /* what they are told at last */

    /* what rank 0 declared */
    struct gw_declare declare;
    struct gw_key *keys;
    uint32_t keys_seen;
    int has_declare;

    struct gw_decision_state state; /* where the job begins */
    uint64_t step;                  /* the furthest step known */
    uint64_t skips, last_skip;      /* since base_clock; the last of all */
    uint64_t end_clock;
    uint64_t cut_clock; /* of the last cut: the end is saved there */
    int has_cut;        /* there is one, or the job goes on from there */
    int end_reason;
    int end_decided;
    struct gw_gather gather[GW_GATHERS];
    struct gw_counted counted[GW_GATHERS]; /* backup: at clock % GW_GATHERS */
    struct gw_gather_each gather_each;
    struct gw_cadence cadence; /* log.every */
    uint64_t logged_us;        /* when a step was last told */
    uint64_t polled;           /* step + 1 that is asked for; 0: none */
    uint64_t decided; /* the number of the last decision that is here */
    struct gw_ahead *ahead, **ahead_end; /* reports that know of more: */
    size_t ahead_n;
    int expects_inner; /* workers may have files in checkpoints */
    int asked;         /* for a policy that is not decided yet: */
    struct gw_policy_word asked_word; /* the last one */

    struct gw_regime regime; /* the policy that holds */
    uint64_t base_clock;     /* where it began */
    uint64_t base_pushes;    /* that were applied by then */
    uint64_t renumbered;     /* the last decision that numbered clocks anew */
    struct gw_coming {       /* what is decided to hold from */
        struct gw_regime regime;
        uint64_t clock; /* this clock on; UINT64_MAX: nothing is */
        uint64_t pushes;
    } next, after; /* two where phases are of one exchange */
    /* as many that held before, the last one first: workers may tell of steps
       under the next policy while a cut, or a step of another worker, before it
       is still on its way */
    struct gw_coming past[2];
    struct gw_final_report final;
    char final_text[GW_ERROR_TEXT_BYTES];

    struct gw_timer end_timer;
    struct gw_look look;
    struct gw_timer watch;
    uint64_t progress;          /* grows with what was waited for */
    uint64_t moved_us, told_us; /* when it grew, when a line last said so */
    int is_stopping;            /* asked to, and it has not ended; */
    int stop_told;              /* what it waits for has been said */
    uint64_t stop_told_us;
    struct gw_pace pace;
    struct gw_origin *origin;
    struct gw_keeper *keeper;
    struct gw_splitter *splitter; /* NULL where parts are even */
};

struct gw_roster *gw_roster_of(struct gw_coordinator *self,
                               const struct gw_peer *peer);
struct gw_roster *
gw_roster_find(struct gw_coordinator *self, uint8_t role, uint32_t id);
void gw_coordinator_tell(struct gw_coordinator *self,
                         struct gw_peer *peer,
                         const struct gw_message *message);
void gw_coordinator_note(struct gw_coordinator *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gw_coordinator_warn(struct gw_coordinator *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* coordinator_ctl.c */
void gw_coordinator_requested(struct gw_coordinator *self,
                              struct gw_peer *peer,
                              const struct gw_request *request);

/* coordinator_tell.c: all are here: they are told who that is; and go on where
   the start is made. GW_ENOMEM. */
enum gw_status gw_coordinator_tell_all(struct gw_coordinator *self);
void gw_coordinator_tell_on(struct gw_coordinator *self);
void gw_coordinator_tell_close(struct gw_coordinator *self);

/* coordinator_join.c */
void gw_coordinator_joined(struct gw_coordinator *self,
                           struct gw_peer *peer,
                           const struct gw_join *join);
void gw_coordinator_declared(struct gw_coordinator *self,
                             struct gw_roster *who,
                             const struct gw_declare *declare);
void gw_coordinator_ready(struct gw_coordinator *self, struct gw_roster *who);
void gw_coordinator_forget(struct gw_coordinator *self);

/* coordinator_decline.c: the sender cannot join. It is heard once,
   gw_decline_is_of from then on, and its links are closed when it knows that.
 */
void gw_decline(struct gw_coordinator *self,
                struct gw_peer *peer,
                const struct gw_join *join);
int gw_decline_is_of(const struct gw_peer *peer);
/* A member has joined, perhaps in the place of one of the same host. */
void gw_decline_replaced(struct gw_coordinator *self,
                         const struct gw_roster *who);
/* Ends the job where nobody comes any more. Called often. */
void gw_decline_judge(struct gw_coordinator *self, uint64_t now);
void gw_decline_close(struct gw_coordinator *self);

/* coordinator_group.c: the rank of a worker that asks for none, and meets
   others at that address. One is free. */
uint32_t gw_coordinator_free_rank(struct gw_coordinator *self,
                                  const char *address);
/* For the start. GW_ENOMEM. */
enum gw_status gw_coordinator_group(struct gw_coordinator *self,
                                    struct gw_start *start,
                                    struct gw_error *error);

/* coordinator_run.c */
enum gw_status gw_coordinator_run_open(struct gw_coordinator *self,
                                       struct gw_error *error);
void gw_coordinator_run_close(struct gw_coordinator *self);
void gw_coordinator_report_act(struct gw_coordinator *self,
                               struct gw_roster *who,
                               const struct gw_report *report);
void gw_coordinator_decided(struct gw_coordinator *self,
                            const struct gw_decision *decision);
void gw_coordinator_stalled(struct gw_coordinator *self,
                            struct gw_roster *who,
                            const struct gw_stall *stall);

/* No step is told for longer than log.every allows: asks for the one that is
   going on. Called often, while the job runs. */
void gw_coordinator_poll(struct gw_coordinator *self, uint64_t now);

/* coordinator_fault.c: what is wrong with the decision, in words; NULL:
   nothing, as far as is known here. */
const char *gw_coordinator_fault(const struct gw_coordinator *self,
                                 const struct gw_decision *decision);
/* The same of a worker's report, once all that its sender knew is known. */
const char *gw_coordinator_report_fault(const struct gw_coordinator *self,
                                        const struct gw_report *report);
/* Whether steps that all take together never come to this one. */
int gw_coordinator_is_beyond(const struct gw_coordinator *self, uint64_t clock);

/* coordinator_ahead.c: acts on the report when all that its sender knew is
   known here. `recheck` after each decision, and when the job ends. */
void gw_ahead_open(struct gw_coordinator *self);
void gw_ahead_close(struct gw_coordinator *self);
void gw_coordinator_reported(struct gw_coordinator *self,
                             struct gw_roster *who,
                             const struct gw_report *report);
void gw_ahead_recheck(struct gw_coordinator *self);

/* coordinator_split.c: opened when it is known where the job begins. GW_ENOMEM,
   and what gw_splits_read fails with. */
enum gw_status gw_splitter_open(struct gw_coordinator *self,
                                struct gw_error *error);
void gw_splitter_close(struct gw_coordinator *self);
/* Non-zero when shard 0 has all splits that it is to repeat; else it is being
   told, and `again` is called to ask again, unless the job ends. */
int gw_splitter_hand_over(struct gw_coordinator *self,
                          void (*again)(struct gw_coordinator *self));
/* The split with which the job begins: for members, and told as an event. */
void gw_splitter_fill_start(struct gw_coordinator *self,
                            struct gw_start *start);
void gw_splitter_decided(struct gw_coordinator *self,
                         const struct gw_decision *decision);
/* The split in force at `clock`, the last decided one or the one before. */
void gw_splitter_fill_cut(const struct gw_coordinator *self,
                          uint64_t clock,
                          struct gw_manifest *manifest);
/* [workers] samples of the parts of a step, until the next call; NULL where
   they are even, or `part` is. */
const uint64_t *gw_splitter_samples(struct gw_coordinator *self,
                                    const struct gw_score *part);

/* coordinator_switch.c */
void gw_coordinator_switch(struct gw_coordinator *self,
                           const struct gw_decision *decision);
/* The job has come to this clock, perhaps to where another policy begins. */
void gw_coordinator_switch_reached(struct gw_coordinator *self, uint64_t clock);
/* What held at a clock, or will, as far as is known: three policies back. */
const struct gw_regime *
gw_coordinator_regime_at(const struct gw_coordinator *self, uint64_t clock);
/* The word that holds by what heartbeats say, which may be long before a step
   is told; *last_p: nothing else is decided to follow it. */
const struct gw_policy_word *
gw_coordinator_word(const struct gw_coordinator *self, int *last_p);

/* coordinator_watch.c: from here on, until the phase is over */
void gw_coordinator_watch(struct gw_coordinator *self);
/* The cause of the wait that is told: "; worker 1 (b) cannot reach ...", of one
   for all; "": nothing is known. */
#define GW_STUCK_BYTES 512
void gw_coordinator_stuck_words(const struct gw_coordinator *self,
                                char words[GW_STUCK_BYTES]);
/* The step of the worker that is furthest behind, by heartbeats. */
uint64_t gw_coordinator_least(const struct gw_coordinator *self);
/* It was asked to stop: steps are waited for as well now. */
void gw_coordinator_watch_stop(struct gw_coordinator *self);

/* coordinator_strangers.c: one more has logged in, which has its place; and
   from time to time, as the watch goes. */
void gw_strangers_make_room(struct gw_coordinator *self,
                            const struct gw_peer *newest);
void gw_strangers_expire(struct gw_coordinator *self, uint64_t now);

/* coordinator_end.c */
void gw_coordinator_end(struct gw_coordinator *self,
                        enum gw_status status,
                        const char *format,
                        ...) __attribute__((format(printf, 3, 4)));
/* A member has broken the protocol; `where`: at which other one, "" for here.
 */
void gw_coordinator_faulted(struct gw_coordinator *self,
                            struct gw_roster *who,
                            const char *where,
                            const char *what);
void gw_coordinator_bye(struct gw_coordinator *self,
                        struct gw_roster *who,
                        const struct gw_bye *bye);
void gw_coordinator_lost(struct gw_coordinator *self,
                         struct gw_peer *peer,
                         enum gw_status status,
                         const char *why);
/* A member cannot go on. */
void gw_coordinator_failed(struct gw_coordinator *self,
                           const struct gw_peer *peer,
                           const struct gw_end *end);
void gw_coordinator_maybe_done(struct gw_coordinator *self);
/* After a stop nothing has come on for so long; `what` is waited for. */
void gw_coordinator_stop_in_vain(struct gw_coordinator *self,
                                 double waited_s,
                                 const char *what);

/* coordinator_look.c: `told` is called once, unless it is closed before; then
   `print` has the words that follow how the job ended. */
void gw_look_begin(struct gw_coordinator *self,
                   void (*told)(struct gw_coordinator *self));
void gw_look_print(const struct gw_coordinator *self, char *text, size_t room);
void gw_look_close(struct gw_coordinator *self);

/*
 * coordinator_origin.c: opening it finds where the job begins, and holds the
 * directories until it is closed. GW_ENOMEM, what gw_begin_find and
 * gw_begin_check_empty fail with, and what a disk does.
 */
enum gw_status gw_origin_open(struct gw_coordinator *self,
                              struct gw_error *error);
void gw_origin_close(struct gw_coordinator *self);
/* checkpoint.dir, where there is one, and the directory that the job goes on
   from, where it does: entered, until the origin is closed. Thread: any. */
struct gw_disk *gw_origin_dir(struct gw_coordinator *self);
struct gw_disk *gw_origin_resume_dir(struct gw_coordinator *self);
/* Before the start: does the checkpoint fit what the workers declare? */
enum gw_status gw_origin_check(struct gw_coordinator *self,
                               struct gw_error *error);
/* What a worker had tuned, where the job goes on; "": nothing. */
const char *gw_origin_tuned(const struct gw_coordinator *self,
                            const struct gw_roster *who);
void gw_origin_fill_start(struct gw_coordinator *self, struct gw_start *start);
/* Where the job goes on, all zero where it begins; and the clock with which a
   rank does, once workers have declared their course. */
struct gw_course_cut gw_origin_cut(const struct gw_coordinator *self);
uint64_t gw_origin_first_clock(const struct gw_coordinator *self,
                               uint32_t rank);
/* The split that the job goes on with, [workers]; 0 where there is none. */
int gw_origin_first_split(const struct gw_coordinator *self, uint32_t *weight);
/* Whether a file is part of what the job goes on from, and the member's to
   read. */
int gw_origin_may_read(const struct gw_coordinator *self,
                       const struct gw_roster *who,
                       uint64_t clock,
                       const char *name);

/* coordinator_keep.c: opened when it is known where the job begins */
enum gw_status gw_keeper_open(struct gw_coordinator *self,
                              struct gw_error *error);
void gw_keeper_close(struct gw_coordinator *self);
void gw_keeper_cut(struct gw_coordinator *self,
                   const struct gw_decision *decision,
                   const struct gw_cut *what);
void gw_keeper_saved(struct gw_coordinator *self,
                     struct gw_roster *who,
                     const struct gw_saved *saved);
/* Non-zero when a checkpoint of `clock` is complete, or none are made. */
int gw_keeper_has(const struct gw_coordinator *self, uint64_t clock);
/* The file that a member writes; and whether that is `name`, and is waited for
   in the checkpoint of `clock`. */
void gw_keeper_file_of(const struct gw_coordinator *self,
                       const struct gw_roster *who,
                       char name[GW_FILE_NAME_MAX]);
int gw_keeper_awaits(struct gw_coordinator *self,
                     const struct gw_roster *who,
                     uint64_t clock,
                     const char *name);
/* Non-zero while a checkpoint that is decided is being made; what it waits for,
   in words; and a number that grows as it comes on. */
int gw_keeper_is_busy(const struct gw_coordinator *self);
void gw_keeper_awaited(const struct gw_coordinator *self,
                       char *text,
                       size_t room);
uint64_t gw_keeper_progress(const struct gw_coordinator *self);
/* Non-zero while a manifest is written: that checkpoint may come to be there
   after the job's end, the others do not. */
int gw_keeper_may_finish(const struct gw_coordinator *self);
/* A piece of a file of a member that does not see the directory is written. */
void gw_keeper_grew(struct gw_coordinator *self);

/* coordinator_inner.c */
/* The optimizer that workers run under the policy of this clock and keep state
   of, "" for none. */
const char *gw_inner_at(const struct gw_coordinator *self, uint64_t clock);
/* A word may come to hold: a worker's file may be here before it is known that
   it does. At first those of the job's plan. */
void gw_inner_expect(struct gw_coordinator *self,
                     const struct gw_policy_word *word);
void gw_inner_open(struct gw_coordinator *self);
/* Bytes of a worker's file, at most. */
uint64_t gw_inner_bytes_max(const struct gw_coordinator *self);
/* Whether workers go on with the state that a checkpoint has of them; a line
   where it has some or they need some, and they do not. */
int gw_inner_goes_on(const struct gw_coordinator *self,
                     const struct gw_manifest *from);
void gw_inner_note(struct gw_coordinator *self, const struct gw_manifest *from);

/* coordinator_files.c */
void gw_files_open(struct gw_coordinator *self,
                   struct gw_roster *who,
                   const struct gw_file_open *request);
void gw_files_frame(struct gw_coordinator *self,
                    struct gw_roster *who,
                    const struct gw_frame *frame);
/* After the links are closed. */
void gw_files_close(struct gw_roster *who);

#endif
