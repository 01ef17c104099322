/*
 * The steps that a job makes in simulation while its workers are stopped and
 * continued: for straggled.py, which does the same to real processes.
 *
 *   straggled POLICY DURATION STEP STEP_FEWER TRACE
 *
 * Times are in microseconds. A line of TRACE is a stop, RANK BEGIN END, in the
 * order of their begins. A step takes STEP while all workers run, and
 * STEP_FEWER, of those that do, while any is stopped; links take no time, for
 * measured steps have theirs in them. Prints the number of steps.
 */
#include "config.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/sim/cluster.h"

#define WORKERS   3
#define STOPS_MAX 100000
#define LIMIT_US  86400000000

struct stop {
    uint32_t rank;
    uint64_t begin_us, end_us;
};

static struct run {
    struct cluster cluster;
    uint64_t duration_us, step_us, fewer_us;
    uint64_t start_us; /* of the trace, in the world's time */
    struct stop *stop;
    size_t stops, due; /* the next that comes */
} job;

static int read_trace(const char *path)
{
    FILE *file = fopen(path, "r");
    struct stop stop;
    if (!file) {
        perror(path);
        return 0;
    }
    while (job.stops < STOPS_MAX &&
           fscanf(file, "%" SCNu32 " %" SCNu64 " %" SCNu64, &stop.rank,
                  &stop.begin_us, &stop.end_us) == 3)
        job.stop[job.stops++] = stop;
    int whole = feof(file);
    fclose(file);
    if (!whole)
        fprintf(stderr, "%s: line %zu is no RANK BEGIN END\n", path,
                job.stops + 1);
    return whole;
}

static uint64_t now(void)
{
    return gw_sim_now(job.cluster.sim) - job.start_us;
}

/* Whether `rank` is stopped, or anybody is, and when that may change. */
static uint64_t look(uint64_t us, uint32_t rank, int *stopped, int *fewer)
{
    uint64_t until = UINT64_MAX;
    *stopped = *fewer = 0;
    for (size_t i = 0; i < job.stops; i++) {
        const struct stop *stop = &job.stop[i];
        uint64_t edge = us < stop->begin_us ? stop->begin_us : stop->end_us;
        if (us >= stop->end_us)
            continue;
        until = edge < until ? edge : until;
        if (us < stop->begin_us)
            continue;
        *fewer = 1;
        *stopped |= stop->rank == rank;
    }
    return until;
}

static uint64_t compute_us(void *owner, uint64_t samples)
{
    (void)samples;
    const struct gw_world_worker *worker = owner;
    uint32_t rank = (uint32_t)(worker - job.cluster.worker);
    uint64_t begin = now(), us = begin;
    double left = 1;
    for (;;) {
        int stopped, fewer;
        uint64_t until = look(us, rank, &stopped, &fewer);
        double step = (double)(fewer ? job.fewer_us : job.step_us);
        double may = (double)(until - us) / step;
        if (!stopped && may >= left)
            return us + (uint64_t)(left * step) - begin;
        left -= stopped ? 0 : may;
        us = until;
    }
}

/* A process that is stopped hears nothing either. */
static void stop_next(void *owner)
{
    const struct stop *stop = &job.stop[job.due++];
    (void)owner;
    if (stop->rank < WORKERS)
        gw_sim_pause(job.cluster.worker[stop->rank].loop,
                     stop->end_us - stop->begin_us);
    if (job.due < job.stops)
        gw_sim_at(job.cluster.sim, job.stop[job.due].begin_us - now(),
                  stop_next, NULL);
}

static int is_over(void *owner)
{
    (void)owner;
    return now() >= job.duration_us;
}

static uint64_t steps_of(const char *policy)
{
    char word[64];
    const struct gw_sim_options lines = {
        .seed = 1, .latency_us = 1, .bytes_per_us = 1e9};
    const char *settings[] = {word,
                              "cluster.workers=3",
                              "cluster.servers=1",
                              "train.steps=1000000",
                              "train.batch=1",
                              "model.layers=[784, 10]",
                              NULL};
    snprintf(word, sizeof word, "cluster.policy=\"%s\"", policy);
    cluster_open(&job.cluster, &lines, settings, NULL);
    for (size_t i = 0; i < WORKERS; i++)
        gw_sim_compute_model(job.cluster.worker[i].loop, compute_us,
                             &job.cluster.worker[i]);
    cluster_run_until(&job.cluster, cluster_is_running, &job.cluster, LIMIT_US);
    job.start_us = gw_sim_now(job.cluster.sim);
    if (job.stops > 0)
        gw_sim_at(job.cluster.sim, job.stop[0].begin_us, stop_next, NULL);
    cluster_run_until(&job.cluster, is_over, NULL, LIMIT_US);
    uint64_t steps = job.cluster.steps;
    cluster_close(&job.cluster);
    return steps;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr,
                "usage: %s POLICY DURATION STEP STEP_FEWER TRACE, in us\n",
                argv[0]);
        return 2;
    }
    job.duration_us = strtoull(argv[2], NULL, 10);
    job.step_us = strtoull(argv[3], NULL, 10);
    job.fewer_us = strtoull(argv[4], NULL, 10);
    job.stop = calloc(STOPS_MAX, sizeof *job.stop);
    if (!job.stop || !read_trace(argv[5]))
        return 1;
    cluster_data_open(&job.cluster.train, &job.cluster.test);
    printf("%" PRIu64 "\n", steps_of(argv[1]));
    gw_dataset_close(job.cluster.train);
    gw_dataset_close(job.cluster.test);
    free(job.stop);
    return 0;
}
