/* proto/map: cutting, dealing, bounds of the header, every refusal. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/hash.h"
#include "proto/map.h"
#include "proto/random.h"

#define MIB ((uint64_t)1 << 20)

static struct gw_key key_of(const char *name, uint64_t rows, uint64_t columns)
{
    struct gw_key key = {
        .dtype = GW_DTYPE_F32, .dims = 2, .shape = {rows, columns}};
    snprintf(key.name, sizeof key.name, "%s", name);
    return key;
}

static struct gw_map *
map_of(const struct gw_key *keys, size_t n, size_t n_shards)
{
    struct gw_map *map = NULL;
    struct gw_error error = {0};
    enum gw_status status = gw_map_create(keys, n, n_shards, &map, &error);
    if (status)
        fail_msg("%s", error.text);
    return map;
}

/* Everything that must hold of any map. */
static void check_map(const struct gw_map *map)
{
    uint64_t arena_end = 0;
    uint32_t at = 0;
    for (uint32_t k = 0; k < map->keys; k++) {
        assert_int_equal(map->key_chunk[k], at);
        assert_int_equal(map->key_offset[k] % GW_ARENA_ALIGN, 0);
        assert_true(map->key_offset[k] >= arena_end);
        assert_true(map->key_offset[k] - arena_end < GW_ARENA_ALIGN);
        uint64_t elems = 0;
        for (; at < map->key_chunk[k + 1]; at++) {
            const struct gw_chunk *chunk = &map->chunk[at];
            int last = at + 1 == map->key_chunk[k + 1];
            assert_int_equal(chunk->key, k);
            assert_int_equal(chunk->key_elem, elems);
            assert_int_equal(chunk->arena_offset,
                             map->key_offset[k] + 4 * elems);
            assert_true(chunk->elems > 0);
            assert_true(chunk->elems * 4ull <= map->chunk_bytes);
            if (!last)
                assert_int_equal(chunk->elems * 4ull, map->chunk_bytes);
            elems += chunk->elems;
        }
        assert_int_equal(elems, map->key_elems[k]);
        assert_int_equal(elems, gw_key_elems(&map->key[k]));
        arena_end = map->key_offset[k] + 4 * elems;
    }
    assert_int_equal(at, map->chunks);
    assert_true(map->arena_bytes >= arena_end);
    assert_true(map->arena_bytes - arena_end < GW_ARENA_ALIGN);
}

/* The shards' lists hold each chunk once, in order, apart, within bounds. */
static void check_shards(const struct gw_map *map)
{
    uint64_t most = 0, biggest = 0;
    size_t listed = 0;
    for (uint32_t s = 0; s < map->shards; s++) {
        uint64_t end = 0, bytes = 0;
        for (uint32_t i = 0; i < map->shard_chunks[s]; i++) {
            uint32_t c = map->shard_chunk[s][i];
            const struct gw_chunk *chunk = &map->chunk[c];
            uint64_t size = 4ull * chunk->elems;
            assert_int_equal(chunk->shard, s);
            assert_int_equal(chunk->local, i);
            assert_true(i == 0 || map->shard_chunk[s][i - 1] < c);
            assert_int_equal(chunk->shard_offset % 64, 0);
            assert_true(chunk->shard_offset >= end);
            end = chunk->shard_offset + size;
            bytes += size;
            biggest = size > biggest ? size : biggest;
            listed++;
        }
        assert_true(map->shard_bytes[s] >= end);
        assert_true(map->shard_bytes[s] - end < 64);
        most = bytes > most ? bytes : most;
    }
    assert_int_equal(listed, map->chunks);

    double mean = (double)map->model_bytes / (double)map->shards;
    assert_true((double)most <= mean + (double)biggest);
    if (mean >= 64.0 * (double)MIB)
        assert_true((double)most <= 1.05 * mean);
}

/* The rule of the header, without a heap: who has least, the first of them. */
static void check_rule(const struct gw_map *map)
{
    uint64_t *bytes = calloc(map->shards, sizeof *bytes);
    assert_non_null(bytes);
    for (size_t c = 0; c < map->chunks; c++) {
        size_t least = 0;
        for (size_t s = 1; s < map->shards; s++)
            least = bytes[s] < bytes[least] ? s : least;
        assert_int_equal(map->chunk[c].shard, least);
        bytes[least] += 4ull * map->chunk[c].elems;
    }
    free(bytes);
}

/* A sequence of numbers from the seed, as everywhere in gradweir. */
static uint64_t draw(uint64_t seed, uint64_t *at, uint64_t below)
{
    uint32_t bits[4];
    gw_random4(seed, GW_RANDOM_TEST, 0, (*at)++, bits);
    return ((uint64_t)bits[0] << 32 | bits[1]) % below;
}

