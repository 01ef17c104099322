/* The final report, as it comes together while the job runs and ends. */
#include "config.h"

#include "server/coordinator/coordinator_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gw_final {
    struct gw_final_report report;
    char text[GW_ERROR_TEXT_BYTES];
};

enum gw_status gw_final_open(struct gw_coordinator *self,
                             struct gw_error *error)
{
    self->final = calloc(1, sizeof *self->final);
    return self->final
               ? GW_OK
               : gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
}

void gw_final_close(struct gw_coordinator *self)
{
    free(self->final);
    self->final = NULL;
}

void gw_final_set_score(struct gw_coordinator *self,
                        const struct gw_score_report *score)
{
    self->final->report.has_score = 1;
    self->final->report.score = *score;
}

void gw_final_set_weights(struct gw_coordinator *self, const uint8_t *sha256)
{
    self->final->report.has_weights = 1;
    memcpy(self->final->report.weights_sha256, sha256, GW_DIGEST_BYTES);
}

/* ---- checkpoints ---- */

/* Two may be in progress, and the older one may be complete last. */
void gw_final_add_checkpoint(struct gw_coordinator *self, uint64_t clock)
{
    struct gw_final_report *report = &self->final->report;
    if (!report->has_checkpoint || clock > report->checkpoint)
        report->checkpoint = clock;
    report->has_checkpoint = 1;
}

/* A newer one that is not known to be safe on the disk does not count. */
void gw_final_found_checkpoint(struct gw_coordinator *self, uint64_t clock)
{
    if (clock < self->final->report.checkpoint)
        self->final->report.checkpoint = clock;
}

void gw_final_found_none(struct gw_coordinator *self)
{
    self->final->report.has_checkpoint = 0;
}

int gw_final_checkpoint(const struct gw_coordinator *self, uint64_t *clock_p)
{
    const struct gw_final_report *report = &self->final->report;
    if (report->has_checkpoint && clock_p)
        *clock_p = report->checkpoint;
    return report->has_checkpoint;
}

int gw_coordinator_has_checkpoint(const struct gw_coordinator *self)
{
    return gw_final_checkpoint(self, NULL);
}

/* ---- the end ---- */

void gw_final_set_text(struct gw_coordinator *self,
                       enum gw_status status,
                       const char *format,
                       va_list args)
{
    struct gw_final *final = self->final;
    gw_text_print(final->text, sizeof final->text, format, args);
    gw_text_clean(final->text); /* it may quote a member */
    final->report.status = status;
}

void gw_final_set_status(struct gw_coordinator *self, enum gw_status status)
{
    self->final->report.status = status;
}

void gw_final_add_text(struct gw_coordinator *self, const char *text)
{
    struct gw_final *final = self->final;
    size_t used = strlen(final->text);
    snprintf(final->text + used, sizeof final->text - used, "%s", text);
}

enum gw_status gw_final_status(const struct gw_coordinator *self)
{
    return self->final->report.status;
}

struct gw_message gw_final_message(const struct gw_coordinator *self)
{
    return (struct gw_message){.kind = GW_MESSAGE_END,
                               .end = {.status = self->final->report.status,
                                       .clock = gw_steps_known(self),
                                       .text = self->final->text}};
}

static void collect(const struct gw_seat *one, struct gw_final_report *report)
{
    for (; one; one = one->next) {
        int worker = one->role == GW_ROLE_WORKER;
        uint64_t *rss = worker ? &report->rss_worker : &report->rss_server;
        struct gw_metrics_snapshot *sum =
            worker ? &report->workers : &report->servers;
        if (one->rss_bytes > *rss)
            *rss = one->rss_bytes;
        gw_metrics_join(&one->counters, sum);
    }
}

void gw_final_give(struct gw_coordinator *self)
{
    struct gw_final *final = self->final;
    collect(gw_roster_first(self), &final->report);
    collect(gw_roster_gone(self), &final->report);
    final->report.text = final->text;
    final->report.step = gw_steps_known(self);
    self->options.events->finished(self->options.owner, &final->report);
}
