#include "config.h"

#include "worker/trainer/clip.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/update/update.h"
#include "worker/trainer/rank_state.h"

enum gw_status
gw_clip_open(struct gw_rank *rank, double limit, struct gw_clip *clip)
{
    size_t bytes = rank->keys * sizeof *clip->square;
    *clip = (struct gw_clip){
        .limit = limit,
        .square = rank->backend->alloc(rank->device, bytes),
        .host = calloc(rank->keys, sizeof *clip->host),
    };
    return clip->square && clip->host ? GW_OK : GW_ENOMEM;
}

void gw_clip_close(struct gw_rank *rank, struct gw_clip *clip)
{
    if (clip->square)
        rank->backend->free(rank->device, clip->square);
    free(clip->host);
    *clip = (struct gw_clip){.limit = 0};
}

void gw_clip_made(struct gw_rank *rank,
                  struct gw_clip *clip,
                  size_t first,
                  size_t n)
{
    float *const *gradient = gw_mirror_gradients(rank->mirror);
    for (size_t key = first; key < first + n; key++)
        rank->backend->square_sum(rank->device, gw_key_elems(&rank->key[key]),
                                  gradient[key], clip->square + key);
}

double gw_clip_factor(struct gw_rank *rank, const struct gw_clip *clip)
{
    double total = 0;
    rank->backend->download(rank->device, clip->host, clip->square,
                            rank->keys * sizeof *clip->host);
    for (size_t key = 0; key < rank->keys; key++)
        if (!rank->done[key].skipped &&
            rank->key[key].rule == GW_KEY_RULE_OPTIMIZER)
            total += (double)clip->host[key];
    return gw_clip_to(clip->limit, sqrt(total) / (double)rank->samples);
}
