/* The one table: every key of a job with its type, default, range and help. */
#include <config.h>

#include "proto/config.h"

#include <string.h>
#include <strings.h>

#include "proto/config_value.h"
#include "proto/device.h"
#include "proto/distance.h"
#include "proto/interfaces.h"
#include "proto/policy.h"

static enum gw_status check_plan(const char *text, struct gw_error *error)
{
    struct gw_policy_plan plan;
    return gw_policy_plan_parse(text, &plan, error);
}

static enum gw_status check_device(const char *text, struct gw_error *error)
{
    struct gw_device_name name;
    return gw_device_parse(text, &name, error);
}

static enum gw_status check_interfaces(const char *text, struct gw_error *error)
{
    struct gw_interfaces list;
    return gw_interfaces_parse(text, &list, error);
}

/* Bytes of a directory's path: names in it and below follow. */
#define GW_DIR_MAX (GW_PATH_BYTES - 256)
static enum gw_status check_interface(const char *text, struct gw_error *error)
{
    struct gw_interfaces list;
    enum gw_status status = gw_interfaces_parse(text, &list, error);
    if (status == GW_OK && list.n > 1)
        return gw_fail(error, GW_EUSAGE, "takes one, %zu are given", list.n);
    return status;
}

#define KEY(key, kind)                                                         \
    .name = #key, .type = kind, .offset = offsetof(struct gw_config, key)

/* clang-format off */
#define BOOL(key, value, text) {KEY(key, GW_TYPE_BOOL),                        \
    .fallback = value, .help = text}
#define COUNT(key, value, low, high, text) {KEY(key, GW_TYPE_COUNT),           \
    .fallback = value, .min = low, .max = high, .help = text}
#define EITHER(key, other, high, text) {KEY(key, GW_TYPE_COUNT),               \
    .fallback = "0", .max = high, .rival = other, .help = text}
#define REAL(key, value, low, high, text) {KEY(key, GW_TYPE_REAL),             \
    .fallback = value, .min = low, .max = high, .help = text}
#define PATH(key, text) {KEY(key, GW_TYPE_PATH), .fallback = "", .help = text}
#define LIMITED(key, value, words, text) {KEY(key, GW_TYPE_STRING),            \
    .fallback = value, .choices = words, .help = text}
#define CHOICE(key, value, words, text) {KEY(key, GW_TYPE_CHOICE),             \
    .fallback = value, .choices = words, .help = text}
#define EVERY(key, value, text) {KEY(key, GW_TYPE_EVERY),                      \
    .fallback = value, .min = 1, .max = 1e15, .help = text}
#define STRINGS(key, text) {KEY(key, GW_TYPE_STRINGS),                         \
    .fallback = "", .help = text}

