/*
 * Chooses the algorithm of a product: cublasLt's first, or while the device is
 * tuned the fastest, timed by events on the device's own clock. The choices are
 * written to a text, so that a resumed job has the same bits.
 */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fastest of ROUNDS rounds counts, each of CALLS calls. */
#define ROUNDS 3
#define CALLS  5
/* Version of the set and order of products; incremented when they change. */
#define LIST 3

/* The beginning of the text: all that the choices depend on, besides the
   products. */
static void
header_of(struct gw_device *device, const char *of, char text[GW_TUNED_BYTES])
{
    char words[GW_TUNED_BYTES / 4];
    gw_cuda_describe(device, words, sizeof words);
    snprintf(text, GW_TUNED_BYTES, "%.128s, %s, list %d:", of, words, LIST);
}

void gw_cuda_tune(struct gw_device *device, const char *of, const char *known)
{
    struct gw_cuda_tuning *tuning = &device->tuning;
    header_of(device, of, tuning->text);
    size_t header = strlen(tuning->text);
    int fits = known && strncmp(known, tuning->text, header) == 0;
    snprintf(tuning->known, sizeof tuning->known, "%s",
             fits ? known + header : "");
    tuning->on = 1;
}

void gw_cuda_tuned(struct gw_device *device, char text[GW_TUNED_BYTES])
{
    strcpy(text, device->tuning.text);
    device->tuning.on = 0;
}

/* Removes and returns the next known choice; -1: there is none. */
static int next_known(struct gw_cuda_tuning *tuning)
{
    char *end;
    long algo = strtol(tuning->known, &end, 10);
    if (end == tuning->known || algo < 0 || algo >= GW_CUDA_ALGOS)
        return -1;
    memmove(tuning->known, end, strlen(end) + 1);
    return (int)algo;
}

/* ---- timing ---- */

struct timer {
    struct CUevent_st *start, *stop;
};

static int open_timer(struct gw_device *device, struct timer *timer)
{
    struct CUevent_st **events[] = {&timer->start, &timer->stop};
    for (size_t i = 0; i < 2 && !device->failed; i++)
        gw_cuda_check(device, "cudaEventCreateWithFlags",
                      cudaEventCreateWithFlags(events[i], cudaEventDefault));
    return !device->failed;
}

static void close_timer(struct timer *timer)
{
    if (timer->start)
        cudaEventDestroy(timer->start);
    if (timer->stop)
        cudaEventDestroy(timer->stop);
}

/* Milliseconds of CALLS calls. */
static float time_algo(struct gw_device *device,
                       const struct timer *timer,
                       int algo,
                       int (*queue)(void *context, int algo),
                       void *context)
{
    const char *op = "tuning";
    float ms = FLT_MAX;
    gw_cuda_check(device, op, cudaEventRecord(timer->start, device->compute));
    for (int i = 0; i < CALLS; i++)
        if (!queue(context, algo))
            return FLT_MAX;
    gw_cuda_check(device, op, cudaEventRecord(timer->stop, device->compute));
    gw_cuda_check(device, op, cudaEventSynchronize(timer->stop));
    if (!device->failed)
        gw_cuda_check(device, op,
                      cudaEventElapsedTime(&ms, timer->start, timer->stop));
    return ms;
}

static int fastest(struct gw_device *device,
                   int n,
                   int (*queue)(void *context, int algo),
                   void *context)
{
    struct timer timer = {0};
    float best = FLT_MAX;
    int found = 0;
    if (open_timer(device, &timer)) {
        for (int algo = 0; algo < n; algo++)
            queue(context, algo); /* loads its kernel */
        for (int i = 0; i < ROUNDS * n && !device->failed; i++) {
            float ms = time_algo(device, &timer, i % n, queue, context);
            if (ms < best) {
                best = ms;
                found = i % n;
            }
        }
    }
    close_timer(&timer);
    return found;
}

int gw_cuda_choose_algo(struct gw_device *device,
                        int n,
                        int (*queue)(void *context, int algo),
                        void *context)
{
    struct gw_cuda_tuning *tuning = &device->tuning;
    size_t used = strlen(tuning->text);
    if (!tuning->on || used + sizeof " 0" > sizeof tuning->text)
        return 0;
    int algo = next_known(tuning);
    if (algo < 0 || algo >= n)
        algo = n > 1 ? fastest(device, n, queue, context) : 0;
    sprintf(tuning->text + used, " %d", algo);
    return algo;
}
