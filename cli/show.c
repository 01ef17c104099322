#include "config.h"

#include "cli/show.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/printer.h"
#include "proto/digest.h"
#include "worker/trainer/environment.h"

#define COLUMN "%-11s "

/* Rates over shorter times are noise: reports come in bursts. */
#define RATE_US 200000
#define PACE_US 2000000

void gw_show_open(struct gw_show *show, struct gw_printer *printer, int fd)
{
    const char *kind = gw_environment_get("TERM");
    int dumb = kind && strcmp(kind, "dumb") == 0;
    show->printer = printer;
    show->out = gw_printer_stream(printer);
    show->terminal = isatty(fd) && !dumb ? fd : -1;
    show->pace = -1;
}

void gw_show_running(struct gw_show *show, uint64_t step, uint64_t began_us)
{
    show->first_step = step;
    show->began_us = show->since_us = began_us;
}

/* ---- progress ---- */

static void print_duration(char text[32], double seconds)
{
    uint64_t s = (uint64_t)(seconds + 0.5);
    if (s < 3600)
        snprintf(text, 32, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
    else
        snprintf(text, 32, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600,
                 s / 60 % 60, s % 60);
}

static void print_progress(const struct gw_show *show, uint64_t step)
{
    const struct gw_step_report *last = &show->last;
    char eta[32] = "-";
    uint64_t left = last->total_steps > step ? last->total_steps - step : 0;
    double steps_per_s = show->steps_per_s;
    double samples_per_s = show->samples_per_s;
    double gigabytes_per_s = show->gigabytes_per_s;
    if (show->pace >= 0) {
        double steps = (double)(last->step + 1 - show->first_step);
        double bytes = (double)(last->bytes_pushed + last->bytes_pulled);
        steps_per_s = show->pace;
        samples_per_s = show->pace * (double)last->all_samples / steps;
        gigabytes_per_s = show->pace * bytes / steps / 1e9;
    }
    if (steps_per_s > 0)
        print_duration(eta, (double)left / steps_per_s);
    char line[256], outcome[64];
    if (last->samples > 0)
        snprintf(outcome, sizeof outcome, "loss %.4f  %.0f samples/s",
                 last->loss, samples_per_s);
    else /* of a program that does not tell it */
        snprintf(outcome, sizeof outcome, "%.1f steps/s", steps_per_s);
    if (last->total_steps == GW_STEPS_OPEN) /* its program knows the end */
        snprintf(line, sizeof line, "step %" PRIu64 "  %s  %.3f GB/s", step,
                 outcome, gigabytes_per_s);
    else
        snprintf(line, sizeof line,
                 "step %" PRIu64 "/%" PRIu64 "  epoch %" PRIu64
                 "  %s  %.3f GB/s  ETA %s",
                 step, last->total_steps, last->epoch, outcome, gigabytes_per_s,
                 eta);
    /* a wrapped line cannot be rewritten in place */
    struct winsize size;
    if (show->terminal >= 0 && ioctl(show->terminal, TIOCGWINSZ, &size) == 0 &&
        size.ws_col > 1 && size.ws_col < sizeof line)
        line[size.ws_col - 1] = '\0';
    fputs(line, show->out);
}

static void update_rates(struct gw_show *show,
                         const struct gw_step_report *report,
                         uint64_t now_us)
{
    const struct gw_step_report *since = &show->since;
    uint64_t us = now_us - show->since_us;
    uint64_t steps = report->step - since->step;
    if (us == 0 || (us < RATE_US && show->has_last))
        return;
    if (!show->has_last)
        steps = report->step + 1 - show->first_step;
    uint64_t bytes = report->bytes_pushed + report->bytes_pulled -
                     since->bytes_pushed - since->bytes_pulled;
    double seconds = (double)us / 1e6;
    show->steps_per_s = (double)steps / seconds;
    show->samples_per_s =
        (double)(report->all_samples - since->all_samples) / seconds;
    show->gigabytes_per_s = (double)bytes / seconds / 1e9;
    show->since = *report;
    show->since_us = now_us;
}

void gw_show_step(struct gw_show *show,
                  const struct gw_step_report *report,
                  uint64_t now_us)
{
    int first = !show->has_last;
    if (!first && report->step <= show->last.step)
        return; /* late */
    update_rates(show, report, now_us);
    show->last = *report;
    show->has_last = 1;
    if (show->terminal >= 0) {
        if (first)
            gw_show_refresh(show, report->step, now_us);
        return;
    }
    print_progress(show, report->step);
    fputc('\n', show->out);
    fflush(show->out);
}

static void update_pace(struct gw_show *show, uint64_t step, uint64_t now_us)
{
    struct gw_show_mark *mark = show->mark;
    const struct gw_show_mark here = {step, now_us};
    if (mark[1].us == 0) {
        mark[0] = mark[1] = here;
    } else if (now_us - mark[1].us >= PACE_US) {
        mark[0] = mark[1];
        mark[1] = here;
    }
    if (now_us - mark[0].us >= RATE_US)
        show->pace = (double)(step - mark[0].step) /
                     ((double)(now_us - mark[0].us) / 1e6);
}

void gw_show_refresh(struct gw_show *show, uint64_t step, uint64_t now_us)
{
    if (show->terminal < 0 || !show->has_last || show->ended_us ||
        !gw_printer_is_idle(show->printer))
        return;
    step = step > show->last.step ? step : show->last.step;
    update_pace(show, step, now_us);
    fputs("\r\033[K", show->out);
    print_progress(show, step);
    fflush(show->out);
}

void gw_show_line(const struct gw_show *show, const char *format, ...)
{
    va_list args;
    if (show->terminal >= 0)
        fputs("\r\033[K", show->out);
    va_start(args, format);
    vfprintf(show->out, format, args);
    va_end(args);
    fputc('\n', show->out);
    fflush(show->out);
}

/* ---- the end ---- */

double gw_show_wall_s(const struct gw_show *show)
{
    if (!show->began_us || show->ended_us < show->began_us)
        return 0;
    return (double)(show->ended_us - show->began_us) / 1e6;
}

double gw_show_mean_samples_per_s(const struct gw_show *show,
                                  const struct gw_final_report *report)
{
    double seconds = gw_show_wall_s(show);
    uint64_t samples = report->workers.value[GW_METRIC_SAMPLES];
    return seconds > 0 ? (double)samples / seconds : 0;
}

/* Of a rank. */
static double mean_steps_per_s(const struct gw_show *show,
                               const struct gw_final_report *report)
{
    double seconds = gw_show_wall_s(show);
    double steps = (double)report->workers.value[GW_METRIC_STEPS] /
                   (double)show->last.workers;
    return seconds > 0 ? steps / seconds : 0;
}

static double mebibytes(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void print_speed(const struct gw_show *show,
                        const struct gw_final_report *report)
{
    char wall[32], lost[32];
    print_duration(wall, gw_show_wall_s(show));
    print_duration(lost, (double)show->clock.lost_us / 1e6);
    fprintf(show->out, COLUMN, "speed");
    if (show->has_last && show->last.samples == 0)
        fprintf(show->out, "%.1f steps/s", mean_steps_per_s(show, report));
    else
        fprintf(show->out, "%.0f samples/s",
                gw_show_mean_samples_per_s(show, report));
    fprintf(show->out, ", %s (%.1f s)", wall, gw_show_wall_s(show));
    if (show->clock.lost_us)
        fprintf(show->out,
                ", without %s in which the job was paused, or the clock jumped",
                lost);
    else if (show->clock.jumps)
        fputs(", by a clock that jumped back", show->out);
    fputc('\n', show->out);
}

void gw_show_final(struct gw_show *show,
                   const struct gw_final_report *report,
                   const struct gw_config *config,
                   uint64_t rss_coordinator)
{
    FILE *out = show->out;
    char hex[2 * GW_DIGEST_BYTES + 1];
    if (show->terminal >= 0)
        fputs("\r\033[K", out);
    fflush(out);
    if (report->status != GW_OK && report->status != GW_EINTERRUPTED)
        return;
    if (report->status == GW_OK)
        fprintf(out, COLUMN "%s\n", "done", report->text);
    if (report->has_score)
        fprintf(out,
                COLUMN "%.4f of the test set, loss %.4f, step %" PRIu64 "\n",
                "accuracy", report->score.accuracy, report->score.loss,
                report->score.step);
    if (show->has_last && show->last.samples > 0)
        fprintf(out, COLUMN "%.4f in the last logged step, %" PRIu64 "\n",
                "loss", show->last.loss, show->last.step);
    print_speed(show, report);
    fprintf(out, COLUMN, "memory");
    /* 0: no process had that role */
    if (report->rss_worker)
        fprintf(out, "worker %.0f MiB, ", mebibytes(report->rss_worker));
    if (report->rss_server)
        fprintf(out, "server %.0f MiB, ", mebibytes(report->rss_server));
    fprintf(out, "coordinator %.0f MiB\n", mebibytes(rss_coordinator));
    if (report->has_checkpoint)
        fprintf(out, COLUMN "step %" PRIu64 " in %s\n", "checkpoint",
                report->checkpoint, config->checkpoint.dir);
    if (report->has_weights) {
        gw_digest_hex(report->weights_sha256, hex);
        fprintf(out, COLUMN "sha256 %s\n", "weights", hex);
    }
    fflush(out);
}