static size_t random_model(uint64_t seed, struct gw_key *keys, size_t most)
{
    uint64_t at = 0;
    size_t n = 1 + draw(seed, &at, most);
    uint64_t scale = (uint64_t)1 << draw(seed, &at, 13);
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer%zu.weight", i);
        keys[i] = key_of(name, 1 + draw(seed, &at, scale),
                         1 + draw(seed, &at, scale));
    }
    return n;
}

static void random_models_keep_the_bounds(void **state)
{
    (void)state;
    static struct gw_key keys[200];
    int big = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        size_t n = random_model(seed, keys, 200);
        const size_t shards[] = {1, 2, 3, 5, 8, 13, 100};
        for (size_t i = 0; i < sizeof shards / sizeof *shards; i++) {
            struct gw_map *map = map_of(keys, n, shards[i]);
            check_map(map);
            check_shards(map);
            check_rule(map);
            assert_true(map->shard_chunks[0] > 0);
            big += map->model_bytes / shards[i] >= 64 * MIB && shards[i] > 1;
            gw_map_destroy(map);
        }
    }
    assert_true(big > 100); /* the tighter bound was tried, too */
}

static void cutting_ignores_shards(void **state)
{
    (void)state;
    static struct gw_key keys[50];
    for (uint64_t seed = 1000; seed < 1100; seed++) {
        size_t n = random_model(seed, keys, 50);
        struct gw_map *one = map_of(keys, n, 1);
        struct gw_map *many = map_of(keys, n, 1 + seed % 17);
        assert_int_equal(one->chunk_bytes, many->chunk_bytes);
        assert_int_equal(one->chunks, many->chunks);
        assert_int_equal(one->arena_bytes, many->arena_bytes);
        for (size_t c = 0; c < one->chunks; c++) {
            const struct gw_chunk *a = &one->chunk[c], *b = &many->chunk[c];
            assert_int_equal(a->key, b->key);
            assert_int_equal(a->elems, b->elems);
            assert_int_equal(a->key_elem, b->key_elem);
            assert_int_equal(a->arena_offset, b->arena_offset);
        }
        gw_map_destroy(one);
        gw_map_destroy(many);
    }
}

static size_t chunk_bytes_for(uint64_t model_bytes)
{
    struct gw_key key = key_of("w", 1, model_bytes / 4);
    struct gw_map *map = map_of(&key, 1, 2);
    size_t bytes = map->chunk_bytes;
    assert_int_equal(map->model_bytes, model_bytes);
    gw_map_destroy(map);
    return bytes;
}

static void chunk_sizes(void **state)
{
    (void)state;
    assert_int_equal(chunk_bytes_for(4), 64 << 10);
    assert_int_equal(chunk_bytes_for(4 * MIB), 64 << 10);
    assert_int_equal(chunk_bytes_for(4 * MIB + 4096 * 63), 64 << 10);
    assert_int_equal(chunk_bytes_for(4 * MIB + 4096 * 64), 68 << 10);
    assert_int_equal(chunk_bytes_for(32 * MIB), 512 << 10);
    assert_int_equal(chunk_bytes_for(32 * MIB + 4), 512 << 10);
    assert_int_equal(chunk_bytes_for(64 * MIB), 1 << 20);
    assert_int_equal(chunk_bytes_for(4096 * MIB), 1 << 20);
}

/* By hand: 64 KiB chunks; loads after each deal decide the next. */
static void dealt_by_hand(void **state)
{
    (void)state;
    const struct gw_key keys[] = {
        key_of("a", 3, 16384), /* 64, 64, 64 KiB */
        key_of("b", 1, 10),    /* 40 bytes */
        key_of("c", 1, 16394), /* 64 KiB, 40 bytes */
        key_of("d", 1, 16384), /* 64 KiB */
    };
    const uint32_t shard[] = {0, 1, 0, 1, 1, 0, 0};
    const uint64_t offset[] = {0, 0, 65536, 65536, 65600, 131072, 131136};
    struct gw_map *map = map_of(keys, 4, 2);
    assert_int_equal(map->chunks, 7);
    for (size_t c = 0; c < map->chunks; c++) {
        assert_int_equal(map->chunk[c].shard, shard[c]);
        assert_int_equal(map->chunk[c].shard_offset, offset[c]);
    }
    assert_int_equal(map->key_offset[1], 3 * 65536);
    assert_int_equal(map->key_offset[2], 3 * 65536 + 64);
    assert_int_equal(map->shard_bytes[0], 131136 + 65536);
    assert_int_equal(map->shard_bytes[1], 65600 + 65536);
    gw_map_destroy(map);
}

