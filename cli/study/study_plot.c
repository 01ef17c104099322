#include "config.h"

#include "cli/study/study_plot.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/study/study_sheet.h"
#include "cli/study/study_write.h"

/*
 * Okabe and Ito's colours (2008), distinct under common colour blindness,
 * without yellow and black, which are invisible on white or dark pages. After
 * all of them lines are dashed.
 */
static const char *const colours[GW_STUDY_COLOURS] = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"};

const char *gw_study_colour(size_t i)
{
    return colours[i % GW_STUDY_COLOURS];
}

/* Non-zero if the axis differs between runs of the study. */
static int differs(const struct gw_study *study,
                   const struct gw_study_result *results,
                   size_t axis)
{
    for (size_t i = 1; i < study->runs; i++)
        if (strcmp(results[i].value[axis], results[0].value[axis]) != 0)
            return 1;
    return 0;
}

/* "async, straggler none", which tells a run's point from others; cut to fit.
 */
static void label_of(const struct gw_study *study,
                     const struct gw_study_result *results,
                     size_t run,
                     char *text,
                     size_t room)
{
    size_t used = 0;
    snprintf(text, room, "%s", results[run].value[GW_STUDY_POLICY]);
    for (size_t axis = 0; axis < GW_STUDY_SEED && used < room; axis++) {
        const char *value = results[run].value[axis];
        int plain = axis == GW_STUDY_VARY || axis == GW_STUDY_POLICY;
        if (!value[0] || !differs(study, results, axis))
            continue;
        used += (size_t)snprintf(
            text + used, room - used, "%s%s%s%s", used ? ", " : "",
            plain ? "" : gw_study_axis_name((enum gw_study_axis)axis),
            plain ? "" : " ", value);
    }
}

