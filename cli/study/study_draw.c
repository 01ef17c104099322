/* Plots of a study: curves, staleness, throughput. */
#include "config.h"

#include "cli/study/study_sheet.h"

#include <math.h>
#include <string.h>

static void begin_style(FILE *out, size_t point)
{
    fprintf(out, "lc rgb '%s' dt %zu lw 1.5", gw_study_colour(point),
            point / GW_STUDY_COLOURS + 1);
}

/* ---- curves ---- */

enum abscissa {
    BY_TIME,
    BY_STEPS,
    BY_BYTES
};

static double abscissa_of(const struct gw_study_sample *sample,
                          enum abscissa by)
{
    switch (by) {
    case BY_TIME:
        return sample->wall_s;
    case BY_STEPS:
        return (double)sample->step;
    default:
        return (double)sample->bytes / 1e6;
    }
}

/* Writes a block of points per run, accuracies or losses. Returns their
   number. */
static size_t
write_curves(const struct gw_study_sheet *sheet, enum abscissa by, int accuracy)
{
    size_t all = 0;
    for (size_t i = 0; i < sheet->study->runs; i++) {
        const struct gw_study_result *result = &sheet->results[i];
        size_t points = 0;
        fprintf(sheet->out, "$run%zu << EOD\n", i);
        for (size_t k = 0; k < result->samples; k++) {
            const struct gw_study_sample *sample = &result->sample[k];
            double y = accuracy ? 100 * sample->accuracy : sample->loss;
            if (!isfinite(y) || y < 0)
                continue;
            fprintf(sheet->out, "%.9g %.9g\n", abscissa_of(sample, by), y);
            points++;
        }
        if (accuracy && result->final_accuracy >= 0) {
            const struct gw_study_sample end = {.step = result->steps,
                                                .bytes = result->bytes,
                                                .wall_s = result->wall_s};
            fprintf(sheet->out, "%.9g %.9g\n", abscissa_of(&end, by),
                    100 * result->final_accuracy);
            points++;
        }
        /* gnuplot refuses an empty block */
        fprintf(sheet->out, "%sEOD\n", points ? "" : "NaN NaN\n");
        all += points;
    }
    return all;
}

/* Runs of one point share a colour and a title. */
static void plot_curves(const struct gw_study_sheet *sheet, int accuracy)
{
    for (size_t i = 0; i < sheet->study->runs; i++) {
        size_t point = sheet->results[i].run->point;
        int first = i == 0 || sheet->results[i - 1].run->point != point;
        fprintf(sheet->out, "%s$run%zu with %s ", i ? ", " : "plot ", i,
                accuracy ? "linespoints pt 7 ps 0.4" : "lines");
        begin_style(sheet->out, point);
        fputs(first ? " title " : " notitle", sheet->out);
        if (first)
            gw_study_quote_label(sheet, i);
    }
    fputc('\n', sheet->out);
}

static void draw_curves(const struct gw_study_sheet *sheet,
                        enum abscissa by,
                        const char *axis,
                        int accuracy)
{
    size_t points = write_curves(sheet, by, accuracy);
    fprintf(sheet->out, "set xlabel '%s'\nset ylabel '%s'\n", axis,
            accuracy ? "test accuracy [%]"
                     : "training loss, mean of 5 logged steps [nats]");
    if (points == 0) /* every run failed at its begin */
        fputs("set xrange [0:1]\nset yrange [0:1]\n", sheet->out);
    else if (accuracy)
        fputs("set xrange [0:*]\n", sheet->out);
    else
        fputs("set xrange [0:*]\nset logscale y 2\nset autoscale yfix\n",
              sheet->out);
    plot_curves(sheet, accuracy);
}

void gw_study_draw_loss_time(const struct gw_study_sheet *sheet)
{
    draw_curves(sheet, BY_TIME, "time [s]", 0);
}

