#include <config.h>

#include "proto/staleness.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

size_t gw_staleness_bucket(uint64_t updates)
{
    size_t last = GW_STALENESS_BUCKETS - 1;
    return updates < last ? (size_t)updates : last;
}

double gw_staleness_mean(const struct gw_staleness *of, size_t n)
{
    double sum = 0, chunks = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < GW_STALENESS_BUCKETS; b++) {
            sum += (double)b * (double)of[i].chunks[b];
            chunks += (double)of[i].chunks[b];
        }
    return chunks > 0 ? sum / chunks : 0;
}

size_t gw_staleness_used(const struct gw_staleness *of)
{
    size_t n = GW_STALENESS_BUCKETS;
    while (n > 0 && of->chunks[n - 1] == 0)
        n--;
    return n;
}

/* Text that grows behind `used` bytes, and counts on when it is full. */
struct cursor {
    char *text;
    size_t room, used;
};

static void put(struct cursor *at, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct cursor *at, const char *format, ...)
{
    size_t left = at->used < at->room ? at->room - at->used : 0;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(left ? at->text + at->used : NULL, left, format, args);
    va_end(args);
    at->used += n > 0 ? (size_t)n : 0;
}

size_t
gw_staleness_print(const struct gw_staleness *of, char *text, size_t text_bytes)
{
    struct cursor at = {.text = text, .room = text_bytes};
    size_t n = gw_staleness_used(of);
    const char *before = " (";
    if (text_bytes > 0)
        text[0] = '\0';
    if (n == 0)
        return 0;
    put(&at, "staleness %.2f", gw_staleness_mean(of, 1));
    for (size_t b = 0; b < n; b++) {
        if (of->chunks[b] == 0)
            continue;
        put(&at, "%s%zu: %" PRIu64, before, b, of->chunks[b]);
        before = ", ";
    }
    put(&at, ")");
    return at.used;
}
