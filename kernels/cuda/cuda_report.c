/* Reports which fast paths were taken; nothing else tells if one was not. */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

/* Appends ", ReLU in products 3 of 4 (why)", if there was any. */
static void add(char *text,
                size_t text_bytes,
                const char *op,
                const struct gw_cuda_count *count)
{
    size_t used = strlen(text);
    if (count->all == 0)
        return;
    snprintf(text + used, text_bytes - used, "%s%s %zu of %zu%s%s%s",
             used > 0 ? ", " : "", op, count->taken, count->all,
             count->why ? " (" : "", count->why ? count->why : "",
             count->why ? ")" : "");
}

void gw_cuda_report(struct gw_device *device, char *text, size_t text_bytes)
{
    static const char *const names[GW_CUDA_FUSIONS] = {
        [GW_CUDA_FUSED_BIAS] = "bias in products",
        [GW_CUDA_FUSED_RELU] = "ReLU in products",
        [GW_CUDA_FUSED_RELU_MASK] = "ReLU noted by products",
        [GW_CUDA_FUSED_DRELU] = "its backward in products",
    };
    struct gw_cuda_count graphs = {.why = NULL}, fusions[GW_CUDA_FUSIONS];
    memset(fusions, 0, sizeof fusions);
    text[0] = '\0';
    gw_cuda_count_graphs(device, &graphs);
    gw_cuda_count_plans(device, fusions);
    add(text, text_bytes, "graphs", &graphs);
    for (size_t i = 0; i < GW_CUDA_FUSIONS; i++)
        add(text, text_bytes, names[i], &fusions[i]);
}
