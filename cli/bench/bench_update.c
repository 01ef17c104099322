/* The speed of the server's arithmetic, against a += b on the same sizes. */
#include "config.h"

#include "cli/bench/bench.h"

#include "kernels/measure.h"

#define SLOTS 4

static const size_t sizes[] = {(size_t)1 << 20, (size_t)64 << 20};
static const char *const names[] = {"momentum", "adamw"};

static enum gw_status print(const struct gw_bench_options *options,
                            const struct gw_update_case *what,
                            const struct gw_update_rate *rate,
                            struct gw_error *error)
{
    const char *weights = what->in_place ? "in place" : "to next";
    if (options->table)
        fprintf(options->table,
                "%10zu  %-9s  %5u  %-8s  %8.2f  %8.1f  %8.1f  %6.3f\n",
                what->array_bytes, what->optimizer->name, what->slots, weights,
                rate->update_elems_per_s * 1e-9,
                rate->update_bytes_per_s * 1e-9, rate->add_bytes_per_s * 1e-9,
                rate->ratio);
    if (!options->json)
        return GW_OK;
    json_t *object = json_pack(
        "{s:I, s:s, s:s, s:i, s:s, s:f, s:f, s:f, s:f}", "bytes",
        (json_int_t)what->array_bytes, "op", "reduce+update", "optimizer",
        what->optimizer->name, "slots", (int)what->slots, "weights", weights,
        "elements_per_s", rate->update_elems_per_s, "gb_per_s",
        rate->update_bytes_per_s * 1e-9, "add_gb_per_s",
        rate->add_bytes_per_s * 1e-9, "ratio", rate->ratio);
    return gw_bench_print_json(options, object, error);
}

enum gw_status gw_bench_update(const struct gw_bench_options *options,
                               struct gw_error *error)
{
    if (options->table)
        fprintf(options->table,
                "# reduce and update of %u slots, one thread: bytes of traffic "
                "(slots, weights in\n"
                "# and out, states in and out) against the three of a += b on "
                "arrays of that size,\n"
                "# alternating, best of each. \"to next\": the next weights go "
                "to an array of their\n"
                "# own, as on a server.\n"
                "%10s  %-9s  %5s  %-8s  %8s  %8s  %8s  %6s\n",
                SLOTS, "bytes", "optimizer", "slots", "weights", "Gelem/s",
                "GB/s", "add GB/s", "ratio");
    for (size_t i = 0; i < 8; i++) {
        struct gw_update_case what = {
            .optimizer = gw_optimizer_find(names[i / 2 % 2]),
            .array_bytes = sizes[i / 4],
            .slots = SLOTS,
            .in_place = i % 2 == 0,
            .fused = 1,
            .rounds =
                i / 4 ? (int)options->rounds + 5 : 6 * (int)options->rounds,
        };
        struct gw_update_rate rate;
        enum gw_status status = gw_measure_update(&what, &rate, error);
        if (status == GW_OK)
            status = print(options, &what, &rate, error);
        if (status != GW_OK)
            return status;
    }
    return GW_OK;
}
