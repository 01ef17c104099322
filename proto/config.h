/*
 * The job: every setting of a job file, with its type, default, range and help
 * in one table (config_table.c). The job file has libconfig's syntax; every
 * key can also be given as `--set section.key=value`. Members get the job from
 * the coordinator as text and read it with the same calls.
 *
 * No I/O: callers bring the text. The result is a plain struct. Any thread.
 */
#ifndef GW_PROTO_CONFIG_H
#define GW_PROTO_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "proto/access.h"
#include "proto/policy.h"
#include "proto/status.h"
#include "proto/wire.h"

#define GW_STRING_MAX   256  /* bytes of a string value, with its end */
#define GW_LIST_MAX     64   /* entries of a list */
#define GW_PATH_BYTES   4096 /* bytes of a path, with its end, as in Linux */
#define GW_PATHS_BYTES  (21u << 10) /* all paths of a list, with their ends */
#define GW_JOB_TEXT_MAX (48u << 10)

/* Bounds of cluster.silence. */
#define GW_SILENCE_HOST_US 1000000 /* 0, all on one host */
#define GW_SILENCE_FAR_US  5000000 /* 0, beyond */
#define GW_SILENCE_MIN_US  500000
#define GW_SILENCE_MAX_US  300000000
#define GW_RESTARTS_MAX    100
#define GW_COPIES_MAX      2

struct gw_string_list {
    size_t n;
    char item[GW_LIST_MAX][GW_STRING_MAX];
};

/* Paths, one behind the other. */
struct gw_path_list {
    size_t n;
    char text[GW_PATHS_BYTES];
};

struct gw_number_list {
    size_t n;
    double item[GW_LIST_MAX];
};

/* "500 steps", "2 epochs", "30 seconds" or "never" */
enum gw_every_unit {
    GW_NEVER,
    GW_STEPS,
    GW_EPOCHS,
    GW_SECONDS
};
struct gw_every {
    uint64_t n;
    enum gw_every_unit unit;
};

/* "100 steps, 5 seconds": whichever is first; 0: not that one. Both 0, "auto":
   see gw_config_log_every. */
struct gw_cadence {
    uint64_t steps, seconds;
};

#define GW_EVERY_BYTES   32                       /* text with its end */
#define GW_CADENCE_BYTES (2 * GW_EVERY_BYTES + 2) /* two, and ", " */

enum gw_data_format {
    GW_DATA_IDX,
    GW_DATA_CIFAR10,
    GW_DATA_NPY
};
enum gw_model_kind {
    GW_MODEL_MLP,
    GW_MODEL_CNN,
    GW_MODEL_EXTERNAL /* a program of the user's computes: config_external.c */
};
enum gw_init {
    GW_INIT_HE,
    GW_INIT_GLOROT
};
enum gw_commit {
    GW_COMMIT_AUTO,
    GW_COMMIT_STREAMING,
    GW_COMMIT_WHOLE
};
enum gw_nonfinite {
    GW_NONFINITE_STOP,
    GW_NONFINITE_SKIP,
    GW_NONFINITE_PASS
};
enum gw_arithmetic {
    GW_ARITHMETIC_FULL,
    GW_ARITHMETIC_NONE
};
enum gw_schedule {
    GW_SCHEDULE_CONSTANT,
    GW_SCHEDULE_STEP,
    GW_SCHEDULE_COSINE,
    GW_SCHEDULE_LINEAR
};
enum gw_scale_lr {
    GW_SCALE_LR_NO,
    GW_SCALE_LR_LINEAR
};

