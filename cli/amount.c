#include "config.h"

#include "cli/amount.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
    enum gw_amount_kind kind;
    const char *name;
    double times;
} units[] = {
    /* clang-format off */
    {GW_AMOUNT_BYTES, "B", 1},
    {GW_AMOUNT_BYTES, "kB", 1e3},
    {GW_AMOUNT_BYTES, "MB", 1e6},
    {GW_AMOUNT_BYTES, "GB", 1e9},
    {GW_AMOUNT_BYTES, "TB", 1e12},
    {GW_AMOUNT_BYTES, "KiB", 1024},
    {GW_AMOUNT_BYTES, "MiB", 1048576},
    {GW_AMOUNT_BYTES, "GiB", 1073741824},
    {GW_AMOUNT_BYTES, "TiB", 1099511627776},
    {GW_AMOUNT_SECONDS, "us", 1e-6},
    {GW_AMOUNT_SECONDS, "ms", 1e-3},
    {GW_AMOUNT_SECONDS, "s", 1},
    {GW_AMOUNT_RATE, "MB/s", 1e6},
    {GW_AMOUNT_RATE, "GB/s", 1e9},
    {GW_AMOUNT_RATE, "TB/s", 1e12},
    {GW_AMOUNT_FLOPS, "GFLOP/s", 1e9},
    {GW_AMOUNT_FLOPS, "TFLOP/s", 1e12},
    {GW_AMOUNT_FLOPS, "PFLOP/s", 1e15},
    {GW_AMOUNT_COUNT, "", 1},
    {GW_AMOUNT_COUNT, "k", 1e3},
    {GW_AMOUNT_COUNT, "M", 1e6},
    {GW_AMOUNT_COUNT, "G", 1e9},
    /* clang-format on */
};

#define UNITS (sizeof units / sizeof *units)

static enum gw_status refuse(const char *option,
                             const char *text,
                             enum gw_amount_kind kind,
                             struct gw_error *error)
{
    char list[128] = "";
    for (size_t i = 0; i < UNITS; i++) {
        size_t at = strlen(list);
        if (units[i].kind == kind && units[i].name[0])
            snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "",
                     units[i].name);
    }
    return gw_fail(error, GW_EUSAGE,
                   "%s: \"%s\" is not a number above 0 with one of these "
                   "units%s: %s",
                   option, text, kind == GW_AMOUNT_COUNT ? ", or none" : "",
                   list);
}

enum gw_status gw_amount_parse(const char *option,
                               const char *text,
                               enum gw_amount_kind kind,
                               double *value_p,
                               struct gw_error *error)
{
    char unit[16] = "", rest;
    double number;
    int found = sscanf(text, " %lf %15s %c", &number, unit, &rest);
    if (found < 1 || found > 2)
        return refuse(option, text, kind, error);
    for (size_t i = 0; i < UNITS; i++) {
        if (units[i].kind != kind || strcasecmp(unit, units[i].name) != 0)
            continue;
        double value = number * units[i].times;
        if (!(value > 0) || value > 1e18)
            break;
        *value_p = value;
        return GW_OK;
    }
    return refuse(option, text, kind, error);
}
