/* The table of a study: a row for each point. */
#include "config.h"

#include "cli/study/study_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct spread {
    size_t n;
    double sum, squares;
};

static void take(struct spread *spread, int is, double value)
{
    if (!is || !isfinite(value))
        return;
    spread->n++;
    spread->sum += value;
    spread->squares += value * value;
}

/* Columns with numbers. */
enum {
    FIGURE_ACCURACY,
    FIGURE_LOSS,
    FIGURE_TO_LOSS,
    FIGURE_TO_LOSS_STEPS,
    FIGURE_TO_LOSS_BYTES,
    FIGURE_TO_ACCURACY,
    FIGURE_TO_ACCURACY_STEPS,
    FIGURE_TO_ACCURACY_BYTES,
    FIGURE_WALL,
    FIGURE_STEP,
    FIGURE_BYTES,
    FIGURE_RATE,
    FIGURE_STALE,
    FIGURE_STALE_P99,
    FIGURES
};

static const struct {
    const char *name;
    double unit; /* value of 1 in the table */
    int digits;
} figures[FIGURES] = {
    [FIGURE_ACCURACY] = {"accuracy %", 0.01, 2},
    [FIGURE_LOSS] = {"loss", 1, 4},
    [FIGURE_TO_LOSS] = {"to loss s", 1, 2},
    [FIGURE_TO_LOSS_STEPS] = {"steps", 1, 0},
    [FIGURE_TO_LOSS_BYTES] = {"MB", 1e6, 1},
    [FIGURE_TO_ACCURACY] = {"to accuracy s", 1, 2},
    [FIGURE_TO_ACCURACY_STEPS] = {"steps", 1, 0},
    [FIGURE_TO_ACCURACY_BYTES] = {"MB", 1e6, 1},
    [FIGURE_WALL] = {"time s", 1, 2},
    [FIGURE_STEP] = {"step ms", 1e-3, 2},
    [FIGURE_BYTES] = {"all MB", 1e6, 1},
    [FIGURE_RATE] = {"samples/s", 1, 0},
    [FIGURE_STALE] = {"staleness", 1, 2},
    [FIGURE_STALE_P99] = {"p99", 1, 0},
};

struct point {
    const struct gw_study_result *first;
    size_t runs, failed;
    struct spread figure[FIGURES];
};

static void add_result(struct point *point, const struct gw_study_result *one)
{
    struct spread *figure = point->figure;
    const struct gw_study_reached *loss = &one->loss;
    const struct gw_study_reached *accuracy = &one->accuracy;
    if (!point->first)
        point->first = one;
    point->runs++;
    point->failed += one->why != NULL;
    if (one->why)
        return;
    take(&figure[FIGURE_ACCURACY], one->final_accuracy >= 0,
         one->final_accuracy);
    take(&figure[FIGURE_LOSS], isfinite(one->final_loss), one->final_loss);
    take(&figure[FIGURE_TO_LOSS], loss->is, loss->wall_s);
    take(&figure[FIGURE_TO_LOSS_STEPS], loss->is, (double)loss->step);
    take(&figure[FIGURE_TO_LOSS_BYTES], loss->is, (double)loss->bytes);
    take(&figure[FIGURE_TO_ACCURACY], accuracy->is, accuracy->wall_s);
    take(&figure[FIGURE_TO_ACCURACY_STEPS], accuracy->is,
         (double)accuracy->step);
    take(&figure[FIGURE_TO_ACCURACY_BYTES], accuracy->is,
         (double)accuracy->bytes);
    take(&figure[FIGURE_WALL], 1, one->wall_s);
    take(&figure[FIGURE_STEP], isfinite(one->step_s), one->step_s);
    take(&figure[FIGURE_BYTES], 1, (double)one->bytes);
    take(&figure[FIGURE_RATE], 1, one->samples_per_s);
    take(&figure[FIGURE_STALE], 1, one->staleness_mean);
    take(&figure[FIGURE_STALE_P99], 1, (double)one->staleness_p99);
}

/* Diverged figures may have any size. */
static int print_number(char *text, size_t room, double number, int digits)
{
    return fabs(number) < 1e9 ? snprintf(text, room, "%.*f", digits, number)
                              : snprintf(text, room, "%.2e", number);
}