struct gw_config {
    struct {
        enum gw_data_format format;
        struct gw_path_list train; /* files; see docs/manual.md, data */
        struct gw_path_list test;
        struct gw_number_list normalize; /* mean, deviation, per channel or
                                            once for all; empty: [0, 1] */
        struct gw_string_list augment;   /* "crop PAD", "flip" */
    } data;
    struct {
        enum gw_model_kind kind;
        struct gw_string_list layers; /* mlp: widths, input and output
                                         included; cnn: "conv 32 5", "pool 2",
                                         "dense 128", "dropout 0.5" */
        enum gw_init init;
        double dropout; /* mlp: after every hidden layer */
    } model;
    struct {
        uint64_t batch;        /* samples per worker and micro-batch, or 0 */
        uint64_t global_batch; /* samples per step over all workers, or 0 */
        uint64_t epochs;       /* exactly one of epochs and steps is not 0,
                                  but both may be where the model is external */
        uint64_t steps;
        uint64_t seed;
        uint64_t accumulate; /* micro-batches per step */
        double clip;         /* global norm, 0: none */
        enum gw_commit commit;
        enum gw_nonfinite nonfinite;
        char split[GW_STRING_MAX];      /* even or speed */
        char split_from[GW_PATH_BYTES]; /* a --json file, "": measure */
        char precision[GW_STRING_MAX];  /* fp32, tf32, bf16, fp16 */
        enum gw_encoding weights;       /* as workers get them; fp32: raw */
        enum gw_arithmetic arithmetic;
        char loss_scale[GW_STRING_MAX]; /* none, dynamic or a number */
        enum gw_scale_lr scale_lr;
        uint64_t base_batch; /* the batch that optimizer.lr is meant for */
        struct gw_every eval_every;
        uint64_t early_stop; /* evaluations without progress, 0: never */
    } train;
    struct {
        char kind[GW_STRING_MAX];
        double lr, momentum, beta1, beta2, eps, weight_decay;
        enum gw_schedule schedule;
        uint64_t warmup;     /* steps of linear warm-up */
        double final_lr;     /* cosine and linear end here, as a factor of lr */
        uint64_t step_every; /* step: steps between decays */
        double step_factor;
    } optimizer;
    struct {
        char device[GW_STRING_MAX]; /* see proto/device.h */
        uint64_t threads;
        int autotune;
        int gpudirect;
        int pin;
    } worker;
    struct {
        uint64_t threads; /* shards per server process */
        int pin;
    } server;
    struct {
        uint64_t workers, servers;
        uint64_t copies;                       /* of each shard */
        char policy[GW_STRING_MAX];            /* a plan, see proto/policy.h */
        char transport[GW_STRING_MAX];         /* auto, tcp, sim */
        char local_reduction[GW_STRING_MAX];   /* auto, on, host, off */
        uint64_t port;                         /* the coordinator's, 0: any */
        char interface[GW_STRING_MAX];         /* names or addresses to bind */
        char control_interface[GW_STRING_MAX]; /* a single one, for traffic with
                                                  the coordinator */
        int insecure;
        uint64_t connections; /* per pair of processes; 0: see
                                 gw_config_connections */
        double silence;       /* seconds; 0: see gw_config_silence_us */
        double step_deadline; /* seconds without progress before a report */
        double abort_after;   /* seconds without progress, 0: never */
        uint64_t restarts;    /* in ten minutes, by a launcher */
        double patience;      /* seconds without a worker of a rank */
    } cluster;
    struct {
        double scale;  /* factor of lr for each push; 0: 1 / workers */
        double lambda; /* dc-async; 0: 0.04, adaptive 2 */
        int adaptive;
        double decay, eps;         /* dc-async, adaptive */
        double alpha;              /* easgd; 0: 0.9 / workers */
        char inner[GW_STRING_MAX]; /* auto: optimizer.kind */
        double inner_clip;         /* norm of a worker's gradient, 0: any */
        char outer[GW_STRING_MAX]; /* auto: local sgd, diloco nesterov */
        double outer_lr;           /* 0: local 1, diloco 0.7 */
        double outer_momentum;
        uint64_t fragments; /* diloco: parts of the model */
        uint64_t overlap;   /* diloco: steps from sending to merging */
        double mix;         /* diloco: weight of the worker's own value */
    } policy;
    struct {
        char dir[GW_PATH_BYTES]; /* empty: no checkpoints */
        struct gw_every every;
        uint64_t keep;
        enum gw_access access;
    } checkpoint;
    struct {
        char dir[GW_PATH_BYTES]; /* empty: members log to stderr */
        struct gw_cadence every; /* how often a step is told */
        char level[GW_STRING_MAX];
        enum gw_access access;
    } log;
};

enum gw_config_type {
    GW_TYPE_BOOL,   /* int */
    GW_TYPE_COUNT,  /* uint64_t */
    GW_TYPE_REAL,   /* double */
    GW_TYPE_STRING, /* char[GW_STRING_MAX] */
    GW_TYPE_PATH,   /* char[GW_PATH_BYTES], shorter than key->max if that is set
                     */
    GW_TYPE_CHOICE, /* enum, index into `choices` */
    GW_TYPE_EVERY,  /* struct gw_every */
    GW_TYPE_CADENCE, /* struct gw_cadence; a number is of steps */
    GW_TYPE_STRINGS, /* struct gw_string_list; numbers are accepted */
    GW_TYPE_PATHS,   /* struct gw_path_list */
    GW_TYPE_NUMBERS, /* struct gw_number_list */
};

/* One key. `local` keys may differ per host; the others are equal in the whole
   job. `own` keys are local ones that no other host is told. */