/* Choices stand in the order of their enum in config.h. */
static const struct gw_config_key keys[] = {
    CHOICE(data.format, "idx", "idx|cifar10|npy",
           "how the files of data.train and data.test are laid out"),
    {KEY(data.train, GW_TYPE_PATHS), .fallback = "", .local = 1,
     .help = "files of the training set: idx and npy images then labels, "
             "cifar10 its batches"},
    {KEY(data.test, GW_TYPE_PATHS), .fallback = "", .local = 1,
     .help = "files of the test set, in the same order"},
    {KEY(data.normalize, GW_TYPE_NUMBERS), .fallback = "",
     .min = -1e6, .max = 1e6,
     .help = "mean and deviation of the pixels in [0, 1], once for all or per "
             "channel; empty: pixels stay in [0, 1]"},
    STRINGS(data.augment,
            "changes to training images: \"crop PAD\" moves by up to PAD "
            "pixels, \"flip\" mirrors every other"),

    CHOICE(model.kind, "mlp", "mlp|cnn|external",
           "family of the model; external: a program of yours computes, over "
           "the C library or Python"),
    STRINGS(model.layers,
            "mlp: widths from input to classes; cnn: \"conv CHANNELS SIZE\", "
            "\"pool SIZE\", \"dense WIDTH\", \"dropout P\""),
    CHOICE(model.init, "he", "he|glorot",
           "deviation of the first weights, drawn from train.seed"),
    REAL(model.dropout, "0", 0, 0.99,
         "mlp: probability of zero after every hidden layer"),

    EITHER(train.batch, "train.global_batch", 1e6,
           "samples per worker and micro-batch; 0: train.global_batch says it"),
    EITHER(train.global_batch, "train.batch", 1e8,
           "samples per step over all workers; 0: train.batch says it"),
    EITHER(train.epochs, "train.steps", 1e6,
           "passes over the training set; 0: train.steps says it"),
    EITHER(train.steps, "train.epochs", 1e12,
           "steps in all; 0: train.epochs says it, or, where the model is "
           "external, the program of rank 0"),
    COUNT(train.seed, "1", 0, 1e18,
          "of first weights, order of samples, augmentation and dropout"),
    COUNT(train.accumulate, "1", 1, 65536,
          "micro-batches whose gradients are summed before a push"),
    REAL(train.clip, "0", 0, 1e9,
         "largest norm of the whole gradient, larger ones are scaled down; "
         "0: any"),
    CHOICE(train.commit, "auto", "auto|streaming|whole",
           "when a chunk is updated: as its pushes are complete, or after one "
           "decision for the whole step"),
    CHOICE(train.nonfinite, "stop", "stop|skip|pass",
           "what a NaN or infinity in a gradient does: end the job, skip the "
           "step, or go through to the weights"),
    LIMITED(train.split, "even", "even|speed",
            "how a step's samples are divided among workers: into equal parts, "
            "or, of train.global_batch, by their speed as it is measured"),
    PATH(train.split_from,
         "speed: a file of a run's --json, whose splits are taken instead of "
           "measuring, so that it is repeated bit for bit; read by the "
           "coordinator; empty: measure"),
    LIMITED(train.precision, "fp32", "fp32|tf32|bf16|fp16",
            "to what a GPU rounds the factors of products; sums and gradients "
            "stay fp32"),
    CHOICE(train.weights, "fp32", "fp32|bf16",
           "as what workers get weights from the servers, which keep fp32: "
           "bf16 is half the bytes, and what is computed with is rounded"),
    CHOICE(train.arithmetic, "full", "full|none",
           "none: nothing is computed and payloads are lengths without bytes, "
           "so that a simulation may be of any size; only there"),
    {KEY(train.loss_scale, GW_TYPE_STRING), .fallback = "none",
     .choices = "none|dynamic|NUMBER", .min = 1e-30, .max = 1e30,
     .help = "factor on the loss that keeps small gradients from vanishing"},
    CHOICE(train.scale_lr, "no", "no|linear",
           "linear: optimizer.lr times global batch over train.base_batch"),
    COUNT(train.base_batch, "256", 1, 1e8,
          "the global batch that optimizer.lr is meant for"),
    EVERY(train.eval_every, "1 epoch", "how often the test set is scored, besides the end"),
    COUNT(train.early_stop, "0", 0, 1e6,
          "stop after so many scores without a better one; 0: never"),

    LIMITED(optimizer.kind, "auto",
            "auto|sgd|momentum|nesterov|adam|adamw|lamb|none",
            "how gradients become weights; none: they are only summed; auto: "
            "momentum, or, where the model is external, as the program says"),
    REAL(optimizer.lr, "0.02", 0, 1e6, "learning rate, after warm-up"),
    REAL(optimizer.momentum, "0.9", 0, 1, "momentum, nesterov: decay of the "
         "velocity"),
    REAL(optimizer.beta1, "0.9", 0, 0.999999999,
         "adam, adamw, lamb: decay of the mean"),
    REAL(optimizer.beta2, "0.999", 0, 0.999999999,
         "adam, adamw, lamb: decay of the mean square"),
    REAL(optimizer.eps, "1e-8", 1e-30, 1,
         "adam, adamw, lamb: added to the root of the mean square"),
    REAL(optimizer.weight_decay, "0", 0, 1e3,
         "adamw, lamb: decoupled; others: added to the gradient"),
    CHOICE(optimizer.schedule, "constant", "constant|step|cosine|linear",
           "how the learning rate goes on after warm-up"),
    COUNT(optimizer.warmup, "0", 0, 1e12,
          "steps in which the learning rate rises from 0"),
    REAL(optimizer.final_lr, "0", 0, 1,
         "cosine, linear: end at this part of optimizer.lr"),
    COUNT(optimizer.step_every, "1000", 1, 1e12,
          "step: steps between two decays"),
    REAL(optimizer.step_factor, "0.1", 0, 1,
         "step: factor on the learning rate at each decay"),

    {KEY(worker.device, GW_TYPE_STRING), .fallback = "auto", .local = 1,
     .check = check_device, .words = 1,
     .help = "what computes: auto (the fastest here), cpu, cuda or cuda:I"},
    {KEY(worker.threads, GW_TYPE_COUNT), .fallback = "1", .local = 1,
     .min = 1, .max = 1024, .help = "threads of a worker's matrix products"},
    {KEY(worker.autotune, GW_TYPE_BOOL), .fallback = "false", .local = 1,
     .help = "time the ways in which a GPU can compute each product, before the "
             "first step, and take the fastest"},
    {KEY(worker.gpudirect, GW_TYPE_BOOL), .fallback = "true", .local = 1,
     .help = "let RDMA devices read gradients in a GPU's memory, where they can"},
    {KEY(worker.pin, GW_TYPE_BOOL), .fallback = "false", .local = 1,
     .help = "bind a worker's threads to cores of their own, near its GPU or "
             "the network"},

    {KEY(server.threads, GW_TYPE_COUNT), .fallback = "1", .local = 1,
     .min = 1, .max = 1024, .help = "shards of a server, a thread each"},
    {KEY(server.pin, GW_TYPE_BOOL), .fallback = "false", .local = 1,
     .help = "bind a server's threads to cores of their own, near the "
             "network"},

    COUNT(cluster.workers, "2", 1, 4096, "workers in all"),
    COUNT(cluster.servers, "2", 1, 4096, "servers in all"),
    COUNT(cluster.copies, "1", 1, GW_COPIES_MAX,
          "of each shard, in as many server processes; 2: the job goes on where "
          "a server dies"),
    {KEY(cluster.policy, GW_TYPE_STRING), .fallback = "sync",
     .check = check_plan, .words = 1,
     .help = "what workers send and when they may go on: sync, backup:B, "
             "ssp:S, async, stale-lr:N, dc-async, downpour:T, easgd:T, "
             "local:H or diloco:H, or one after the other as in \"sync until "
             "2000, local:16\""},
    LIMITED(cluster.transport, "auto", "auto|shm|rdma|tcp|sim",
            "how tensors move; auto: the fastest between each two processes; "
            "with the coordinator everybody speaks tcp"),
    LIMITED(cluster.local_reduction, "auto", "auto|on|host|off",
            "whether workers of one host sum their gradients before they push "
            "them, under sync; auto: where a server is on another host; host: "
            "as on, but not on GPUs"),
    COUNT(cluster.port, "0", 0, 65535,
          "of the coordinator; 0: any that is free"),
    {KEY(cluster.interface, GW_TYPE_STRING), .fallback = "", .local = 1,
     .own = 1, .check = check_interfaces,
     .help = "network interfaces or addresses of this host that tensors go "
             "over, up to 8, separated by commas; other hosts are not told; a "
             "coordinator listens on the first; empty: where the coordinator "
             "is met, its own is loopback"},
    {KEY(cluster.control_interface, GW_TYPE_STRING), .fallback = "",
     .local = 1, .own = 1, .check = check_interface,
     .help = "network interface or address of this host from which it dials "
             "the coordinator, or on which the coordinator listens instead of "
             "cluster.interface; other hosts are not told; empty: as this "
             "host's routes say"},
    BOOL(cluster.insecure, "false",
         "allow links without authentication to leave this machine"),
    COUNT(cluster.connections, "0", 0, 8,
          "connections between two processes; 0: one, or as many as "
          "cluster.interface of the worker names"),
    REAL(cluster.silence, "0", 0, GW_SILENCE_MAX_US / 1e6,
         "seconds in which nothing is heard of a member before it is dead, from "
         "0.5; 0: 1 where all are on one host, else 5"),
    REAL(cluster.step_deadline, "10", 0.001, 1e6,
         "seconds without progress before a line names who is waited for"),
    REAL(cluster.abort_after, "0", 0, 1e9,
         "seconds without progress before the job ends; 0: never"),
    REAL(cluster.patience, "30", 0, 1e6,
         "seconds that a job waits for another worker where one has died; 0: "
         "the death ends it"),
    COUNT(cluster.restarts, "3", 0, GW_RESTARTS_MAX,
          "gradweir train and run: how often in ten minutes a job that lost a "
          "process begins again from its newest checkpoint in checkpoint.dir"),

    REAL(policy.scale, "0", 0, 1e6,
         "async, ssp, stale-lr, dc-async, downpour: factor on the learning "
         "rate of each push, downpour: on what its steps came to; 0: 1 / "
         "cluster.workers"),
    REAL(policy.lambda, "0", 0, 1e6,
         "dc-async: strength of the compensation; 0: 0.04, and 2 with "
         "policy.adaptive"),
    BOOL(policy.adaptive, "false",
         "dc-async: divide policy.lambda by the root of the gradients' mean "
         "square"),
    REAL(policy.decay, "0.95", 0, 0.999999999,
         "dc-async, adaptive: decay of the mean square"),
    REAL(policy.eps, "1e-7", 1e-30, 1,
         "dc-async, adaptive: added to the mean square under the root"),
    REAL(policy.alpha, "0", 0, 1,
         "easgd: part of their distance by which worker and centre approach "
         "each other; 0: 0.9 / cluster.workers"),
    LIMITED(policy.inner, "auto", "auto|sgd|momentum|nesterov|adam|adamw",
            "downpour, easgd, local, diloco: a worker's own optimizer; auto: "
            "optimizer.kind"),
    REAL(policy.inner_clip, "0", 0, 1e9,
         "downpour, easgd, local, diloco: largest norm of a worker's own "
         "gradient, larger ones are scaled down; 0: any"),
    LIMITED(policy.outer, "auto", "auto|sgd|momentum|nesterov|adam|adamw",
            "downpour, local, diloco: what servers do with the workers' mean "
            "change; auto: nesterov under diloco, else sgd"),
    REAL(policy.outer_lr, "0", 0, 1e6,
         "downpour, local, diloco: learning rate of policy.outer; 0: 0.7 under "
         "diloco, else 1"),
    REAL(policy.outer_momentum, "0.9", 0, 1,
         "downpour, local, diloco: decay of the velocity of policy.outer"),
    COUNT(policy.fragments, "1", 1, 1024,
          "diloco: parts of the model that are exchanged in turn; 1: all at "
          "once"),
    COUNT(policy.overlap, "0", 0, 1e6,
          "diloco: steps between sending a part and merging the answer"),
    REAL(policy.mix, "0.5", 0, 1,
         "diloco in fragments or with overlap: weight of the worker's own "
         "value in a merge"),

    {KEY(checkpoint.dir, GW_TYPE_PATH), .fallback = "", .max = GW_DIR_MAX,
     .help = "where the coordinator keeps checkpoints; empty: none are made"},
    EVERY(checkpoint.every, "1 epoch",
          "how often one is made, besides the first and the last"),
    COUNT(checkpoint.keep, "3", 1, 1e6, "how many are kept"),
    CHOICE(checkpoint.access, "private", "private|umask",
            "who may read them: private: this user alone; umask: whom the "
            "umask lets"),

    {KEY(log.dir, GW_TYPE_PATH), .fallback = "", .max = GW_DIR_MAX, .local = 1,
     .help = "one log file per process goes here; empty: standard error"},
    {KEY(log.every, GW_TYPE_CADENCE), .fallback = "auto", .min = 1, .max = 1e9,
     .help = "how often progress is told, whichever is first; auto: \"100 "
             "steps, 5 seconds\", and \"100 steps, 1 second\" on a terminal"},
    LIMITED(log.level, "info", "error|warn|info|debug|trace",
            "the least important lines that are still written"),
    {KEY(log.access, GW_TYPE_CHOICE), .fallback = "private", .local = 1,
     .choices = "private|umask",
     .help = "who may read log files, as checkpoint.access"},
};
/* clang-format on */