static void more_shards_than_chunks(void **state)
{
    (void)state;
    struct gw_key key = key_of("w", 3, 3);
    struct gw_map *map = map_of(&key, 1, 5);
    check_map(map);
    check_shards(map);
    assert_int_equal(map->shard_chunks[0], 1);
    assert_int_equal(map->shard_chunks[4], 0);
    assert_int_equal(map->shard_bytes[4], 0);
    gw_map_destroy(map);
}

static void elements(void **state)
{
    (void)state;
    struct gw_key key = {.dims = 3, .shape = {2, 3, 4}};
    assert_int_equal(gw_key_elems(&key), 24);
    key.dims = 0; /* a scalar */
    assert_int_equal(gw_key_elems(&key), 1);
    key.dims = 3;
    key.shape[1] = 0;
    assert_int_equal(gw_key_elems(&key), 0);
    key.shape[1] = UINT64_MAX / 4;
    assert_int_equal(gw_key_elems(&key), 0);
    key.shape[1] = (uint64_t)1 << 62;
    assert_int_equal(gw_key_elems(&key), 0);
    key.dims = GW_KEY_DIMS_MAX + 1;
    assert_int_equal(gw_key_elems(&key), 0);
}

/* Two keys of which the second is `bad`: the status and the line. */
static void refused(struct gw_key bad, enum gw_status status, const char *line)
{
    const struct gw_key keys[] = {key_of("good", 2, 2), bad};
    struct gw_map *map = NULL;
    struct gw_error error = {0};
    assert_int_equal(gw_map_create(keys, 2, 2, &map, &error), status);
    assert_string_equal(error.text, line);
    assert_null(map);
}

static void bad_keys_are_named(void **state)
{
    (void)state;
    struct gw_key bad = key_of("", 1, 1);
    refused(bad, GW_EINVAL, "key 1 has no name");
    memset(bad.name, 'x', sizeof bad.name);
    refused(bad, GW_EINVAL,
            "key 1: the name \"xxxxxxxxxxxxxxxxxxxx...\" is longer than 255 "
            "bytes");
    refused(key_of("fc1 weight", 1, 1), GW_EINVAL,
            "key 1: byte 3 of the name is not a printable character (0x20)");
    refused(key_of("fc1\xc3\xa9", 1, 1), GW_EINVAL,
            "key 1: byte 3 of the name is not a printable character (0xc3)");
    refused(key_of("good", 1, 1), GW_EINVAL, "key good is declared twice");
    refused(key_of("w", 3, 0), GW_ERANGE, "key w: dimension 1 is 0");
    refused(key_of("w", UINT64_MAX, 2), GW_ERANGE,
            "key w has too many elements for 1048576 chunks");
    refused(key_of("w", 1, ((uint64_t)1 << 38) + 1), GW_ERANGE,
            "key w has too many elements for 1048576 chunks");
    refused(key_of("w", 1, (uint64_t)1 << 38), GW_ERANGE,
            "key w: the model needs more than 1048576 chunks of 1048576 "
            "bytes");
    bad = key_of("w", 1, 1);
    bad.dtype = 77;
    refused(bad, GW_EINVAL, "key w: element type 77 is not known");
    bad = key_of("w", 1, 1);
    bad.group = GW_KEY_GROUPS_MAX;
    refused(bad, GW_ERANGE, "key w: there is no group 1024, the last is 1023");
    bad = key_of("w", 1, 1);
    bad.rule = GW_KEY_RULES;
    refused(bad, GW_EINVAL, "key w: rule 2 is not known");
    bad = key_of("w", 1, 1);
    bad.dims = 9;
    refused(bad, GW_ERANGE, "key w has 9 dimensions, at most 8 are possible");
}

static void bad_counts_are_refused(void **state)
{
    (void)state;
    struct gw_map *map = NULL;
    struct gw_error error = {0};
    struct gw_key key = key_of("w", 1, 1);
    assert_int_equal(gw_map_create(&key, 0, 1, &map, &error), GW_EINVAL);
    assert_string_equal(error.text, "the model has no key");
    assert_int_equal(gw_map_create(&key, GW_KEYS_MAX + 1, 1, &map, &error),
                     GW_EINVAL);
    assert_string_equal(error.text,
                        "the model has 65537 keys, at most 65536 are possible");
    assert_int_equal(gw_map_create(&key, 1, 0, &map, &error), GW_EINVAL);
    assert_string_equal(error.text,
                        "0 shards are asked for, 1 to 1048576 are possible");
    assert_int_equal(gw_map_create(&key, 1, SIZE_MAX, &map, &error), GW_EINVAL);
    assert_null(map);
    gw_map_destroy(NULL);
}

