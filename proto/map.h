/*
 * The map: keys to chunks to shards. A pure function of the declared shapes
 * and the number of shards, so every process makes the same one by itself. A
 * map does not change once it is made; any thread may read it.
 *
 * A key is cut into chunks of model/64 bytes, clamped to 64 KiB..1 MiB; the
 * chunk size never depends on the number of servers, so checkpoints and bits do
 * not either. Chunks go to shards in key order, each to the shard with the
 * least bytes (lowest index first): no shard exceeds the mean by more than one
 * chunk, and consecutive chunks spread over all shards.
 *
 *   arena   | key 0 .......... | key 1 .. | ...  same in weights, gradients
 *   chunks  | 0    | 1    | 2  | 3 | 4    |      keys begin at 64 bytes
 *   shards    0      1      0    1   0
 */
#ifndef GW_PROTO_MAP_H
#define GW_PROTO_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"
#include "proto/wire.h"

#define GW_KEY_NAME_MAX    256
#define GW_KEY_DIMS_MAX    8
#define GW_KEYS_MAX        65536
#define GW_KEY_GROUPS_MAX  1024 /* the terms of all fit a frame */
#define GW_CHUNKS_MAX      (1u << 20)
#define GW_ARENA_ALIGN     64
#define GW_CHUNK_BYTES_MIN ((size_t)64 << 10)
#define GW_CHUNK_BYTES_MAX ((size_t)1 << 20)

/* How servers make the next weights of a key from its pushes. */
enum gw_key_rule {
    GW_KEY_RULE_OPTIMIZER, /* the job's optimizer, on the mean gradient */
    GW_KEY_RULE_MEAN,      /* pushes are values: their mean */
    GW_KEY_RULES
};

/* One named tensor of the model. Keys of a group have one rule, and the same
   hyperparameters. */
struct gw_key {
    char name[GW_KEY_NAME_MAX];
    uint8_t dtype; /* enum gw_dtype */
    uint8_t dims;
    uint8_t rule; /* enum gw_key_rule */
    uint8_t type; /* of the trainer's own tensor, as it numbers types: ranks
                     must have the same, servers have dtype */
    uint32_t group;
    uint64_t shape[GW_KEY_DIMS_MAX];
};

struct gw_chunk {
    uint32_t key;
    uint32_t shard;
    uint32_t local; /* index among its shard's chunks */
    uint32_t elems;
    uint64_t key_elem;     /* first element within the key */
    uint64_t arena_offset; /* bytes, of its first element in a worker's arena */
    uint64_t shard_offset; /* bytes, in an array of its shard */
};

struct gw_map {
    size_t keys, chunks, shards;
    uint32_t groups;        /* the highest of a key, + 1 */
    struct gw_key *key;     /* [keys] */
    uint64_t *key_offset;   /* [keys] bytes, in the arena */
    uint64_t *key_elems;    /* [keys] */
    uint32_t *key_chunk;    /* [keys + 1] first chunk of each key */
    struct gw_chunk *chunk; /* [chunks] in arena order */
    uint32_t *shard_chunks; /* [shards] how many */
    uint32_t **shard_chunk; /* [shards][shard_chunks] global indices */
    uint64_t *shard_bytes;  /* [shards] of one array of the shard */
    size_t chunk_bytes;
    uint64_t arena_bytes, model_bytes; /* with and without padding */
};

/* Elements of a key; 0 when the product overflows or a dimension is 0. */
uint64_t gw_key_elems(const struct gw_key *key);

/*
 * GW_EINVAL (no key, more than GW_KEYS_MAX, no shard, a name that is empty, too
 * long, twice or not printable, a rule that is not known, or two in a group),
 * GW_ERANGE (a shape of zero or too many elements, a group of
 * GW_KEY_GROUPS_MAX or above, more than GW_CHUNKS_MAX chunks), GW_ENOMEM; the
 * line names the key. The map owns copies; free it with gw_map_destroy.
 */
enum gw_status gw_map_create(const struct gw_key *keys,
                             size_t n_keys,
                             size_t n_shards,
                             struct gw_map **map_p,
                             struct gw_error *error);
void gw_map_destroy(struct gw_map *map);

/* Bytes of memory that the map itself takes. */
size_t gw_map_bytes(const struct gw_map *map);

/* A hash of names, dtypes, shapes, groups and rules in order: equal
   declarations match. */
uint64_t gw_keys_hash(const struct gw_key *keys, size_t n);
/* Likewise of their types, which checkpoints do not depend on; 0 where all are
   the first type. */
uint64_t gw_keys_types_hash(const struct gw_key *keys, size_t n);

#endif
