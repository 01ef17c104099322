#include "config.h"

#include "cli/launch_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "cli/child_run.h"
#include "server/checkpoint/begin.h"

#define SPAN_NS ((uint64_t)600 * 1000000000)

/* For a disk that does not answer. */
#define LOOK_SECONDS 10

/* ---- the newest checkpoint ---- */

/* In a process of its own: says its step. */
static enum gw_status look(const void *owner, struct gw_error *said)
{
    const struct gw_config *config = owner;
    struct gw_disk disk = {.ops = &gw_disk_posix_ops};
    uint64_t step;
    if (!gw_begin_newest(&disk, config->checkpoint.dir, &step))
        return GW_ENOENT;
    snprintf(said->text, sizeof said->text, "%" PRIu64, step);
    return GW_OK;
}

/* GW_ENOENT: there is none. Other failures with a line. */
static enum gw_status find_checkpoint(const struct gw_config *config,
                                      uint64_t *step_p)
{
    struct gw_error said;
    enum gw_status status = gw_child_run(look, config, LOOK_SECONDS, &said);
    if (status == GW_OK)
        *step_p = strtoull(said.text, NULL, 10);
    else if (status != GW_ENOENT)
        gw_launch_say("%.200s does not answer, so --resume may have nothing to "
                      "go on from",
                      config->checkpoint.dir);
    return status;
}

/* ---- again, or not ---- */

/* Forgets times that are too old to count; returns how many are left. */
static unsigned count_recent(struct gw_launch_again *again, uint64_t now)
{
    unsigned n = 0;
    for (unsigned i = 0; i < again->n; i++)
        if (now - again->at_ns[i] < SPAN_NS)
            again->at_ns[n++] = again->at_ns[i];
    again->n = n;
    return n;
}

int gw_launch_count_again(struct gw_launch_again *again,
                          const struct gw_config *config)
{
    uint64_t now = uv_hrtime();
    if (count_recent(again, now) >= config->cluster.restarts)
        return 0;
    again->at_ns[again->n++] = now;
    return 1;
}

/* The job is not begun again. A coordinator that died has not told that
   --resume can, nor has one that ended while its first checkpoint was being
   completed. */
static void leave(struct gw_launched_end *end,
                  enum gw_status found,
                  uint64_t step,
                  const char *dir)
{
    if (found == GW_OK)
        end->code = GW_EXIT_INTERRUPTED;
    if (found == GW_OK && (end->is_untold || !end->has_saved))
        gw_launch_say("--resume goes on from step %" PRIu64, step);
    else if (found == GW_ENOENT && end->has_saved)
        gw_launch_say("no checkpoint is left in %.200s", dir);
}

int gw_launch_again(struct gw_launch_again *again,
                    struct gw_launch_options *options,
                    struct gw_launched_end *end)
{
    const struct gw_config *config = options->config;
    uint64_t step = 0;
    if (!end->is_lost || !config->checkpoint.dir[0])
        return 0;
    enum gw_status found = find_checkpoint(config, &step);
    int can = found == GW_OK || (found == GW_ENOENT && !end->has_saved);
    if (can && gw_launch_count_again(again, config)) {
        options->resume = found == GW_OK;
        gw_launch_say("the job begins again from step %" PRIu64
                      " (restart %u of %" PRIu64 " in ten minutes)",
                      step, again->n, config->cluster.restarts);
        return 1;
    }
    if (can && again->n > 0)
        gw_launch_say("%u restart%s in ten minutes: no more (cluster.restarts)",
                      again->n, gw_plural(again->n));
    leave(end, found, step, config->checkpoint.dir);
    return 0;
}
