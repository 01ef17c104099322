/*
 * Control messages: all traffic between members besides gradients and weights.
 * Plain structs, with the fields of control.def; protobuf-c makes the bytes
 * (control.proto) and stays inside control*.c. Messages are reliable and in
 * order between two members (transport/member/member.h), so each is sent once.
 * Pure but for the caller's arena; any thread, each with an arena of its own.
 *
 *   joining   member > coordinator   JOIN, DECLARE, READY, STANDING, CAUGHT
 *             coordinator > member   WELCOME, VIEW, DECLARE (keys), START
 *   windows   worker <> shard        WINDOW
 *             standby > primary      WINDOW
 *   deciding  shard > shard 0        VOTE, ARRIVED, QUIESCED
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
#include "proto/policy.h"
#include "proto/secret.h"
#include "proto/status.h"

#define GW_DIGEST_BYTES 32

/* The limit of steps, clocks and versions: cuts carry them as doubles, which
   hold whole numbers up to it, and a clock + 1 does not overflow. A message
   with a larger one is refused. */
#define GW_CLOCK_MAX ((uint64_t)1 << 53)

/* Parts keep a message below the 64 KiB of a frame: keys up to so many, with
   names of so many bytes in all, ends included. */
#define GW_KEYS_PER_PART      256
#define GW_KEY_NAMES_PER_PART ((size_t)24 << 10)
#define GW_MEMBERS_PER_PART   200
#define GW_VALUES_PER_PART    4096

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
    GW_MESSAGE_FILE_OPEN = 19, /* 18 is free: it was a message that is no longer
                                  sent */
    GW_MESSAGE_FILE_REPLY,
    GW_MESSAGE_STATUS,
    GW_MESSAGE_QUIESCED,
    GW_MESSAGE_ARRIVED,
    GW_MESSAGE_REQUEST,
    GW_MESSAGE_SPEED,
    GW_MESSAGE_SIGHT,
    GW_MESSAGE_FAULT,
    GW_MESSAGE_POLL,
    GW_MESSAGE_STANDING,
    GW_MESSAGE_CAUGHT,
    GW_MESSAGE_KINDS,
};

enum gw_decision_kind {
    GW_DECIDE_STEP = 1, /* whole step: apply or skip */
    GW_DECIDE_TRUST,    /* lamb: the trust ratio of each key; shards only */
    GW_DECIDE_CUT,      /* a checkpoint at this clock */
    GW_DECIDE_SCORE,    /* result of an evaluation */
    GW_DECIDE_END,      /* no step of this clock or later */
    GW_DECIDE_QUIESCE,  /* each push: answer no want, report where each rank
                         stands */
    GW_DECIDE_RESUME,   /* each push: answer again, from `clocks` on */
    GW_DECIDE_COUNT,    /* backup: the ranks that make this step */
    GW_DECIDE_SWITCH,   /* `policy` holds from this clock on */
    GW_DECIDE_SPLIT,    /* speed: each rank's share of a step from here on */
    GW_DECIDE_PASSED,   /* backup: the decisions of steps that went on without a
                           worker, which did not take them */
};

enum gw_end_reason {
    GW_END_COMPLETE = 1, /* all steps done */
    GW_END_EARLY,        /* no progress any more */
    GW_END_STOPPED,      /* a signal, or gradweir ctl */
    GW_END_NONFINITE,    /* too many skipped steps */
};

/* The state of reading the neighbour's device memory; see SIGHT in control.def.
 */
enum gw_sees {
    GW_SIGHT_WORDS, /* not known yet: here are words */
    GW_SIGHT_BLIND,
    GW_SIGHT_SEES
};
#define GW_SIGHT_WORDS_MAX 88
struct gw_sight_words {
    uint8_t byte[GW_SIGHT_WORDS_MAX];
    uint32_t n; /* 0: there are none */
};