/* Prints "91.20 +-0.13", with the number of runs if some lack the figure. */
static void print_figure(const struct point *point, size_t which, char text[64])
{
    const struct spread *spread = &point->figure[which];
    const int digits = figures[which].digits;
    double n = (double)spread->n, mean, squares;
    if (spread->n == 0) {
        strcpy(text, "-");
        return;
    }
    mean = spread->sum / n;
    int used = print_number(text, 64, mean / figures[which].unit, digits);
    squares = spread->squares - n * mean * mean;
    if (spread->n > 1) {
        used += snprintf(text + used, 64 - (size_t)used, " +-");
        used += print_number(text + used, 64 - (size_t)used,
                             sqrt(squares > 0 ? squares / (n - 1) : 0) /
                                 figures[which].unit,
                             digits);
    }
    if (spread->n < point->runs)
        snprintf(text + used, 64 - (size_t)used, " (%zu of %zu)", spread->n,
                 point->runs);
}

struct table {
    size_t points;
    struct point *point;
    int axis[GW_STUDY_AXES]; /* the axis differs between points */
    int figure[FIGURES];     /* some point has it */
};

static void fill_table(const struct gw_study *study,
                       const struct gw_study_result *results,
                       struct table *table)
{
    for (size_t i = 0; i < study->runs; i++)
        add_result(&table->point[results[i].run->point], &results[i]);
    for (size_t p = 0; p < table->points; p++) {
        const struct point *point = &table->point[p];
        for (size_t axis = 0; axis < GW_STUDY_SEED; axis++)
            table->axis[axis] |=
                strcmp(point->first->value[axis],
                       table->point[0].first->value[axis]) != 0;
        for (size_t f = 0; f < FIGURES; f++)
            table->figure[f] |= point->figure[f].n > 0;
    }
}

/* p 0: the heading. */
static void
cell_of(const struct table *table, size_t column, size_t p, char text[64])
{
    const struct point *point = p ? &table->point[p - 1] : NULL;
    size_t figure = column - GW_STUDY_SEED - 1;
    if (column < GW_STUDY_SEED)
        snprintf(text, 64, "%s",
                 point ? point->first->value[column]
                       : gw_study_axis_name((enum gw_study_axis)column));
    else if (column == GW_STUDY_SEED && !point)
        strcpy(text, "runs");
    else if (column == GW_STUDY_SEED && point->failed)
        snprintf(text, 64, "%zu, %zu failed", point->runs, point->failed);
    else if (column == GW_STUDY_SEED)
        snprintf(text, 64, "%zu", point->runs);
    else if (!point)
        snprintf(text, 64, "%s", figures[figure].name);
    else
        print_figure(point, figure, text);
}

static int is_shown(const struct table *table, size_t column)
{
    if (column < GW_STUDY_SEED)
        return table->axis[column];
    return column == GW_STUDY_SEED || table->figure[column - GW_STUDY_SEED - 1];
}

static void print_table(const struct table *table, FILE *out)
{
    const size_t columns = GW_STUDY_SEED + 1 + FIGURES;
    int width[GW_STUDY_SEED + 1 + FIGURES] = {0};
    char text[64];
    for (size_t p = 0; p <= table->points; p++)
        for (size_t c = 0; c < columns; c++) {
            cell_of(table, c, p, text);
            if (width[c] < (int)strlen(text))
                width[c] = (int)strlen(text);
        }
    for (size_t p = 0; p <= table->points; p++) {
        const char *between = "";
        for (size_t c = 0; c < columns; c++) {
            if (!is_shown(table, c))
                continue;
            cell_of(table, c, p, text);
            fprintf(out, "%s%*s", between,
                    c < GW_STUDY_SEED ? -width[c] : width[c], text);
            between = "  ";
        }
        fputc('\n', out);
    }
}

enum gw_status gw_study_print(const struct gw_study *study,
                              const struct gw_study_result *results,
                              FILE *out,
                              struct gw_error *error)
{
    struct table table = {.points = study->points};
    table.point = calloc(study->points, sizeof *table.point);
    if (!table.point)
        return gw_fail(error, GW_ENOMEM, "no memory for the table");
    fill_table(study, results, &table);
    print_table(&table, out);
    free(table.point);
    return GW_OK;
}
