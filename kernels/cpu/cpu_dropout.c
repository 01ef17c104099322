#include "config.h"

#include "kernels/cpu/cpu.h"

#include "proto/random.h"

void gw_cpu_dropout(struct gw_device *device,
                    const struct gw_dropout_site *site,
                    size_t n,
                    size_t elems,
                    const float *x,
                    float *y)
{
    (void)device;
    float keep = 1 / (1 - site->p);
    uint32_t a = (uint32_t)(site->step << 8) | (site->layer & 0xff);
    for (size_t r = 0; r < n; r++, x += elems, y += elems) {
        uint64_t sample = (site->first_sample + r) << 32;
        for (size_t i = 0; i < elems; i += 4) {
            uint32_t u[4];
            gw_random4(site->seed, GW_RANDOM_DROPOUT, a, sample | i / 4, u);
            for (size_t l = 0; l < 4 && i + l < elems; l++)
                y[i + l] =
                    gw_random_uniform(u[l]) >= site->p ? x[i + l] * keep : 0;
        }
    }
}
