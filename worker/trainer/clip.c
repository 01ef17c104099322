#include "config.h"

#include "worker/trainer/clip.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/update/update.h"
#include "worker/worker_state.h"

enum gw_status
gw_clip_open(struct gw_worker *worker, double limit, struct gw_clip *clip)
{
    size_t bytes = worker->keys * sizeof *clip->square;
    *clip = (struct gw_clip){
        .limit = limit,
        .square = worker->backend->alloc(worker->device, bytes),
        .host = calloc(worker->keys, sizeof *clip->host),
    };
    return clip->square && clip->host ? GW_OK : GW_ENOMEM;
}

void gw_clip_close(struct gw_worker *worker, struct gw_clip *clip)
{
    if (clip->square)
        worker->backend->free(worker->device, clip->square);
    free(clip->host);
    *clip = (struct gw_clip){.limit = 0};
}

void gw_clip_made(struct gw_worker *worker,
                  struct gw_clip *clip,
                  size_t first,
                  size_t n)
{
    float *const *gradient = gw_mirror_gradients(worker->mirror);
    for (size_t key = first; key < first + n; key++)
        worker->backend->square_sum(worker->device,
                                    gw_key_elems(&worker->key[key]),
                                    gradient[key], clip->square + key);
}

double gw_clip_factor(struct gw_worker *worker, const struct gw_clip *clip)
{
    double total = 0;
    worker->backend->download(worker->device, clip->host, clip->square,
                              worker->keys * sizeof *clip->host);
    for (size_t key = 0; key < worker->keys; key++)
        total += clip->host[key];
    return gw_clip_to(clip->limit, sqrt(total) / (double)worker->samples);
}