struct gw_config_key {
    const char *name; /* "train.batch" */
    enum gw_config_type type;
    size_t offset;        /* into struct gw_config */
    const char *fallback; /* the default, as the value in gw_config_set */
    double min, max;      /* range of counts, reals and list items */
    const char *choices;  /* values of choices and limited strings:
                             "idx|cifar10"; NUMBER stands for a number within
                             min..max */
    /* for strings with a grammar of their own: GW_EUSAGE with the fault and the
       words that may stand there; NULL: any text will do */
    enum gw_status (*check)(const char *text, struct gw_error *error);
    int words; /* the grammar has words only; they are kept in lower case */
    int local, own;
    const char *rival; /* the key that says the same in another unit: one of the
                          two is 0. NULL: there is none */
    const char *help;
};

/* Every key, in the order of the manual; *n_p of them. */
const struct gw_config_key *gw_config_keys(size_t *n_p);

/* The key called `name` ("train.batch"), in any case of its letters; NULL when
   there is none. */
const struct gw_config_key *gw_config_find(const char *name);

/* The first key of `section` ("train"), NULL when no section is called that. */
const struct gw_config_key *gw_config_find_section(const char *section);

/* Bytes of a key's name before the dot. */
size_t gw_config_section_bytes(const struct gw_config_key *key);

/* The known key nearest to `name`, for a message about a wrong one. */
const char *gw_config_nearest(const char *name);

/*
 * The values that the key takes, in words: "whole number, 0..1000000", "idx,
 * cifar10 or npy". Returns the bytes needed without the end; writes at most
 * text_bytes, always ended.
 */
size_t gw_config_describe(const struct gw_config_key *key,
                          char *text,
                          size_t text_bytes);

/* All defaults. */
void gw_config_default(struct gw_config *config);

/*
 * Reads a job file's text over *config. `file` is used in messages only. The
 * text is at most GW_JOB_TEXT_MAX bytes long and may come from a peer: it
 * cannot include other files.
 * GW_EUSAGE with "file:line: section.key: ..." for a syntax error, an unknown
 * key (names the nearest known one), a key given twice, a wrong type, a value
 * out of range (says the range). *config is undefined on failure.
 */
enum gw_status gw_config_parse(struct gw_config *config,
                               const char *file,
                               const char *text,
                               struct gw_error *error);

/*
 * The sections that are missing in a job file's text, "worker, policy": a file
 * that was cut off behind a section is a valid job. Returns how many; `absent`
 * is cut to fit.
 */
#define GW_ABSENT_BYTES 128
size_t gw_config_absent(const char *text, char absent[GW_ABSENT_BYTES]);

/*
 * One "section.key=value", the value as in a job file, but quotes are optional,
 * and a list may be written with commas alone: "model.layers=784,512,10". Where
 * the key has a rival, the later word wins: a value that is not 0 makes the
 * rival's 0. GW_EUSAGE with "section.key: ...".
 */
enum gw_status gw_config_set(struct gw_config *config,
                             const char *assignment,
                             struct gw_error *error);

/* The rival of the key that `assignment` sets, and its value; NULL if it has
   none. Asked before and after gw_config_set, it tells if a value was
   displaced. */
const struct gw_config_key *gw_config_rival(const struct gw_config *config,
                                            const char *assignment,
                                            uint64_t *value_p);

/*
 * Checks between keys: exactly one of batch and global_batch, of epochs and
 * steps; keys that do not go together; combinations that this version does not
 * support. GW_EUSAGE with a line that names the keys.
 */
enum gw_status gw_config_check(const struct gw_config *config,
                               struct gw_error *error);

/*
 * The same check of a word of cluster.policy that comes while the job runs:
 * GW_EUSAGE when it does not go with the job's other keys; keys that only other
 * words use do not count. GW_ENOMEM.
 */
enum gw_status gw_config_check_word(const struct gw_config *config,
                                    const struct gw_policy_word *word,
                                    struct gw_error *error);

/* Workers and shards of this job, at most. */
uint64_t gw_config_members_max(const struct gw_config *config);

/* Non-zero where a program of the user's computes (model.kind = "external"):
   the job says nothing of its model, data and batches. */
int gw_config_is_external(const struct gw_config *config);

/* The last step of a job that does not say it: jobs end before, when the
   program of rank 0 has no further step. */
#define GW_STEPS_OPEN GW_POLICY_STEP_MAX

/* train.steps, or GW_STEPS_OPEN; 0: the job says epochs. */
uint64_t gw_config_steps(const struct gw_config *config);

/* Path number `i` of n; i = n: where the next one would begin. */
const char *gw_path_at(const struct gw_path_list *list, size_t i);

/* 0: the list has no room for it. */
int gw_path_add(struct gw_path_list *list, const char *path);

/*
 * Makes all relative paths absolute, from `dir`. Absolute paths and empty ones
 * stay, and ".." is kept. GW_EUSAGE: one is too long.
 */
enum gw_status gw_config_root_paths(struct gw_config *config,
                                    const char *dir,
                                    struct gw_error *error);
int gw_config_has_relative(const struct gw_config *config);