static void the_most_keys_and_chunks(void **state)
{
    (void)state;
    struct gw_key *keys = calloc(GW_KEYS_MAX, sizeof *keys);
    assert_non_null(keys);
    for (size_t i = 0; i < GW_KEYS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "k%zu", i);
        keys[i] = key_of(name, 16, (uint64_t)1 << 18); /* 16 chunks each */
    }
    struct gw_map *map = map_of(keys, GW_KEYS_MAX, 64);
    assert_int_equal(map->chunks, GW_CHUNKS_MAX);
    check_map(map);
    check_shards(map);
    gw_map_destroy(map);
    free(keys);
}

static void hashes_tell_declarations_apart(void **state)
{
    (void)state;
    struct gw_key keys[] = {key_of("a", 2, 3), key_of("b", 4, 5)};
    struct gw_key swapped[] = {keys[1], keys[0]};
    uint64_t hash = gw_keys_hash(keys, 2);
    assert_true(hash == gw_keys_hash(keys, 2));
    assert_true(hash != gw_keys_hash(keys, 1));
    assert_true(hash != gw_keys_hash(swapped, 2));
    keys[0].shape[2] = 9; /* beyond dims: not part of the shape */
    assert_true(hash == gw_keys_hash(keys, 2));
    keys[0].shape[1] = 9;
    assert_true(hash != gw_keys_hash(keys, 2));
    keys[0] = key_of("a", 2, 3);
    keys[0].dtype = GW_DTYPE_NONE;
    assert_true(hash != gw_keys_hash(keys, 2));
    keys[0] = key_of("A", 2, 3);
    assert_true(hash != gw_keys_hash(keys, 2));
}

/* Checkpoints of before there were groups are of the same model. */
static void hashes_without_groups_stay(void **state)
{
    (void)state;
    struct gw_key keys[] = {key_of("a", 2, 3), key_of("b", 4, 5)};
    uint64_t hash = gw_keys_hash(keys, 2), other;
    assert_true(hash == 0x982fedfb9f636ce4);
    keys[1].group = 1;
    other = gw_keys_hash(keys, 2);
    assert_true(other != hash);
    keys[1].group = 2;
    assert_true(gw_keys_hash(keys, 2) != other);
    keys[1].group = 1;
    keys[1].rule = GW_KEY_RULE_MEAN;
    assert_true(gw_keys_hash(keys, 2) != other);
    keys[1].group = 0;
    assert_true(gw_keys_hash(keys, 2) != hash);
}

static void groups_have_one_rule(void **state)
{
    (void)state;
    struct gw_map *map;
    struct gw_error error = {0};
    struct gw_key keys[] = {key_of("a", 2, 3), key_of("b", 4, 5),
                            key_of("c", 1, 1)};
    keys[1].group = keys[2].group = 7;
    keys[1].rule = keys[2].rule = GW_KEY_RULE_MEAN;
    map = map_of(keys, 3, 2);
    assert_int_equal(map->groups, 8);
    assert_int_equal(map->key[2].rule, GW_KEY_RULE_MEAN);
    gw_map_destroy(map);
    keys[2].rule = GW_KEY_RULE_OPTIMIZER;
    assert_int_equal(gw_map_create(keys, 3, 1, &map, &error), GW_EINVAL);
    assert_string_equal(error.text,
                        "key c: an earlier key of group 7 has another rule");
}

/* Known answers of 64-bit FNV-1a. */
static void hash_known_answers(void **state)
{
    (void)state;
    assert_true(gw_hash_bytes(GW_HASH_BEGIN, "", 0) == 0xcbf29ce484222325u);
    assert_true(gw_hash_bytes(GW_HASH_BEGIN, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(gw_hash_bytes(GW_HASH_BEGIN, "foobar", 6) ==
                0x85944171f73967e8u);
    assert_true(gw_hash_text(gw_hash_text(GW_HASH_BEGIN, "ab"), "c") !=
                gw_hash_text(gw_hash_text(GW_HASH_BEGIN, "a"), "bc"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_models_keep_the_bounds),
        cmocka_unit_test(cutting_ignores_shards),
        cmocka_unit_test(chunk_sizes),
        cmocka_unit_test(dealt_by_hand),
        cmocka_unit_test(more_shards_than_chunks),
        cmocka_unit_test(elements),
        cmocka_unit_test(bad_keys_are_named),
        cmocka_unit_test(bad_counts_are_refused),
        cmocka_unit_test(the_most_keys_and_chunks),
        cmocka_unit_test(hashes_tell_declarations_apart),
        cmocka_unit_test(hashes_without_groups_stay),
        cmocka_unit_test(groups_have_one_rule),
        cmocka_unit_test(hash_known_answers),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
