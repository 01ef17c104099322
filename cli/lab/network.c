#include "config.h"

#include "cli/lab/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    double bytes_per_us; /* 0: not a rate */
    double us;           /* 0: not a time */
} units[] = {
    {"bit/s", 1e-6 / 8, 0}, {"kbit/s", 1e-3 / 8, 0}, {"Mbit/s", 1 / 8.0, 0},
    {"Gbit/s", 1e3 / 8, 0}, {"Mbit", 1 / 8.0, 0},    {"Gbit", 1e3 / 8, 0},
    {"us", 0, 1},           {"ms", 0, 1e3},          {"s", 0, 1e6},
};

#define RATE_MAX 1e9 /* bytes per us, above all networks */
#define TIME_MAX 6e7 /* us; a minute */

/* Takes a rate or a time; 0: neither, or a second one. */
static int take(const char *word, double *rate, double *us)
{
    char unit[16], rest;
    double number;
    if (sscanf(word, " %lf %15s %c", &number, unit, &rest) != 2)
        return 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcasecmp(unit, units[i].name) != 0)
            continue;
        double *to = units[i].us > 0 ? us : rate;
        double most = units[i].us > 0 ? TIME_MAX : RATE_MAX;
        double value = number * (units[i].us + units[i].bytes_per_us);
        if (*to >= 0 || !(value >= 0) || value > most ||
            (to == rate && value == 0))
            return 0;
        *to = value;
        return 1;
    }
    return 0;
}

enum gw_status gw_network_parse(const char *text,
                                struct gw_sim_host_options *network_p,
                                struct gw_error *error)
{
    char words[128], *rest = words;
    double rate = -1, us = -1;
    int fine = strlen(text) < sizeof words;
    snprintf(words, sizeof words, "%s", text);
    if (fine && strcasecmp(text, "unlimited") != 0)
        while (fine && rest)
            fine = take(strsep(&rest, ","), &rate, &us);
    if (!fine)
        return gw_fail(error, GW_EUSAGE,
                       "\"%s\" is no network: \"unlimited\", or a rate above 0 "
                       "in bit/s, kbit/s, Mbit/s or Gbit/s, or a time of up to "
                       "a minute in us, ms or s, or both with a comma",
                       text);
    *network_p = (struct gw_sim_host_options){
        .bytes_per_us = rate > 0 ? rate : 0,
        .latency_us = us > 0 ? (uint64_t)(us / 2 + 0.5) : 0,
    };
    return GW_OK;
}
