/* A job with data, and its memory, for tests. */
#ifndef GW_TESTS_UNIT_NEEDS_JOB_H
#define GW_TESTS_UNIT_NEEDS_JOB_H

#include "cli/needs.h"

struct needs_job {
    struct gw_config config;
    struct gw_worker_case what;
    struct gw_map *map;
    struct gw_needs needs;
};

/* Around all tests of a program. */
int needs_data_open(void **state);
int needs_data_close(void **state);

/* On the cpu; settings end with NULL. Fails the test. */
struct needs_job *needs_job_open(const char *const *settings);
void needs_job_close(struct needs_job *job);

enum gw_status needs_check(struct needs_job *job,
                           const struct gw_needs_host *host,
                           struct gw_error *error);
/* The number that a refusal advises, behind `key`. */
uint64_t needs_advised(const struct gw_error *error, const char *key);

#endif
