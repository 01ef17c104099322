#include <config.h>

#include "proto/metrics.h"

#include <inttypes.h>
#include <stdio.h>

static const struct gw_metric_info infos[GW_METRICS] = {
#define METRIC_INFO(id, name, unit, help) {#name, unit, help},
    GW_METRIC_TABLE(METRIC_INFO)
#undef METRIC_INFO
};

const struct gw_metric_info *gw_metric_info(enum gw_metric metric)
{
    return &infos[metric];
}

void gw_metrics_add(struct gw_metrics *metrics,
                    enum gw_metric metric,
                    uint64_t n)
{
    atomic_fetch_add_explicit(&metrics->value[metric], n, memory_order_relaxed);
}

void gw_metrics_raise(struct gw_metrics *metrics,
                      enum gw_metric metric,
                      uint64_t n)
{
    _Atomic uint64_t *value = &metrics->value[metric];
    uint64_t now = atomic_load_explicit(value, memory_order_relaxed);
    while (now < n &&
           !atomic_compare_exchange_weak_explicit(
               value, &now, n, memory_order_relaxed, memory_order_relaxed))
        continue;
}

void gw_metrics_set(struct gw_metrics *metrics,
                    enum gw_metric metric,
                    uint64_t n)
{
    atomic_store_explicit(&metrics->value[metric], n, memory_order_relaxed);
}

uint64_t gw_metrics_get(const struct gw_metrics *metrics, enum gw_metric metric)
{
    return atomic_load_explicit(&metrics->value[metric], memory_order_relaxed);
}

void gw_metrics_collect(const struct gw_metrics *metrics,
                        struct gw_metrics_snapshot *snapshot)
{
    struct gw_metrics_snapshot one;
    for (unsigned i = 0; i < GW_METRICS; i++)
        one.value[i] = gw_metrics_get(metrics, (enum gw_metric)i);
    gw_metrics_join(&one, snapshot);
}

void gw_metrics_join(const struct gw_metrics_snapshot *other,
                     struct gw_metrics_snapshot *snapshot)
{
    uint64_t longest = snapshot->value[GW_METRIC_LONGEST_TURN_US];
    for (unsigned i = 0; i < GW_METRICS; i++)
        snapshot->value[i] += other->value[i];
    if (longest < other->value[GW_METRIC_LONGEST_TURN_US])
        longest = other->value[GW_METRIC_LONGEST_TURN_US];
    snapshot->value[GW_METRIC_LONGEST_TURN_US] = longest;
}

size_t gw_metrics_print(const struct gw_metrics_snapshot *snapshot,
                        char *text,
                        size_t text_bytes)
{
    size_t used = 0;
    if (text_bytes > 0)
        text[0] = '\0';
    for (unsigned i = 0; i < GW_METRICS; i++) {
        if (snapshot->value[i] == 0)
            continue;
        size_t left = used < text_bytes ? text_bytes - used : 0;
        int bytes =
            snprintf(left ? text + used : NULL, left, "%s%s %" PRIu64,
                     used ? ", " : "", infos[i].name, snapshot->value[i]);
        used += bytes > 0 ? (size_t)bytes : 0;
    }
    return used;
}
