/*
 * Reduce and update of W slots against a += b: a table over sizes and
 * optimizers. Not part of `make check`: its figures need a quiet machine.
 *
 *   bench_update [SLOTS]
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/measure.h"
#include "kernels/update.h"

static const size_t sizes[] = {
    (size_t)64 << 10,
    (size_t)256 << 10,
    (size_t)1 << 20,
    (size_t)64 << 20,
};

static int
measure_row(size_t bytes, uint32_t slots, const char *name, int same, int fused)
{
    struct gw_update_case what = {
        .optimizer = gw_optimizer_find(name),
        .array_bytes = bytes,
        .slots = slots,
        .in_place = same,
        .fused = fused,
        .rounds = bytes > ((size_t)8 << 20) ? 15 : 60,
    };
    struct gw_update_rate rate;
    struct gw_error error;
    if (gw_measure_update(&what, &rate, &error) != GW_OK) {
        fprintf(stderr, "bench_update: %s\n", error.text);
        return 0;
    }
    printf("%10zu  %-9s  %-8s  %-6s  %8.2f  %8.1f  %8.1f  %6.2f\n", bytes, name,
           same ? "in place" : "to next", fused ? "fused" : "blocks",
           rate.update_elems_per_s * 1e-9, rate.update_bytes_per_s * 1e-9,
           rate.add_bytes_per_s * 1e-9, rate.ratio);
    return 1;
}

int main(int argc, char **argv)
{
    uint32_t slots = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 4;
    printf("# %s, %u slots; traffic: slots + 2 states + 2 arrays against the "
           "3 of a += b\n",
           gw_update_isa(), slots);
    printf("%10s  %-9s  %-8s  %-6s  %8s  %8s  %8s  %6s\n", "bytes", "optimizer",
           "weights", "calls", "Gelem/s", "GB/s", "add GB/s", "ratio");
    int ok = 1;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t o = 0; gw_optimizers[o]; o++)
            for (int same = 1; same >= 0; same--)
                for (int fused = 0; fused <= !gw_optimizers[o]->two_phase;
                     fused++)
                    ok &= measure_row(sizes[s], slots, gw_optimizers[o]->name,
                                      same, fused);
    return !ok;
}
