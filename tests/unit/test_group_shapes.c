/* Groups: which ranks push as one, that theirs is a subtree of the sum over all
   ranks, and what is said of a sum's parts. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/update/update.h"
#include "proto/groups.h"
#include "proto/random.h"

#define RANKS_MAX 70
#define ELEMS     257

/* The blocks of ranks whose places are letters, "-" for none, as digits. */
static void blocks_of(const char *places, const char *wanted)
{
    char text[RANKS_MAX][2] = {{0}}, got[RANKS_MAX + 1] = "";
    const char *place[RANKS_MAX];
    uint32_t size[RANKS_MAX], ranks = (uint32_t)strlen(places);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        text[rank][0] = places[rank] == '-' ? '\0' : places[rank];
        place[rank] = text[rank];
    }
    uint32_t blocks = gw_groups_make(place, ranks, size);
    for (uint32_t i = 0; i < blocks; i++)
        got[i] = (char)('0' + size[i]);
    assert_string_equal(got, wanted);
    if (strspn(places, "a") == ranks)
        assert_int_equal(gw_groups_blocks(0, ranks), blocks);
    assert_true(gw_groups_are_valid(size, blocks, ranks));
}

static void blocks_are_aligned_powers_of_two(void **state)
{
    (void)state;
    blocks_of("a", "1");
    blocks_of("aa", "2");
    blocks_of("aaa", "21");
    blocks_of("aaaa", "4");
    blocks_of("baaa", "112");
    blocks_of("baaaaaaa", "1124");
    blocks_of("aaaabbc", "421");
    blocks_of("aabbaabb", "2222");
    blocks_of("aaaaaaaabbbb", "84");
    blocks_of("----", "1111");
    blocks_of("aa-a", "211");
}

/* Who has which rank when they have come in that order. */
static void come(const char *order, const char *wanted)
{
    char text[RANKS_MAX][2] = {{0}}, got[RANKS_MAX + 1] = "";
    const char *place[RANKS_MAX] = {NULL};
    uint32_t ranks = (uint32_t)strlen(order);
    for (uint32_t i = 0; i < ranks; i++) {
        text[i][0] = order[i] == '-' ? '\0' : order[i];
        uint32_t rank = gw_groups_rank(place, ranks, text[i]);
        assert_true(rank < ranks);
        assert_null(place[rank]);
        place[rank] = text[i];
        got[rank] = order[i];
    }
    assert_string_equal(got, wanted);
}

static void those_of_a_host_come_beside_each_other(void **state)
{
    (void)state;
    come("a", "a");
    come("aaaa", "aaaa");
    come("abab", "aabb");
    come("abba", "aabb");
    come("aba", "aab");
    come("abcdabcd", "aaccbbdd");
    come("abaabbab", "aaaabbbb");
    come("abbbaabbaaab", "aaaabbaabbbb");
    come("abaaabb", "aaaabbb");
    come("----", "----");
    come("-a-a", "--aa");
    come("abcde", "adbec");
}

static void a_block_has_an_end(void **state)
{
    const char *place[RANKS_MAX];
    uint32_t size[RANKS_MAX];
    (void)state;
    for (uint32_t rank = 0; rank < RANKS_MAX; rank++)
        place[rank] = "a";
    assert_int_equal(gw_groups_make(place, RANKS_MAX, size), 3);
    assert_int_equal(size[0], GW_GROUP_MAX);
    assert_int_equal(size[1], 4);
    assert_int_equal(size[2], 2);
}

static void others_blocks_are_judged(void **state)
{
    (void)state;
    assert_true(gw_groups_are_valid(NULL, 0, 4));
    assert_true(gw_groups_are_valid((uint32_t[]){2, 1, 1}, 3, 4));
    assert_false(gw_groups_are_valid((uint32_t[]){2, 1}, 2, 4));
    assert_false(gw_groups_are_valid((uint32_t[]){2, 2, 1}, 3, 4));
    assert_false(gw_groups_are_valid((uint32_t[]){3, 1}, 2, 4));
    assert_false(gw_groups_are_valid((uint32_t[]){1, 2, 1}, 3, 4));
    assert_false(gw_groups_are_valid((uint32_t[]){0, 4}, 2, 4));
    assert_false(gw_groups_are_valid((uint32_t[]){128}, 1, 128));
}

static void each_chunk_has_one_owner(void **state)
{
    const uint32_t size[] = {4, 2, 1};
    (void)state;
    for (uint32_t rank = 0; rank < 7; rank++) {
        struct gw_group group = gw_group_of(size, 3, rank);
        assert_true(gw_group_has(group, rank));
        for (uint32_t chunk = 0; chunk < 20; chunk++)
            assert_true(gw_group_has(group, gw_group_owner(group, chunk)));
    }
    struct gw_group two = gw_group_of(size, 3, 5);
    assert_int_equal(two.first, 4);
    assert_int_equal(two.n, 2);
    assert_false(gw_group_has(two, 3));
    assert_false(gw_group_has(two, 6));
    assert_int_equal(gw_group_owner(two, 6), 4);
    assert_int_equal(gw_group_owner(two, 7), 5);
    assert_int_equal(gw_group_of(NULL, 0, 5).n, 1);
    assert_int_equal(gw_group_of(NULL, 0, 5).first, 5);
}

