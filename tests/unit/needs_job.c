#include "config.h"

#include "tests/unit/needs_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/sim/cluster.h"

static struct gw_dataset *train, *test;

int needs_data_open(void **state)
{
    (void)state;
    cluster_data_open(&train, &test);
    return 0;
}

int needs_data_close(void **state)
{
    (void)state;
    gw_dataset_close(train);
    gw_dataset_close(test);
    return 0;
}

struct needs_job *needs_job_open(const char *const *settings)
{
    struct needs_job *job = calloc(1, sizeof *job);
    struct gw_error error = {.text = ""};
    uint64_t flop;
    assert_non_null(job);
    cluster_config(&job->config, settings);
    job->what =
        (struct gw_worker_case){.config = &job->config,
                                .train = train,
                                .test = test,
                                .backend = gw_backend_find("cpu", NULL)};
    if (gw_worker_map(&job->what, &job->map, &flop, &error) != GW_OK ||
        gw_needs_count(&job->what, job->map, NULL, &job->needs, &error) !=
            GW_OK)
        fail_msg("%s", error.text);
    return job;
}

void needs_job_close(struct needs_job *job)
{
    gw_map_destroy(job->map);
    free(job);
}

enum gw_status needs_check(struct needs_job *job,
                           const struct gw_needs_host *host,
                           struct gw_error *error)
{
    return gw_needs_check(&job->what, host, error);
}

uint64_t needs_advised(const struct gw_error *error, const char *key)
{
    const char *at = strstr(error->text, key);
    if (!at || !strstr(error->text, "does not fit: "))
        fail_msg("no %s: %s", key, error->text);
    return strtoull(at + strlen(key), NULL, 10);
}