/* Text between double quotes. */
static void quote(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

void gw_study_quote_label(const struct gw_study_sheet *sheet, size_t run)
{
    char label[128];
    label_of(sheet->study, sheet->results, run, label, sizeof label);
    quote(sheet->out, label);
}

/* ---- scripts ---- */

static const struct gw_study_plot plots[] = {
    {.name = "loss_time",
     .title = "Loss against time",
     .what = "Each run a line, runs of one point in one colour."},
    {.name = "loss_steps",
     .title = "Loss against steps",
     .what = "A step is one update of each worker."},
    {.name = "loss_bytes",
     .title = "Loss against bytes",
     .what = "Payload that workers pushed and pulled, all together."},
    {.name = "accuracy_time",
     .title = "Accuracy against time",
     .what = "As it was scored on the way."},
    {.name = "staleness",
     .title = "Staleness",
     .what = "Of the first run of each point; 0 where clocks are waited for."},
    {.name = "throughput",
     .title = "Throughput",
     .what = "The mean over the runs of each point; bars from the least to the "
             "most."},
    {.name = "timeline",
     .title = "Who waited for whom",
     .what = "The first computations of each worker, in the first run of each "
             "point. A thin bar is a wait, in the colour of the worker that it "
             "was for, or grey: for servers and the network.",
     .simulated = 1},
};
#define PLOTS (sizeof plots / sizeof *plots)

static void (*const drawers[PLOTS])(const struct gw_study_sheet *sheet) = {
    gw_study_draw_loss_time,  gw_study_draw_loss_steps,
    gw_study_draw_loss_bytes, gw_study_draw_accuracy_time,
    gw_study_draw_staleness,  gw_study_draw_throughput,
    gw_study_draw_timeline,
};

const struct gw_study_plot *gw_study_plots(size_t *n_p)
{
    *n_p = PLOTS;
    return plots;
}

static size_t height_of(const struct gw_study *study, size_t plot)
{
    size_t panels =
        study->points < GW_STUDY_PANELS ? study->points : GW_STUDY_PANELS;
    if (drawers[plot] == gw_study_draw_timeline)
        return 60 + 170 * panels;
    if (drawers[plot] == gw_study_draw_throughput)
        return 90 + 30 * study->points;
    return 420 + 18 * ((study->points + 1) / 2);
}

/* Plots twice, as SVG and as PNG. */
static void write_script(const struct gw_study_sheet *sheet, size_t plot)
{
    size_t height = height_of(sheet->study, plot);
    static const char *const endings[] = {"svg", "png"};
    for (size_t i = 0; i < 2; i++) {
        fprintf(sheet->out, "reset\n");
        if (i == 0)
            fprintf(sheet->out,
                    "set terminal svg size 760,%zu dynamic font "
                    "'sans-serif,13' linewidth 1 name '%s'\n",
                    height, plots[plot].name);
        else
            fprintf(sheet->out,
                    "set terminal pngcairo size 1140,%zu font "
                    "'sans-serif,13' background rgb 'white'\n",
                    height * 3 / 2);
        fprintf(sheet->out,
                "set output '%s.%s'\n"
                "set termoption noenhanced\n"
                "set border 3 lc rgb '" GW_STUDY_INK "'\n"
                "set tics nomirror tc rgb '" GW_STUDY_INK "'\n"
                "set grid lc rgb '#888888' lw 0.5 dt 3\n"
                "set xlabel tc rgb '" GW_STUDY_INK "'\n"
                "set ylabel tc rgb '" GW_STUDY_INK "'\n"
                "set title tc rgb '" GW_STUDY_INK "'\n"
                "set key below left reverse Left tc rgb '" GW_STUDY_INK "'\n",
                plots[plot].name, endings[i]);
        drawers[plot](sheet);
        fputs("unset output\n", sheet->out);
    }
}

/* ---- gnuplot ---- */

static enum gw_status
run_gnuplot(const char *dir, const char *script, struct gw_error *error)
{
    const struct gw_child child = {.name = "gnuplot", .dies_by = SIGKILL};
    const char *const arguments[] = {"gnuplot", script, NULL};
    char log[4096 + 16];
    pid_t pid;
    snprintf(log, sizeof log, "%s/gnuplot.log", dir);
    int said = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    const struct gw_child_program program = {
        .file = "gnuplot",
        .arguments = arguments,
        .fd = {-1, STDOUT_FILENO, said, -1, -1},
        .directory = dir,
    };
    enum gw_status status = gw_child_start(&child, &program, &pid, error);
    if (said >= 0)
        close(said);
    if (status == GW_ENOENT)
        return gw_fail(error, GW_EUNSUPPORTED,
                       "the report has no plots: gnuplot is not here (Debian: "
                       "gnuplot-nox)");
    if (status != GW_OK)
        return status;
    int ended = gw_child_wait(pid);
    if (ended != 0)
        return gw_fail(error, GW_EIO,
                       "gnuplot cannot draw %s/%s; gnuplot.log there says why",
                       dir, script);
    return GW_OK;
}

enum gw_status gw_study_draw(const struct gw_study *study,
                             const struct gw_study_result *results,
                             const char *dir,
                             struct gw_error *error)
{
    enum gw_status status = GW_OK;
    char path[4096], name[64];
    snprintf(path, sizeof path, "%s/plots", dir);
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return gw_fail(error, GW_EIO, "cannot make directory %s: %s", path,
                       strerror(errno));
    for (size_t i = 0; i < PLOTS && status == GW_OK; i++) {
        if (plots[i].simulated && !study->simulated)
            continue;
        struct gw_study_sheet sheet = {
            .study = study, .results = results, .dir = dir};
        snprintf(name, sizeof name, "%s.gp", plots[i].name);
        struct gw_output output;
        status = gw_study_open_file(path, name, &output, error);
        if (status != GW_OK)
            return status;
        sheet.out = output.file;
        write_script(&sheet, i);
        status = gw_output_commit(&output, error);
        if (status == GW_OK)
            status = run_gnuplot(path, name, error);
    }
    return status;
}