/* ---- the same bits ---- */

static float slot[RANKS_MAX][ELEMS];

static void
fill_slots(uint32_t ranks, uint64_t seed, const float **all, unsigned missing)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        for (uint32_t i = 0; i < ELEMS; i++) {
            uint32_t bits[4];
            gw_random4(seed, GW_RANDOM_TEST, rank, i, bits);
            slot[rank][i] = (float)(int32_t)bits[0] * 1e-6F;
            if (bits[1] % 8 == 0)
                slot[rank][i] = bits[1] % 16 ? 0.0F : -0.0F;
        }
        all[rank] = missing && rank % missing == 0 ? NULL : slot[rank];
    }
}

/* What the servers make of the sums of groups, over what they make of all. */
static void sum_in_groups(const char *places, uint64_t seed, unsigned missing)
{
    const float *all[RANKS_MAX], *sums[RANKS_MAX] = {NULL};
    static float sum[RANKS_MAX][ELEMS];
    char text[RANKS_MAX][2] = {{0}};
    const char *place[RANKS_MAX];
    float wanted[ELEMS], got[ELEMS];
    uint32_t size[RANKS_MAX], ranks = (uint32_t)strlen(places), first = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        text[rank][0] = places[rank];
        place[rank] = text[rank];
    }
    fill_slots(ranks, seed, all, missing);
    gw_reduce_block(all, ranks, 0, ELEMS, wanted);
    uint32_t blocks = gw_groups_make(place, ranks, size);
    for (uint32_t b = 0; b < blocks; first += size[b++]) {
        /* any of them may push it */
        uint32_t owner = first + (uint32_t)(seed % size[b]);
        int there = 0;
        for (uint32_t rank = first; rank < first + size[b]; rank++)
            there |= all[rank] != NULL;
        gw_reduce_block(all + first, size[b], 0, ELEMS, sum[owner]);
        sums[owner] = there ? sum[owner] : NULL;
    }
    gw_reduce_block(sums, ranks, 0, ELEMS, got);
    assert_memory_equal(got, wanted, sizeof got);
}

static void sums_of_groups_have_the_bits_of_all(void **state)
{
    static const char *const places[] = {
        "aaaa",     "aabb",      "aaaabb",        "abb",
        "aaaaaaaa", "baaaaaaa",  "aaaabbbbccddd", "aaaaaaaaaaaaaaaabbbbbbbbc",
        "abcd",     "aaaabbbba",
    };
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (uint64_t seed = 1; seed <= 20; seed++)
            for (unsigned missing = 0; missing <= 3; missing++)
                sum_in_groups(places[i], seed, missing);
}

/* ---- parts ---- */

static void parts_are_read(void **state)
{
    const struct gw_part said[] = {{4, 10, GW_GRADIENT_UNCOUNTED, 0},
                                   {5, 0, GW_GRADIENT_MADE, 1},
                                   {6, 7, GW_GRADIENT_NONFINITE, 0},
                                   {7, 1, GW_GRADIENT_COUNTED, 1}};
    struct gw_part heard[4];
    uint8_t bytes[4 * GW_PART_BYTES];
    (void)state;
    gw_parts_encode(said, 4, bytes);
    assert_int_equal(gw_parts_decode(bytes, sizeof bytes, 4, 4, heard), GW_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(heard[i].rank, said[i].rank);
        assert_int_equal(heard[i].samples, said[i].samples);
        assert_int_equal(heard[i].gradient, said[i].gradient);
        assert_int_equal(heard[i].terms, said[i].terms);
    }
    /* of other ranks, too few, and with a word that nobody knows */
    assert_int_equal(gw_parts_decode(bytes, sizeof bytes, 0, 4, heard),
                     GW_EPROTO);
    assert_int_equal(
        gw_parts_decode(bytes, sizeof bytes - GW_PART_BYTES, 4, 4, heard),
        GW_EPROTO);
    assert_int_equal(gw_parts_decode(bytes, sizeof bytes, 4, 2, heard),
                     GW_EPROTO);
    bytes[8] = 4;
    assert_int_equal(gw_parts_decode(bytes, sizeof bytes, 4, 4, heard),
                     GW_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_powers_of_two),
        cmocka_unit_test(those_of_a_host_come_beside_each_other),
        cmocka_unit_test(a_block_has_an_end),
        cmocka_unit_test(others_blocks_are_judged),
        cmocka_unit_test(each_chunk_has_one_owner),
        cmocka_unit_test(sums_of_groups_have_the_bits_of_all),
        cmocka_unit_test(parts_are_read),
    };
    return cmocka_run_group_tests_name("groups", tests, NULL, NULL);
}
