/*
 * Many seeds: each is one call, in processes of their own that share the cores,
 * so that a crash or a hang costs the seed its name and not the test its end.
 *
 *   GW_SIM_SEED=n    only seed n, in this process, where a debugger sees it
 *   GW_SIM_SEEDS=n   so many seeds, instead of what the test says
 *   GW_TEST_LOG=1    with the log lines of every simulated process
 */
#ifndef GW_TESTS_SWEEP_H
#define GW_TESTS_SWEEP_H

#include <stdint.h>

#define SWEEP_COUNTS   13
#define SWEEP_WHY_MAX  640
#define SWEEP_FAILURES 8 /* that are named */

struct sweep_outcome {
    char why[SWEEP_WHY_MAX];      /* what is wrong, "" for nothing */
    uint64_t count[SWEEP_COUNTS]; /* what happened; summed over all seeds */
};

/*
 * Calls `one` for seeds 1 to `seeds`. Prints a line for each that fails, and
 * the time taken. Returns how many failed; `sum` gets the counts of all.
 */
uint64_t sweep(const char *name,
               uint64_t seeds,
               void (*one)(uint64_t seed, struct sweep_outcome *outcome),
               uint64_t sum[SWEEP_COUNTS]);

/*
 * The same, where every seed must go well: prints the counts by their names
 * (NULL: there is no such count), and fails the test where a seed failed or,
 * over many seeds, something of it never happened.
 */
void sweep_all(const char *name,
               uint64_t seeds,
               void (*one)(uint64_t seed, struct sweep_outcome *outcome),
               const char *const happened[SWEEP_COUNTS]);

/* Non-zero when one seed is replayed: counts over many do not hold then. */
int sweep_is_replay(void);

#endif
