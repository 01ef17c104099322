/*
 * The frame header: 64 bytes, little-endian, in front of everything that
 * crosses a link after login. docs/PROTOCOL.md describes every field; a
 * golden-bytes test pins the layout. Pure functions, any thread.
 *
 *   0  magic 4 | version 1 | kind 1 | flags 2 | session 4 | epoch 4
 *  16  clock 8 | offset 8
 *  32  window 4 | chunk 4 | count 4 | length 4
 *  48  encoding 1 | dtype 1 | header length 2 | decision 4
 *  56  payload CRC32C 4 | header CRC32C 4 (over bytes 0..59, checked first)
 */
#ifndef GW_PROTO_WIRE_H
#define GW_PROTO_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

#define GW_WIRE_VERSION      2
#define GW_FRAME_BYTES       64
#define GW_FRAME_MAGIC       0x52495747u /* "GWIR" as bytes */
#define GW_PAYLOAD_BYTES_MAX (16u << 20) /* a put into a window */
#define GW_MESSAGE_BYTES_MAX (64u << 10) /* a frame without a window */
#define GW_WINDOW_NONE       0u
#define GW_CHUNK_NONE        UINT32_MAX

/*
 * Kinds. "put" frames carry a payload for a window of the receiver; the others
 * have a payload of at most GW_MESSAGE_BYTES_MAX, or none.
 */
/* clang-format off */
#define GW_FRAME_KINDS(X)                                                      \
    X(GW_FRAME_HEARTBEAT, 1, "heartbeat") /* no payload */                     \
    X(GW_FRAME_CONTROL,   2, "control")   /* a typed message; clock = its      \
                                             sequence number, offset = last    \
                                             one received */                   \
    X(GW_FRAME_PUSH,      3, "push")      /* put: a chunk's gradient */        \
    X(GW_FRAME_WANT,      4, "want")      /* an array of struct gw_want */     \
    X(GW_FRAME_WEIGHTS,   5, "weights")   /* put: the answer to a want */      \
    X(GW_FRAME_ACK,       6, "ack")       /* no payload: a standby has the     \
                                             chunk, at the version of its      \
                                             clock */                          \
    X(GW_FRAME_SEED,      7, "seed")      /* put: a chunk's first weights */   \
    X(GW_FRAME_FILE,      8, "file")      /* put: a piece of a checkpoint */   \
    X(GW_FRAME_PARTS,     9, "parts")     /* an array of struct gw_part: the   \
                                             parts of a chunk's sum */         \
    X(GW_FRAME_EXPORTED,    10, "exported")     /* a struct gw_exported: in the place   \
                                             of a put */                       \
    X(GW_FRAME_TERMS,    11, "terms")     /* an array of struct gw_group_terms \
                                             that hold from its clock on */    \
    X(GW_FRAME_SUM,      12, "sum")       /* put: a chunk's sum of a step */   \
    X(GW_FRAME_COPY,     13, "copy")      /* put: an array of a chunk */       \
    X(GW_FRAME_NOTE,     14, "note")      /* a struct gw_copy_note: what to    \
                                             make of these */
/* clang-format on */

enum gw_frame_kind {
#define GW_FRAME_ENUM(name, value, text) name = (value),
    GW_FRAME_KINDS(GW_FRAME_ENUM)
#undef GW_FRAME_ENUM
};

enum gw_frame_flag {
    GW_FLAG_NO_CRC = 1 << 0,    /* payload CRC field is not meant */
    GW_FLAG_WANT_ACK = 1 << 1,  /* reserved: for a push without a want */
    GW_FLAG_NOW = 1 << 2,       /* weights: of a plain pull, clock its name */
    GW_FLAG_SUM = 1 << 3,       /* push: of a group; the parts came before */
    GW_FLAG_UNCOUNTED = 1 << 4, /* push without bytes: samples do not count */
};

enum gw_dtype {
    GW_DTYPE_NONE = 0,
    GW_DTYPE_F32 = 1
};

/* How numbers are written: as their dtype has them, or fp32 as bf16. */
enum gw_encoding {
    GW_ENCODING_RAW = 0,
    GW_ENCODING_BF16 = 1,
    GW_ENCODINGS
};

/* For people, behind a text about weights; "" for raw. */
static inline const char *gw_encoding_word(enum gw_encoding encoding)
{
    return encoding == GW_ENCODING_BF16 ? " (sent as bf16)" : "";
}

/* The encoded size of so many bytes of an fp32 arena, or an encoded offset. */
static inline uint64_t gw_encoded_size(enum gw_encoding encoding,
                                       uint64_t bytes)
{
    return encoding == GW_ENCODING_BF16 ? bytes / 2 : bytes;
}

/* Bytes of so many fp32 numbers, of a chunk. */
static inline uint32_t gw_encoded_bytes(enum gw_encoding encoding,
                                        uint32_t elems)
{
    return (uint32_t)gw_encoded_size(encoding, elems * sizeof(float));
}