_Static_assert(sizeof keys / sizeof *keys <= GW_CONFIG_KEYS_MAX,
               "config_value.h: GW_CONFIG_KEYS_MAX is too small");

const struct gw_config_key *gw_config_keys(size_t *n_p)
{
    *n_p = sizeof keys / sizeof *keys;
    return keys;
}

const struct gw_config_key *gw_config_find(const char *name)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcasecmp(keys[i].name, name) == 0)
            return &keys[i];
    }
    return NULL;
}

const struct gw_config_key *gw_config_find_section(const char *section)
{
    size_t bytes = strlen(section);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (gw_config_section_bytes(&keys[i]) == bytes &&
            strncasecmp(keys[i].name, section, bytes) == 0)
            return &keys[i];
    }
    return NULL;
}

size_t gw_config_section_bytes(const struct gw_config_key *key)
{
    return strcspn(key->name, ".");
}

size_t gw_config_bytes(const struct gw_config_key *key)
{
    switch (key->type) {
    case GW_TYPE_BOOL:
        return sizeof(int);
    case GW_TYPE_COUNT:
        return sizeof(uint64_t);
    case GW_TYPE_REAL:
        return sizeof(double);
    case GW_TYPE_STRING:
        return GW_STRING_MAX;
    case GW_TYPE_PATH:
        return GW_PATH_BYTES;
    case GW_TYPE_PATHS:
        return sizeof(struct gw_path_list);
    case GW_TYPE_CHOICE:
        return sizeof(unsigned);
    case GW_TYPE_EVERY:
        return sizeof(struct gw_every);
    case GW_TYPE_CADENCE:
        return sizeof(struct gw_cadence);
    case GW_TYPE_STRINGS:
        return sizeof(struct gw_string_list);
    case GW_TYPE_NUMBERS:
        return sizeof(struct gw_number_list);
    }
    return 0;
}

