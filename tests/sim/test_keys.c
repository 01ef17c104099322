/*
 * A model of as many keys as there may be, with names as long as they may be,
 * goes through the coordinator to those that need it, and the job begins.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/map.h"
#include "tests/fuzz/council.h"

static void so_many_keys_as_a_model_may_have(void **state)
{
    struct gw_key *keys = calloc(GW_KEYS_MAX, sizeof *keys);
    (void)state;
    assert_non_null(keys);
    for (uint32_t i = 0; i < GW_KEYS_MAX; i++) {
        keys[i].dtype = GW_DTYPE_F32;
        keys[i].dims = 1;
        keys[i].shape[0] = 3;
        memset(keys[i].name, 'k', GW_KEY_NAME_MAX - 1);
        keys[i].name[snprintf(keys[i].name, GW_KEY_NAME_MAX, "%u", i)] = '.';
    }
    struct council *council = council_open_with(NULL, keys, GW_KEYS_MAX);
    assert_non_null(council);
    assert_true(council->running);
    assert_int_equal(council->member[COUNCIL_SHARD].keys, GW_KEYS_MAX);
    for (unsigned i = 0; i < COUNCIL_MEMBERS; i++)
        assert_int_equal(council->member[i].down, 0);
    council_close(council);
    free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_keys_as_a_model_may_have),
    };
    return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
