/* kernels/cuda/cuda_index: division by multiplication, run on the host. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/cuda/try/divide.h"

static void indices_divide_exactly(void **state)
{
    (void)state;
    const unsigned most = INT32_MAX;
    uint64_t draw = 1;
    for (int i = 0; i < 200000; i++) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        size_t by = (size_t)(draw >> 33) >> i % 31;
        by = by > 0 ? by : 1;
        unsigned multiple = (unsigned)(most / by * by);
        assert_int_equal(try_divide(most, by), most / by);
        assert_int_equal(try_divide(multiple, by), multiple / by);
        assert_int_equal(try_divide(multiple - 1, by), (multiple - 1) / by);
        unsigned any = (unsigned)(draw >> 20) & most;
        assert_int_equal(try_divide(any, by), any / by);
    }
    assert_int_equal(try_divide(most, (size_t)1 << 31), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indices_divide_exactly),
    };
    return cmocka_run_group_tests_name("indices on GPUs", tests, NULL, NULL);
}