/* A header, decoded. Field meanings by kind: docs/PROTOCOL.md. */
struct gw_frame {
    uint8_t kind;      /* enum gw_frame_kind */
    uint16_t flags;    /* enum gw_frame_flag, or'ed */
    uint32_t session;  /* given at login */
    uint32_t epoch;    /* the cluster's, low 32 bits */
    uint64_t clock;    /* step counter of the sender */
    uint64_t offset;   /* into the window, bytes */
    uint32_t window;   /* id that the receiver gave out, or GW_WINDOW_NONE */
    uint32_t chunk;    /* index in the map, or GW_CHUNK_NONE */
    uint32_t count;    /* samples (push); weights: low bits of the version, or
                          where each push makes one the staleness of the push
                          that they answer */
    uint32_t length;   /* payload bytes */
    uint8_t encoding;  /* enum gw_encoding */
    uint8_t dtype;     /* enum gw_dtype */
    uint32_t decision; /* number of the last decision that the sender had, low
                          32 bits */
    uint32_t payload_crc;
};

/* The full number of a decision from the low bits in a frame: the one nearest
   to `near`, which the receiver has followed. */
static inline uint64_t gw_decision_near(uint64_t near, uint32_t low)
{
    return near + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)near);
}

/* True for kinds with a payload for a window of the receiver. */
int gw_frame_is_put(uint8_t kind);

/* The kind's name, "unknown" for a number that is none. */
const char *gw_frame_kind_name(uint8_t kind);

/* Writes the 64 bytes of a header, its own CRC included. */
void gw_frame_encode(const struct gw_frame *frame, uint8_t out[GW_FRAME_BYTES]);

/*
 * Reads a header. GW_ECRC: bytes changed on the way; GW_EPROTO: magic, kind,
 * header length or payload length is not one of ours; GW_EVERSION: another
 * wire version. The caller closes the connection on each of them. *frame is
 * set only on GW_OK.
 */
enum gw_status gw_frame_decode(const uint8_t in[GW_FRAME_BYTES],
                               struct gw_frame *frame);

/*
 * A brief header, for a link that delimits messages and checks their bytes by
 * itself: without the fields that the link knows, and without a checksum. The
 * decoder takes `session` and `length` from the link. GW_EPROTO: kind, length
 * or a reserved byte is not one of ours.
 */
#define GW_BRIEF_BYTES 48

void gw_brief_encode(const struct gw_frame *frame, uint8_t out[GW_BRIEF_BYTES]);
enum gw_status gw_brief_decode(const uint8_t in[GW_BRIEF_BYTES],
                               uint32_t session,
                               uint32_t length,
                               struct gw_frame *frame);

/*
 * A want: "write weights of these chunks into my window as soon as `condition`
 * holds". Sent as an array in the payload of a GW_FRAME_WANT.
 */
#define GW_WANT_BYTES 40

enum gw_want_condition {
    GW_WANT_VERSION = 1, /* version >= value */
    GW_WANT_HELD = 2,    /* every push of the asker before clock `value` is in
                          */
    GW_WANT_MINIMUM = 3, /* as GW_WANT_HELD, and everybody's before value -
                            slack */
    GW_WANT_NOW = 4,     /* a plain pull: as they are; value names it */
    GW_WANT_EXACT = 5,   /* of version value, which may be the one before */
};

struct gw_want {
    uint32_t chunk;  /* first chunk of a run in the map's order */
    uint32_t count;  /* chunks in the run; chunks of other shards are skipped */
    uint64_t value;  /* the condition's */
    uint64_t offset; /* place of the first chunk in the window */
    uint32_t window; /* the worker's */
    uint32_t priority; /* smaller is sent earlier */
    uint8_t condition; /* enum gw_want_condition */
    uint8_t encoding;  /* enum gw_encoding */
    uint8_t nth, of;   /* only chunks of the run with index modulo `of` = nth;
                          of 0: all */
    uint32_t slack;    /* GW_WANT_MINIMUM: clocks, else 0 */
};

void gw_want_encode(const struct gw_want *want, uint8_t out[GW_WANT_BYTES]);

/* GW_EPROTO: unknown condition or encoding, a plain pull that is not to be raw,
   or an empty run. */
enum gw_status gw_want_decode(const uint8_t in[GW_WANT_BYTES],
                              struct gw_want *want);

/*
 * A put that leaves its bytes in place: the receiver reads them in a window of
 * the sender's, at the place of the chunk in an arena. Payload of a
 * GW_FRAME_EXPORTED.
 */
#define GW_EXPORTED_BYTES 8

struct gw_exported {
    uint32_t window; /* a window that the sender has exported on this link */
    uint8_t kind;    /* GW_FRAME_PUSH or GW_FRAME_SEED */
};

void gw_exported_encode(const struct gw_exported *exported,
                        uint8_t out[GW_EXPORTED_BYTES]);

/* GW_EPROTO: no window, another kind, or a reserved byte that is not 0. */
enum gw_status gw_exported_decode(const uint8_t in[GW_EXPORTED_BYTES],
                                  struct gw_exported *exported);

/* CRC32C (Castagnoli) of `bytes` continued from `crc`, 0 to begin. */
uint32_t gw_crc32c(uint32_t crc, const void *bytes, size_t n);

/* Little-endian fields of byte strings, for wire.c and login.c. */
void gw_put_u16(uint8_t *out, uint16_t value);
void gw_put_u32(uint8_t *out, uint32_t value);
void gw_put_u64(uint8_t *out, uint64_t value);
uint16_t gw_get_u16(const uint8_t *in);
uint32_t gw_get_u32(const uint8_t *in);
uint64_t gw_get_u64(const uint8_t *in);

#endif