/* The reverse, for paths below `dir`. */
void gw_config_unroot_paths(struct gw_config *config, const char *dir);

/* Connections that a worker of this job opens to each shard. */
uint64_t gw_config_connections(const struct gw_config *config);

/* Microseconds of silence after which a member is dead: cluster.silence, or the
   value that 0 stands for, which is less when all members are `within_host`. */
uint64_t gw_config_silence_us(const struct gw_config *config, int within_host);

/* Non-zero when workers of one host may sum their gradients, in a phase of the
   policy at least; when they may do so on devices; and when they do so also
   where that saves the network nothing. */
int gw_config_may_sum(const struct gw_config *config);
int gw_config_may_sum_on_devices(const struct gw_config *config);
int gw_config_sums_anyway(const struct gw_config *config);

/* Non-zero when steps are committed as a whole while `word` holds: asked for by
   train.commit, or needed by clipping, skipping, loss scaling, lamb or backup
   workers. */
int gw_config_whole_step_under(const struct gw_config *config,
                               const struct gw_policy_word *word);

/* The key that needs it then, with its value where that is a word; NULL for
   none. */
const char *gw_config_whole_step_key(const struct gw_config *config,
                                     const struct gw_policy_word *word);

/* optimizer.kind, momentum for auto. Points into the config, or is constant. */
const char *gw_config_optimizer(const struct gw_config *config);

/* Non-zero where the job leaves its optimizer to the program
   (gw_config_is_external). */
int gw_config_optimizer_is_open(const struct gw_config *config);

/* The optimizer of an open job, from here on: a name of gw_optimizers. */
void gw_config_set_optimizer(struct gw_config *config, const char *name);

/* Settings that a program asks for, where its job leaves them open. */
struct gw_program {
    const char *optimizer; /* optimizer.kind; "": the job's */
    double clip;           /* of gw_config_clip_key; 0: the job's */
};

/* The key by which gradients are clipped: policy.inner_clip where workers take
   steps of their own under all policies of the job, else train.clip; and its
   value, 0 for none. */
const char *gw_config_clip_key(const struct gw_config *config);
double gw_config_clip(const struct gw_config *config);

/* Sets what a program asks for, and checks the job with it. GW_EMISMATCH: the
   job has a setting of its own; GW_EUSAGE: a value that it cannot have. */
enum gw_status gw_config_take_program(struct gw_config *config,
                                      const struct gw_program *program,
                                      struct gw_error *error);

/* What gw_config_take_program sets, from a config that has it. */
void gw_config_copy_program(struct gw_config *config,
                            const struct gw_config *from);

/* Non-zero where workers get parts of a step by their speed. */
int gw_config_splits_by_speed(const struct gw_config *config);

/* Section policy while a word holds, with the values that the defaults 0 and
   auto stand for. Names are as in optimizer.kind. */
struct gw_policy_terms {
    double scale, lambda, alpha, outer_lr;
    const char *inner;  /* points into the config, or is constant */
    const char *outer;  /* likewise */
    const char *server; /* the optimizer that servers run: the outer one where
                           workers have their own, else optimizer.kind */
};
struct gw_policy_terms
gw_config_policy_terms(const struct gw_config *config,
                       const struct gw_policy_word *word);

/* log.every, with auto resolved: 100 steps or 5 seconds, 1 second for a
   terminal. Without a number of steps they are UINT64_MAX. */
struct gw_cadence gw_config_log_every(const struct gw_config *config,
                                      int terminal);

/* "100 steps, 5 seconds", "auto"; as in a job file without the quotes. */
void gw_cadence_print(const struct gw_cadence *cadence,
                      char text[GW_CADENCE_BYTES]);

/* "500 steps" or "never", as in a job file without the quotes. */
void gw_every_print(const struct gw_every *every, char text[GW_EVERY_BYTES]);

/*
 * The job as a job file's text that gives the same struct when parsed, every
 * key present, with its help as a comment if `help`. Returns the bytes needed
 * without the end; writes at most text_bytes, always ended.
 */
size_t gw_config_print(const struct gw_config *config,
                       int help,
                       char *text,
                       size_t text_bytes);

/* The value of one key as in a job file, texts without quotes. Returns as
   gw_config_print. */
size_t gw_config_value(const struct gw_config *config,
                       const struct gw_config_key *key,
                       char *text,
                       size_t text_bytes);

/* Copies the `local` keys of *from into *to. */
void gw_config_keep_local(struct gw_config *to, const struct gw_config *from);

/* Sets the `own` keys, which no other host is told, back to their defaults. */
void gw_config_forget_own(struct gw_config *config);

/* A hash of every key that is not local: equal jobs have equal hashes. */
uint64_t gw_config_hash(const struct gw_config *config);

#endif