int gw_config_is_list(const struct gw_config_key *key)
{
    return key->type == GW_TYPE_STRINGS || key->type == GW_TYPE_PATHS ||
           key->type == GW_TYPE_NUMBERS;
}

size_t gw_config_text_max(const struct gw_config_key *key)
{
    if (key->type != GW_TYPE_PATH && key->type != GW_TYPE_PATHS)
        return GW_STRING_MAX;
    return key->max > 0 ? (size_t)key->max : GW_PATH_BYTES;
}

/* A right word in the wrong section is nearer than any misspelling; a name
   without a dot is a key without its section, or a section. */
static unsigned distance(const char *name, const struct gw_config_key *key)
{
    size_t section = gw_config_section_bytes(key);
    const char *dot = strchr(name, '.');
    char known[GW_DISTANCE_BYTES] = "";
    if (strcasecmp(dot ? dot + 1 : name, key->name + section + 1) == 0)
        return dot ? 1 : 0;
    memcpy(known, key->name, dot ? strlen(key->name) : section);
    return gw_edit_distance(name, known);
}

const char *gw_config_nearest(const char *name)
{
    size_t nearest = 0;
    for (size_t i = 1; i < sizeof keys / sizeof *keys; i++) {
        if (distance(name, &keys[i]) < distance(name, &keys[nearest]))
            nearest = i;
    }
    return keys[nearest].name;
}
