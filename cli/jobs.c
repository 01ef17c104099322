#include "config.h"

#include "cli/jobs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "transport/member/ask.h"

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

enum gw_status gw_jobs_ask(const char *path,
                           const struct gw_request *order,
                           uint64_t limit_us,
                           char **text_p,
                           struct gw_error *error)
{
    char address[512];
    snprintf(address, sizeof address, "unix:%.500s", path);
    const struct gw_ask_options options = {
        .coordinator = address,
        .interface = "",
        .request = GW_ASK_STATUS,
        .order = order,
        .limit_us = limit_us,
    };
    return gw_ask(&options, text_p, error);
}

/* Asks each job with an equal part of the remaining time. */
static void ask_all(const struct gw_local_jobs *all,
                    uint64_t pid,
                    uint64_t until_us,
                    struct gw_jobs *jobs)
{
    for (size_t i = 0; i < all->n; i++) {
        struct gw_jobs_one *one = &jobs->one[jobs->n];
        uint64_t now = now_us(), left = until_us > now ? until_us - now : 0;
        struct gw_error unheard;
        one->job = all->job[i];
        if (pid && pid != one->job.pid)
            continue;
        enum gw_status status = gw_jobs_ask(
            one->job.path, NULL, left / (all->n - i) + 1, &one->text, &unheard);
        if (status != GW_OK)
            one->text = NULL;
        jobs->n += status != GW_EUNREACHABLE;
    }
}

enum gw_status gw_jobs_find(struct gw_jobs **jobs_p,
                            uint64_t pid,
                            uint64_t limit_us,
                            struct gw_error *error)
{
    uint64_t until_us = now_us() + limit_us;
    struct gw_local_jobs *all = calloc(1, sizeof *all);
    *jobs_p = calloc(1, sizeof **jobs_p);
    enum gw_status status =
        all && *jobs_p
            ? gw_local_list(all, error)
            : gw_fail(error, GW_ENOMEM, "no memory to look for jobs");
    if (status == GW_OK)
        ask_all(all, pid, until_us, *jobs_p);
    free(all);
    return status;
}

void gw_jobs_free(struct gw_jobs *jobs)
{
    for (size_t i = 0; jobs && i < jobs->n; i++)
        free(jobs->one[i].text);
    free(jobs);
}

void gw_jobs_list(const struct gw_jobs *jobs, FILE *to)
{
    for (size_t i = 0; i < jobs->n; i++) {
        const struct gw_jobs_one *one = &jobs->one[i];
        const char *text = one->text ? one->text : "does not answer";
        fprintf(to, "  %-8" PRIu32 " %.*s\n", one->job.pid,
                (int)strcspn(text, "\n"), text);
    }
}
