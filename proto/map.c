#include <config.h>

#include "proto/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/hash.h"

#define CHUNKS_PER_MODEL 64
#define CHUNK_STEP       ((size_t)4 << 10)

/* A shard while chunks are dealt out; the heap's root gets the next one. */
struct load {
    uint64_t bytes;
    uint32_t shard;
};

static uint64_t align_up(uint64_t bytes)
{
    return (bytes + GW_ARENA_ALIGN - 1) / GW_ARENA_ALIGN * GW_ARENA_ALIGN;
}

static size_t dtype_bytes(uint8_t dtype)
{
    return dtype == GW_DTYPE_F32 ? 4 : 0;
}

uint64_t gw_key_elems(const struct gw_key *key)
{
    uint64_t elems = 1;
    if (key->dims > GW_KEY_DIMS_MAX)
        return 0;
    for (size_t d = 0; d < key->dims; d++) {
        if (__builtin_mul_overflow(elems, key->shape[d], &elems))
            return 0;
    }
    return elems;
}

static enum gw_status
check_name(const struct gw_key *key, size_t index, struct gw_error *error)
{
    size_t length = strnlen(key->name, GW_KEY_NAME_MAX);
    if (length == 0)
        return gw_fail(error, GW_EINVAL, "key %zu has no name", index);
    if (length == GW_KEY_NAME_MAX)
        return gw_fail(error, GW_EINVAL,
                       "key %zu: the name \"%.20s...\" is longer than %d bytes",
                       index, key->name, GW_KEY_NAME_MAX - 1);
    for (size_t i = 0; i < length; i++) {
        if (key->name[i] <= ' ' || key->name[i] > '~')
            return gw_fail(error, GW_EINVAL,
                           "key %zu: byte %zu of the name is not a printable "
                           "character (0x%02x)",
                           index, i, (unsigned char)key->name[i]);
    }
    return GW_OK;
}

static enum gw_status check_shape(const struct gw_key *key,
                                  struct gw_error *error)
{
    if (dtype_bytes(key->dtype) == 0)
        return gw_fail(error, GW_EINVAL, "key %s: element type %u is not known",
                       key->name, key->dtype);
    if (key->dims > GW_KEY_DIMS_MAX)
        return gw_fail(error, GW_ERANGE,
                       "key %s has %u dimensions, at most %d are possible",
                       key->name, key->dims, GW_KEY_DIMS_MAX);
    for (size_t d = 0; d < key->dims; d++) {
        if (key->shape[d] == 0)
            return gw_fail(error, GW_ERANGE, "key %s: dimension %zu is 0",
                           key->name, d);
    }
    uint64_t most = (uint64_t)GW_CHUNKS_MAX * GW_CHUNK_BYTES_MAX;
    uint64_t elems = gw_key_elems(key);
    if (elems == 0 || elems > most / dtype_bytes(key->dtype))
        return gw_fail(error, GW_ERANGE,
                       "key %s has too many elements for %u chunks", key->name,
                       GW_CHUNKS_MAX);
    return GW_OK;
}

static enum gw_status check_group(const struct gw_key *key,
                                  struct gw_error *error)
{
    if (key->group >= GW_KEY_GROUPS_MAX)
        return gw_fail(error, GW_ERANGE,
                       "key %s: there is no group %u, the last is %d",
                       key->name, key->group, GW_KEY_GROUPS_MAX - 1);
    if (key->rule >= GW_KEY_RULES)
        return gw_fail(error, GW_EINVAL, "key %s: rule %u is not known",
                       key->name, key->rule);
    return GW_OK;
}

/* The highest group of the keys, + 1. */
static uint32_t count_groups(const struct gw_key *keys, size_t n)
{
    uint32_t groups = 1;
    for (size_t i = 0; i < n; i++)
        if (keys[i].group >= groups)
            groups = keys[i].group + 1;
    return groups;
}