/* An observer's question to the coordinator; the answer has GW_ASK_NONE. */
enum gw_ask {
    GW_ASK_NONE,
    GW_ASK_STATUS, /* members and counters, for people */
    GW_ASK_JOB,    /* the text of the job file, defaults filled in */
};

enum gw_request_kind {
    GW_REQUEST_POLICY = 1, /* another policy, where all chunks have one clock */
    GW_REQUEST_CHECKPOINT, /* a cut at the next clock where one can be */
    GW_REQUEST_STOP,       /* the end, as a signal asks for it */
};

#define GW_NEED_THREADS_MAX 1024 /* the range of worker.threads */

/* ---- the structs: proto/control.def as C ---- */

#define GW_DECLARE_u8(name)                 uint8_t name;
#define GW_DECLARE_u8_from(name, low, high) uint8_t name;
#define GW_DECLARE_flag(name)               uint8_t name;
#define GW_DECLARE_u32(name)                uint32_t name;
#define GW_DECLARE_u32_to(name, most)       uint32_t name;
#define GW_DECLARE_u64(name)                uint64_t name;
#define GW_DECLARE_u64_to(name, most)       uint64_t name;
#define GW_DECLARE_double(name)             double name;
#define GW_DECLARE_status(name)             enum gw_status name;
#define GW_DECLARE_clock(name)              uint64_t name;
#define GW_DECLARE_choice(name, type, last) type name;
#define GW_DECLARE_text(name)               const char *name;
#define GW_DECLARE_text_below(name, size)   const char *name;
#define GW_DECLARE_bytes(name, size)        uint8_t name[size];
#define GW_DECLARE_maybe_bytes(name, size)                                     \
    int has_##name;                                                            \
    uint8_t name[size];
#define GW_DECLARE_secret(name) struct gw_secret name;
#define GW_DECLARE_maybe_secret(name)                                          \
    int has_##name;                                                            \
    struct gw_secret name;
#define GW_DECLARE_words(name) struct gw_sight_words name;
#define GW_DECLARE_list(name, type)                                            \
    const type *name;                                                          \
    uint32_t name##_n;
#define GW_DECLARE_clocks(name) GW_DECLARE_list(name, uint64_t)
#define GW_DECLARE_part(name, tag, Proto, most)                                \
    uint32_t name##_total, name##_first, name##_n;                             \
    const struct gw_##tag *name;
#define GW_DECLARE_sub(name, tag)    struct gw_##tag name;
#define GW_DECLARE_needed(name, tag) struct gw_##tag name;
#define GW_DECLARE_cut(name)         struct gw_course_cut name;

/* clang-format off */
#define STRUCT(NAME, tag, Proto)                 struct gw_##tag {
#define MESSAGE(KIND, member, tag, Proto, words) struct gw_##tag {
#define FIELD(type, ...)                         GW_DECLARE_##type(__VA_ARGS__)
#define END_FIELDS                               };
/* clang-format on */
#include "proto/control.def"

struct gw_message {
    enum gw_message_kind kind;
    union {
#define MESSAGE(KIND, member, tag, Proto, words) struct gw_##tag member;
#include "proto/control.def"
    };
};

/* Non-zero for the decisions that each step has. The coordinator is not told of
   them, except of COUNT for as long as it keeps up; it is told of the others,
   and acts on them. */
int gw_decision_is_of_each_step(const struct gw_decision *decision);

/* How many of the n keys, at least 1 if there are any, go into one part. */
uint32_t gw_keys_in_part(const struct gw_key *keys, uint32_t n);

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
 * Reads a message. Its pointers lead into `arena` and last until the arena's
 * next use. GW_EPROTO for bytes that are no message of ours; *message is set
 * only on GW_OK. No allocation.
 */
enum gw_status gw_message_decode(const uint8_t *bytes,
                                 size_t n,
                                 struct gw_control_arena *arena,
                                 struct gw_message *message);

#endif