void gw_study_draw_loss_steps(const struct gw_study_sheet *sheet)
{
    draw_curves(sheet, BY_STEPS, "step [updates of all workers]", 0);
}

void gw_study_draw_loss_bytes(const struct gw_study_sheet *sheet)
{
    draw_curves(sheet, BY_BYTES, "pushed and pulled by all workers [MB]", 0);
}

void gw_study_draw_accuracy_time(const struct gw_study_sheet *sheet)
{
    draw_curves(sheet, BY_TIME, "time [s]", 1);
}

/* ---- staleness ---- */

void gw_study_draw_staleness(const struct gw_study_sheet *sheet)
{
    uint64_t last = 1;
    size_t points = 0;
    for (size_t i = 0; i < sheet->study->runs; i++) {
        const struct gw_study_result *result = &sheet->results[i];
        if (i > 0 && result[-1].run->point == result->run->point)
            continue; /* the point's first run */
        uint64_t all = 0;
        for (size_t k = 0; k < GW_STUDY_STALENESS; k++)
            all += result->late[k];
        fprintf(sheet->out, "$point%zu << EOD\n", result->run->point);
        for (size_t k = 0; k < GW_STUDY_STALENESS; k++) {
            if (all > 0)
                fprintf(sheet->out, "%zu %.9g\n", k,
                        100 * (double)result->late[k] / (double)all);
            if (result->late[k] > 0 && k > last)
                last = k;
        }
        fputs(all ? "EOD\n" : "0 100\nEOD\n", sheet->out);
    }
    fprintf(sheet->out,
            "set xlabel 'staleness [updates between pull and push]'\n"
            "set ylabel 'share of pushes [%%]'\nset xrange [-0.5:%.1f]\n"
            "set yrange [0:*]\n",
            (double)last + 0.5);
    for (size_t i = 0; i < sheet->study->runs; i++) {
        size_t point = sheet->results[i].run->point;
        if (i > 0 && sheet->results[i - 1].run->point == point)
            continue;
        fprintf(sheet->out, "%s$point%zu with linespoints pt 7 ps 0.4 ",
                points++ ? ", " : "plot ", point);
        begin_style(sheet->out, point);
        fputs(" title ", sheet->out);
        gw_study_quote_label(sheet, i);
    }
    fputc('\n', sheet->out);
}

/* ---- throughput ---- */

void gw_study_draw_throughput(const struct gw_study_sheet *sheet)
{
    const struct gw_study *study = sheet->study;
    fputs("$rate << EOD\n", sheet->out);
    for (size_t i = 0, end; i < study->runs; i = end) {
        double sum = 0, least = INFINITY, most = 0;
        size_t done = 0;
        for (end = i;
             end < study->runs && study->run[end].point == study->run[i].point;
             end++) {
            double rate = sheet->results[end].samples_per_s;
            if (sheet->results[end].why)
                continue;
            done++;
            sum += rate;
            least = rate < least ? rate : least;
            most = rate > most ? rate : most;
        }
        fprintf(sheet->out, "%zu %.9g %.9g %.9g ", study->run[i].point,
                done ? sum / (double)done : 0, done ? least : 0,
                done ? most : 0);
        gw_study_quote_label(sheet, i);
        fputc('\n', sheet->out);
    }
    fprintf(sheet->out,
            "EOD\nset xlabel 'throughput [samples/s]'\nset xrange [0:*]\n"
            "set format x '%%.0s %%c'\n"
            "set yrange [%.1f:-0.6]\nset style fill solid 0.7\nset key off\n"
            "plot $rate using (0.5 * $2):1:(0.5 * $2):(0.35):ytic(5) with "
            "boxxy lc rgb '%s', '' using 2:1:3:4 with xerrorbars pt 0 ps 0 lw "
            "1.5 lc rgb '%s'\n",
            (double)study->points - 0.4, gw_study_colour(0), GW_STUDY_INK);
}
