/* transport/link/prefault: pages a part at a time, and a loop that goes on
 * meanwhile.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "transport/link/prefault.h"

#define HUGE GW_MEMORY_HUGE_BYTES
#define MANY 3

struct bench {
    struct gw_loop *loop;
    struct gw_timer beat;
    struct gw_prefault settling;
    struct gw_memory memory[MANY];
    unsigned beats, ends;
};

/* What is due while others take their time, as heartbeats are. */
static void beat(struct gw_timer *timer)
{
    struct bench *bench = timer->owner;
    bench->beats++;
    gw_timer_start(bench->loop, timer, 500);
}

static void end(void *owner)
{
    struct bench *bench = owner;
    if (bench->ends++ == 0) /* what does not run is not stopped */
        gw_loop_stop(bench->loop);
}

static void
open_bench(struct bench *bench, enum gw_memory_kind kind, const size_t *bytes)
{
    struct gw_error error;
    *bench = (struct bench){.ends = 0};
    assert_int_equal(gw_loop_open_uv(&bench->loop, &error), GW_OK);
    bench->beat = (struct gw_timer){.fire = beat, .owner = bench};
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(gw_memory_open(kind, bytes[i], &bench->memory[i]),
                         GW_OK);
    bench->settling = (struct gw_prefault){.loop = bench->loop,
                                           .memory = bench->memory,
                                           .n = MANY,
                                           .done = end,
                                           .owner = bench};
    gw_timer_start(bench->loop, &bench->beat, 500);
}

static void close_bench(struct bench *bench)
{
    gw_timer_stop(bench->loop, &bench->beat);
    for (size_t i = 0; i < MANY; i++)
        gw_memory_close(&bench->memory[i]);
    gw_loop_close(bench->loop);
}

static void others_have_their_turns(void **state)
{
    static const size_t bytes[MANY] = {40 * HUGE, 4096, 16 * HUGE + 4096};
    struct bench bench;
    (void)state;
    open_bench(&bench, GW_MEMORY_SHARED, bytes);
    gw_prefault_begin(&bench.settling);
    assert_int_equal(bench.ends, 0);
    gw_loop_run(bench.loop);
    assert_int_equal(bench.ends, 1);
    /* where there are no huge pages each is one part */
    assert_true(bench.beats >= MANY - 1);
    size_t at = 0;
    if (gw_memory_prefault_part(&bench.memory[0], &at, HUGE))
        assert_true(bench.beats >= 3);
    const char *first = bench.memory[0].base;
    assert_int_equal(first[0], 0);
    assert_int_equal(first[bytes[0] - 1], 0);
    close_bench(&bench);
}

/* Whoever ends meanwhile hears nothing of it. */
static void it_can_be_given_up(void **state)
{
    static const size_t bytes[MANY] = {40 * HUGE, 40 * HUGE, 40 * HUGE};
    struct bench bench;
    (void)state;
    open_bench(&bench, GW_MEMORY_SHARED, bytes);
    gw_prefault_stop(&bench.settling);
    gw_prefault_begin(&bench.settling);
    gw_prefault_stop(&bench.settling);
    while (bench.beats < 20)
        gw_loop_turn(bench.loop);
    assert_int_equal(bench.ends, 0);
    close_bench(&bench);
}

/* Memory of this process alone has its pages too, and little of it at once. */
static void what_is_not_shared_is_touched(void **state)
{
    static const size_t bytes[MANY] = {4096, 3 * 4096, 4096};
    struct bench bench;
    unsigned char there[3];
    (void)state;
    open_bench(&bench, GW_MEMORY_HOST, bytes);
    bench.ends = 1; /* the loop does not run */
    gw_prefault_begin(&bench.settling);
    assert_int_equal(bench.ends, 2);
    assert_int_equal(mincore(bench.memory[1].base, bytes[1], there), 0);
    assert_true(there[0] & there[1] & there[2] & 1);
    bench.settling.n = 0; /* at once */
    gw_prefault_begin(&bench.settling);
    assert_int_equal(bench.ends, 3);
    close_bench(&bench);
}

/* Each byte once, whatever the parts; what is no whole huge page is left. */
static void parts_cover_all(void **state)
{
    static const size_t sizes[] = {4096, HUGE - 4096, HUGE, 7 * HUGE + 8192};
    static const size_t most[] = {0, HUGE, 3 * HUGE + 1, SIZE_MAX};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t m = 0; m < sizeof most / sizeof *most; m++) {
            struct gw_memory memory;
            size_t at = 0, before = 0, parts = 0;
            assert_int_equal(
                gw_memory_open(GW_MEMORY_SHARED, sizes[s], &memory), GW_OK);
            int quiesced = 1;
            while (at < memory.bytes && quiesced) {
                before = at;
                quiesced = gw_memory_prefault_part(&memory, &at, most[m]);
                assert_true(at > before);
                assert_true(at == memory.bytes || at % HUGE == 0);
                assert_true(at == memory.bytes || at - before <= most[m] ||
                            at - before == HUGE);
                parts++;
            }
            assert_int_equal(at, memory.bytes);
            if (quiesced && most[m] <= HUGE)
                assert_int_equal(parts, sizes[s] / HUGE);
            if (quiesced && most[m] == SIZE_MAX)
                assert_int_equal(parts, 1);
            gw_memory_close(&memory);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_have_their_turns),
        cmocka_unit_test(it_can_be_given_up),
        cmocka_unit_test(what_is_not_shared_is_touched),
        cmocka_unit_test(parts_cover_all),
    };
    return cmocka_run_group_tests_name("settle", tests, NULL, NULL);
}