static enum gw_status
check_rules(const struct gw_key *keys, size_t n, struct gw_error *error)
{
    uint8_t rule[GW_KEY_GROUPS_MAX]; /* + 1; 0: not known yet */
    memset(rule, 0, sizeof rule);
    for (size_t i = 0; i < n; i++) {
        uint8_t *of = &rule[keys[i].group];
        if (*of != 0 && *of != keys[i].rule + 1)
            return gw_fail(error, GW_EINVAL,
                           "key %s: an earlier key of group %u has another "
                           "rule",
                           keys[i].name, keys[i].group);
        *of = (uint8_t)(keys[i].rule + 1);
    }
    return GW_OK;
}

static int compare_names(const void *a, const void *b)
{
    const struct gw_key *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static enum gw_status
check_unique(const struct gw_key *keys, size_t n, struct gw_error *error)
{
    enum gw_status status = GW_OK;
    const struct gw_key **sorted = malloc(n * sizeof *sorted);
    if (!sorted)
        return gw_fail(error, GW_ENOMEM, "no memory for %zu keys", n);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &keys[i];
    qsort(sorted, n, sizeof *sorted, compare_names);
    for (size_t i = 1; i < n && !status; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            status = gw_fail(error, GW_EINVAL, "key %s is declared twice",
                             sorted[i]->name);
    }
    free(sorted);
    return status;
}

static enum gw_status check_keys(const struct gw_key *keys,
                                 size_t n_keys,
                                 size_t n_shards,
                                 struct gw_error *error)
{
    if (n_keys == 0)
        return gw_fail(error, GW_EINVAL, "the model has no key");
    if (n_keys > GW_KEYS_MAX)
        return gw_fail(error, GW_EINVAL,
                       "the model has %zu keys, at most %d are possible",
                       n_keys, GW_KEYS_MAX);
    if (n_shards == 0 || n_shards > GW_CHUNKS_MAX)
        return gw_fail(error, GW_EINVAL,
                       "%zu shards are asked for, 1 to %u are possible",
                       n_shards, GW_CHUNKS_MAX);
    for (size_t i = 0; i < n_keys; i++) {
        enum gw_status status = check_name(&keys[i], i, error);
        if (!status)
            status = check_shape(&keys[i], error);
        if (!status)
            status = check_group(&keys[i], error);
        if (status)
            return status;
    }
    enum gw_status status = check_rules(keys, n_keys, error);
    return status ? status : check_unique(keys, n_keys, error);
}

static uint64_t key_bytes(const struct gw_key *key)
{
    return gw_key_elems(key) * dtype_bytes(key->dtype);
}

/* Never a function of the number of shards: see the header. */
static size_t chunk_bytes_of(uint64_t model_bytes)
{
    uint64_t bytes = model_bytes / CHUNKS_PER_MODEL;
    if (bytes < GW_CHUNK_BYTES_MIN)
        bytes = GW_CHUNK_BYTES_MIN;
    if (bytes > GW_CHUNK_BYTES_MAX)
        bytes = GW_CHUNK_BYTES_MAX;
    return (size_t)(bytes / CHUNK_STEP * CHUNK_STEP);
}

/* Sets the sizes that depend on the shapes alone. */
static enum gw_status
measure(struct gw_map *map, const struct gw_key *keys, struct gw_error *error)
{
    /* cannot overflow: GW_KEYS_MAX keys of at most GW_CHUNKS_MAX MiB */
    for (size_t i = 0; i < map->keys; i++) {
        map->model_bytes += key_bytes(&keys[i]);
        map->arena_bytes += align_up(key_bytes(&keys[i]));
    }
    map->chunk_bytes = chunk_bytes_of(map->model_bytes);
    for (size_t i = 0; i < map->keys; i++) {
        uint64_t bytes = key_bytes(&keys[i]);
        map->chunks += (bytes + map->chunk_bytes - 1) / map->chunk_bytes;
        if (map->chunks > GW_CHUNKS_MAX)
            return gw_fail(error, GW_ERANGE,
                           "key %s: the model needs more than %u chunks of "
                           "%zu bytes",
                           keys[i].name, GW_CHUNKS_MAX, map->chunk_bytes);
    }
    return GW_OK;
}

static enum gw_status allocate(struct gw_map *map, struct gw_error *error)
{
    map->key = calloc(map->keys, sizeof *map->key);
    map->key_offset = calloc(map->keys, sizeof *map->key_offset);
    map->key_elems = calloc(map->keys, sizeof *map->key_elems);
    map->key_chunk = calloc(map->keys + 1, sizeof *map->key_chunk);
    map->chunk = calloc(map->chunks, sizeof *map->chunk);
    map->shard_chunks = calloc(map->shards, sizeof *map->shard_chunks);
    map->shard_bytes = calloc(map->shards, sizeof *map->shard_bytes);
    map->shard_chunk = calloc(map->shards, sizeof *map->shard_chunk);
    if (map->shard_chunk)
        map->shard_chunk[0] = calloc(map->chunks, sizeof **map->shard_chunk);
    if (!map->key || !map->key_offset || !map->key_elems || !map->key_chunk ||
        !map->chunk || !map->shard_chunks || !map->shard_bytes ||
        !map->shard_chunk || !map->shard_chunk[0])
        return gw_fail(error, GW_ENOMEM, "no memory for a map of %zu chunks",
                       map->chunks);
    return GW_OK;
}

/* Fills the keys, and the fields of chunks that do not depend on shards. */
static void cut(struct gw_map *map, const struct gw_key *keys)
{
    uint64_t offset = 0;
    uint32_t at = 0;
    for (uint32_t k = 0; k < map->keys; k++) {
        size_t elem_bytes = dtype_bytes(keys[k].dtype);
        uint64_t elems = gw_key_elems(&keys[k]);
        uint64_t most = map->chunk_bytes / elem_bytes;
        map->key[k] = keys[k];
        map->key_offset[k] = offset;
        map->key_elems[k] = elems;
        map->key_chunk[k] = at;
        for (uint64_t first = 0; first < elems; first += most, at++) {
            uint64_t left = elems - first;
            map->chunk[at].key = k;
            map->chunk[at].elems = (uint32_t)(left < most ? left : most);
            map->chunk[at].key_elem = first;
            map->chunk[at].arena_offset = offset + first * elem_bytes;
        }
        offset += align_up(elems * elem_bytes);
    }
    map->key_chunk[map->keys] = at;
    assert(at == map->chunks && offset == map->arena_bytes);
}

static int lighter(const struct load *a, const struct load *b)
{
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes;
    return a->shard < b->shard;
}

/* The root has grown: lets it sink to its place. */
static void sink_root(struct load *heap, size_t n)
{
    struct load moved = heap[0];
    size_t at = 0;
    for (size_t child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && lighter(&heap[child + 1], &heap[child]))
            child++;
        if (!lighter(&heap[child], &moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* List scheduling: each chunk in turn to the shard with the least bytes. */
static void deal(struct gw_map *map, struct load *heap)
{
    for (uint32_t s = 0; s < map->shards; s++)
        heap[s].shard = s; /* all empty, in index order: a valid heap */
    for (size_t c = 0; c < map->chunks; c++) {
        struct gw_chunk *chunk = &map->chunk[c];
        uint64_t bytes = chunk->elems * dtype_bytes(map->key[chunk->key].dtype);
        uint32_t shard = heap[0].shard;
        chunk->shard = shard;
        chunk->local = map->shard_chunks[shard]++;
        chunk->shard_offset = map->shard_bytes[shard];
        map->shard_bytes[shard] += align_up(bytes);
        heap[0].bytes += bytes;
        sink_root(heap, map->shards);
    }
}

/* The lists of all shards share one array, which shard 0's begins. */
static void list_shards(struct gw_map *map)
{
    for (size_t s = 1; s < map->shards; s++)
        map->shard_chunk[s] =
            map->shard_chunk[s - 1] + map->shard_chunks[s - 1];
    for (uint32_t c = 0; c < map->chunks; c++) {
        const struct gw_chunk *chunk = &map->chunk[c];
        map->shard_chunk[chunk->shard][chunk->local] = c;
    }
}

enum gw_status gw_map_create(const struct gw_key *keys,
                             size_t n_keys,
                             size_t n_shards,
                             struct gw_map **map_p,
                             struct gw_error *error)
{
    struct load *heap = NULL;
    struct gw_map *map = NULL;
    enum gw_status status = check_keys(keys, n_keys, n_shards, error);
    if (status)
        return status;

    map = calloc(1, sizeof *map);
    heap = calloc(n_shards, sizeof *heap);
    if (!map || !heap) {
        status = gw_fail(error, GW_ENOMEM, "no memory for the map");
        goto fail;
    }
    map->keys = n_keys;
    map->shards = n_shards;
    map->groups = count_groups(keys, n_keys);
    status = measure(map, keys, error);
    if (status)
        goto fail;
    status = allocate(map, error);
    if (status)
        goto fail;

    cut(map, keys);
    deal(map, heap);
    list_shards(map);
    free(heap);
    *map_p = map;
    return GW_OK;

fail:
    free(heap);
    gw_map_destroy(map);
    return status;
}

size_t gw_map_bytes(const struct gw_map *map)
{
    return sizeof *map +
           map->keys * (sizeof *map->key + sizeof *map->key_offset +
                        sizeof *map->key_elems + sizeof *map->key_chunk) +
           map->chunks * (sizeof *map->chunk + sizeof **map->shard_chunk) +
           map->shards * (sizeof *map->shard_chunks + sizeof *map->shard_bytes +
                          sizeof *map->shard_chunk);
}

void gw_map_destroy(struct gw_map *map)
{
    if (!map)
        return;
    if (map->shard_chunk)
        free(map->shard_chunk[0]);
    free(map->shard_chunk);
    free(map->shard_bytes);
    free(map->shard_chunks);
    free(map->chunk);
    free(map->key_chunk);
    free(map->key_elems);
    free(map->key_offset);
    free(map->key);
    free(map);
}

/* Keys without groups have the hash of before there were any. */
static uint64_t hash_groups(uint64_t hash, const struct gw_key *keys, size_t n)
{
    size_t grouped = 0;
    for (size_t i = 0; i < n; i++)
        grouped += keys[i].group > 0 || keys[i].rule > 0;
    for (size_t i = 0; i < n && grouped > 0; i++) {
        hash = gw_hash_u64(hash, keys[i].group);
        hash = gw_hash_u64(hash, keys[i].rule);
    }
    return hash;
}

uint64_t gw_keys_types_hash(const struct gw_key *keys, size_t n)
{
    uint64_t hash = GW_HASH_BEGIN;
    int any = 0;
    for (size_t i = 0; i < n; i++) {
        hash = gw_hash_u64(hash, keys[i].type);
        any |= keys[i].type;
    }
    return any ? hash : 0;
}

uint64_t gw_keys_hash(const struct gw_key *keys, size_t n)
{
    uint64_t hash = gw_hash_u64(GW_HASH_BEGIN, n);
    for (size_t i = 0; i < n; i++) {
        hash = gw_hash_text(hash, keys[i].name);
        hash = gw_hash_u64(hash, keys[i].dtype);
        hash = gw_hash_u64(hash, keys[i].dims);
        for (size_t d = 0; d < keys[i].dims; d++)
            hash = gw_hash_u64(hash, keys[i].shape[d]);
    }
    return hash_groups(hash, keys, n);
}
