/* proto/random: known answers of Philox, permutations, moments. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/random.h"

/* Known-answer vectors of the Random123 distribution, philox4x32 10. */
static void philox_known_answers(void **state)
{
    (void)state;
    uint32_t out[4];
    gw_random4(UINT64_MAX, (enum gw_random_stream)0xffffffff, 0xffffffff,
               UINT64_MAX, out);
    assert_int_equal(out[0], 0x408f276d);
    assert_int_equal(out[1], 0x41c83b0e);
    assert_int_equal(out[2], 0xa20bc7c6);
    assert_int_equal(out[3], 0x6d5451fd);
    gw_random4(0x299f31d0a4093822, (enum gw_random_stream)0x03707344,
               0x13198a2e, 0x85a308d3243f6a88, out);
    assert_int_equal(out[0], 0xd16cfe09);
    assert_int_equal(out[1], 0x94fdcceb);
    assert_int_equal(out[2], 0x5001e420);
    assert_int_equal(out[3], 0x24126ea1);
}

static void permutations_are_permutations(void **state)
{
    (void)state;
    static uint8_t seen[60000];
    const uint64_t sizes[] = {1, 2, 3, 17, 256, 257, 10000, 60000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (uint32_t epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, sizeof seen);
            for (uint64_t i = 0; i < sizes[s]; i++) {
                uint64_t image = gw_random_permute(7, epoch, sizes[s], i);
                assert_true(image < sizes[s]);
                assert_int_equal(seen[image], 0);
                seen[image] = 1;
            }
        }
    }
}

static void permutations_differ_by_epoch_and_seed(void **state)
{
    (void)state;
    int same_epoch = 0, same_seed = 0, fixed = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t here = gw_random_permute(7, 0, 10000, i);
        same_epoch += here == gw_random_permute(7, 1, 10000, i);
        same_seed += here == gw_random_permute(8, 0, 10000, i);
        fixed += here == i;
    }
    /* each is Poisson with mean 1 for random permutations */
    assert_in_range(same_epoch, 0, 10);
    assert_in_range(same_seed, 0, 10);
    assert_in_range(fixed, 0, 10);
}

static void normals_have_their_moments(void **state)
{
    (void)state;
    const int n = 200000;
    double sum = 0, square = 0, uniform = 0;
    for (int i = 0; i < n / 4; i++) {
        uint32_t u[4];
        float z[4];
        gw_random4(1, GW_RANDOM_TEST, 0, (uint64_t)i, u);
        gw_random_normal2(u[0], u[1], z);
        gw_random_normal2(u[2], u[3], z + 2);
        for (int k = 0; k < 4; k++) {
            sum += (double)z[k];
            square += (double)z[k] * (double)z[k];
            uniform += (double)gw_random_uniform(u[k]);
        }
    }
    assert_true(fabs(sum / n) < 0.01);
    assert_true(fabs(square / n - 1) < 0.02);
    assert_true(fabs(uniform / n - 0.5) < 0.005);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(permutations_are_permutations),
        cmocka_unit_test(permutations_differ_by_epoch_and_seed),
        cmocka_unit_test(normals_have_their_moments),
    };
    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
