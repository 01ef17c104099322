/* One process of `gradweir bench sum`. */
#include "config.h"

#include "cli/bench/bench_sum.h"

#include <errno.h>
#include <string.h>

#include "kernels/measure.h"
#include "kernels/update/reduce.h"
#include "transport/link/memory.h"

struct summer {
    const struct gw_sum_case *what;
    uint32_t rank;
    float *gradient[GW_BENCH_MEMBERS_MAX]; /* each process', whole */
    float
        *alone[GW_BENCH_MEMBERS_MAX]; /* each process', the part that we own */
    size_t owned;                     /* elements */
    uint32_t orders;
    uint64_t spoilt; /* chunks reported as nonfinite */
    struct gw_bench_pattern own, expected;
};

/* ---- values ---- */

static int owns(const struct summer *summer, size_t chunk)
{
    return gw_group_owner(summer->what->group, (uint32_t)chunk) == summer->rank;
}

/* Checks our gradient: sums in our own chunks, unchanged values in the
   others'. */
static uint64_t count_wrong(const struct summer *summer)
{
    const struct gw_map *map = summer->what->map;
    uint64_t wrong = 0;
    for (size_t c = 0; c < map->chunks; c++) {
        size_t first = map->chunk[c].arena_offset / sizeof(float);
        wrong += gw_bench_wrong_from(
            owns(summer, c) ? &summer->expected : &summer->own, first,
            map->chunk[c].elems, summer->gradient[summer->rank] + first);
    }
    return wrong;
}

/* ---- memory ---- */

/* Like the shm transport: each process prefaults its own gradient and maps
   all. */
static enum gw_status open_gradients(struct summer *summer,
                                     struct gw_error *error)
{
    const struct gw_sum_case *what = summer->what;
    for (uint32_t i = 0; i < what->group.n; i++) {
        summer->gradient[i] = gw_memory_map(what->fd[i], what->bytes);
        if (!summer->gradient[i])
            return gw_fail(error, GW_ENOMEM, "cannot map a gradient: %s",
                           strerror(errno));
    }
    what->shared->huge[summer->rank] = gw_memory_prefault(&(struct gw_memory){
        .kind = GW_MEMORY_SHARED,
        .base = summer->gradient[summer->rank],
        .bytes = what->bytes,
        .fd = what->fd[summer->rank],
    });
    return GW_OK;
}

static enum gw_status open_alone(struct summer *summer, struct gw_error *error)
{
    const struct gw_sum_case *what = summer->what;
    for (size_t c = 0; c < what->map->chunks; c++)
        summer->owned += owns(summer, c) ? what->map->chunk[c].elems : 0;
    size_t apart = (summer->owned * sizeof(float) + GW_ARENA_ALIGN - 1) /
                       GW_ARENA_ALIGN * GW_ARENA_ALIGN +
                   GW_STAGGER_BYTES;
    float *all = gw_bench_array(what->group.n * apart, 0);
    if (!all)
        return gw_fail(error, GW_ENOMEM, "no memory for %zu bytes",
                       what->group.n * apart);
    for (uint32_t i = 0; i < what->group.n; i++)
        summer->alone[i] = all + i * apart / sizeof *all;
    return GW_OK;
}

/* ---- turns ---- */

/* The process that writes a gradient has it in cache, as after backward. */
static void fill(const struct summer *summer, enum gw_sum_contestant who)
{
    const struct gw_sum_case *what = summer->what;
    if (who != GW_SUM_ALONE)
        gw_bench_fill(&summer->own, what->bytes / sizeof(float),
                      summer->gradient[summer->rank]);
    for (uint32_t i = 0; who == GW_SUM_ALONE && i < what->group.n; i++)
        gw_bench_fill(&summer->own, summer->owned, summer->alone[i]);
}

/* Passes over our chunks. Returns the number that was reported as nonfinite,
   which should be 0. */
static uint64_t pass(const struct summer *summer, enum gw_sum_contestant who)
{
    const struct gw_sum_case *what = summer->what;
    uint32_t rank = summer->rank, n = what->group.n;
    uint64_t spoilt = 0;
    const float *slots[GW_BENCH_MEMBERS_MAX];
    size_t done = 0;
    for (uint32_t i = 0; i < n; i++)
        slots[i] = summer->gradient[i];
    for (size_t c = 0; c < what->map->chunks; c++) {
        size_t first = what->map->chunk[c].arena_offset / sizeof(float);
        size_t elems = what->map->chunk[c].elems;
        if (!owns(summer, c))
            continue;
        if (who == GW_SUM_REDUCE)
            spoilt += gw_reduce_over(slots, n, first, elems,
                                     summer->gradient[rank] + first) != 0;
        else if (who == GW_SUM_BOUND)
            gw_measure_stream(summer->gradient, n, rank, first, elems);
        else
            gw_measure_stream(summer->alone, n, rank, done, elems);
        done += elems;
    }
    return spoilt;
}

static double span_us(const struct gw_sum_shared *shared, uint32_t n)
{
    double begin = shared->begin_us[0], end = shared->end_us[0];
    for (uint32_t i = 1; i < n; i++) {
        begin = shared->begin_us[i] < begin ? shared->begin_us[i] : begin;
        end = shared->end_us[i] > end ? shared->end_us[i] : end;
    }
    return end - begin;
}

/* No time is overwritten before all have passed the first barrier again. */
static double take_turn(struct summer *summer, enum gw_sum_contestant who)
{
    struct gw_sum_shared *shared = summer->what->shared;
    uint32_t rank = summer->rank;
    fill(summer, who);
    pthread_barrier_wait(&shared->barrier);
    shared->begin_us[rank] = gw_bench_now_us();
    summer->spoilt += pass(summer, who);
    shared->end_us[rank] = gw_bench_now_us();
    pthread_barrier_wait(&shared->barrier);
    return span_us(shared, summer->what->group.n);
}

/* Alternates the order of contestants. */
static uint64_t run_order(struct summer *summer)
{
    struct gw_sum_shared *shared = summer->what->shared;
    uint32_t round = summer->orders++;
    uint64_t wrong = 0;
    for (uint32_t i = 0; i <= summer->what->iterations; i++)
        for (uint32_t k = 0; k < GW_SUM_CONTESTANTS; k++) {
            enum gw_sum_contestant who =
                (enum gw_sum_contestant)((k + round) % GW_SUM_CONTESTANTS);
            double us = take_turn(summer, who);
            if (i > 0 && summer->rank == 0)
                shared->us[who][i - 1] = us;
            if (who == GW_SUM_REDUCE)
                wrong += count_wrong(summer);
        }
    return wrong + summer->spoilt;
}

void gw_sum_process(struct gw_bench_child *child)
{
    struct summer summer = {.what = child->owner, .rank = child->index};
    struct gw_bench_message order;
    struct gw_error error;
    enum gw_status status = open_gradients(&summer, &error);
    if (status == GW_OK)
        status = open_alone(&summer, &error);
    if (status != GW_OK) {
        gw_bench_say_failed(child, &error);
        return;
    }
    gw_bench_summand(summer.rank, &summer.own);
    gw_bench_summed(summer.what->group.n, &summer.expected);
    gw_bench_say(child, GW_BENCH_READY, "", 0);
    while (gw_bench_listen(child, &order))
        gw_bench_say(child, GW_BENCH_DONE, "", run_order(&summer));
}
