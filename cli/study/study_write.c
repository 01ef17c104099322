#include "config.h"

#include "cli/study/study_write.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#define PATH_BYTES 4096

/* ---- files ---- */

enum gw_status gw_study_open_file(const char *dir,
                                  const char *name,
                                  struct gw_output *output,
                                  struct gw_error *error)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return gw_output_open(path, output, error);
}

/* ---- a row for each run ---- */

struct cell {
    const char *name;
    enum {
        CELL_NONE,
        CELL_TEXT,
        CELL_COUNT,
        CELL_REAL
    } kind;
    const char *text;
    uint64_t count;
    double real;
};

#define CELLS 32

struct row {
    size_t n;
    struct cell cell[CELLS];
};

static void add_text(struct row *row, const char *name, const char *text)
{
    row->cell[row->n++] =
        (struct cell){.name = name, .kind = CELL_TEXT, .text = text};
}

static void add_count(struct row *row, const char *name, int is, uint64_t count)
{
    row->cell[row->n++] = (struct cell){
        .name = name, .kind = is ? CELL_COUNT : CELL_NONE, .count = count};
}

static void add_real(struct row *row, const char *name, int is, double real)
{
    row->cell[row->n++] =
        (struct cell){.name = name,
                      .kind = is && isfinite(real) ? CELL_REAL : CELL_NONE,
                      .real = real};
}

static void make_row(const struct gw_study_result *result, struct row *row)
{
    const struct gw_study_reached *loss = &result->loss;
    const struct gw_study_reached *accuracy = &result->accuracy;
    row->n = 0;
    add_text(row, "id", result->run->id);
    for (size_t axis = 0; axis < GW_STUDY_AXES; axis++)
        add_text(row, gw_study_axis_name((enum gw_study_axis)axis),
                 result->value[axis]);
    add_text(row, "end", result->why ? "failed" : "done");
    add_count(row, "steps", 1, result->steps);
    add_real(row, "wall_s", 1, result->wall_s);
    add_real(row, "step_s", 1, result->step_s);
    add_real(row, "samples_per_s", !result->why, result->samples_per_s);
    add_count(row, "bytes", 1, result->bytes);
    add_real(row, "loss", 1, result->final_loss);
    add_real(row, "accuracy", result->final_accuracy >= 0,
             result->final_accuracy);
    add_real(row, "best_accuracy", result->best_accuracy >= 0,
             result->best_accuracy);
    add_real(row, "to_loss_s", loss->is, loss->wall_s);
    add_count(row, "to_loss_steps", loss->is, loss->step);
    add_count(row, "to_loss_bytes", loss->is, loss->bytes);
    add_real(row, "to_accuracy_s", accuracy->is, accuracy->wall_s);
    add_count(row, "to_accuracy_steps", accuracy->is, accuracy->step);
    add_count(row, "to_accuracy_bytes", accuracy->is, accuracy->bytes);
    add_real(row, "staleness_mean", 1, result->staleness_mean);
    add_count(row, "staleness_p99", 1, result->staleness_p99);
    add_text(row, "why", result->why ? result->why : "");
}

/* RFC 4180 */
static void print_field(FILE *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++)
        fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', out);
}

static void write_csv_row(FILE *out, const struct row *row)
{
    for (size_t i = 0; i < row->n; i++) {
        const struct cell *cell = &row->cell[i];
        if (i > 0)
            fputc(',', out);
        if (cell->kind == CELL_TEXT)
            print_field(out, cell->text);
        else if (cell->kind == CELL_COUNT)
            fprintf(out, "%" PRIu64, cell->count);
        else if (cell->kind == CELL_REAL)
            fprintf(out, "%.9g", cell->real);
    }
    fputs("\r\n", out);
}

/* NULL: no memory. */
static json_t *object_of(const struct row *row)
{
    json_t *object = json_object();
    int failed = !object;
    for (size_t i = 0; i < row->n; i++) {
        const struct cell *cell = &row->cell[i];
        json_t *value = cell->kind == CELL_TEXT ? json_string(cell->text)
                        : cell->kind == CELL_COUNT
                            ? json_integer((json_int_t)cell->count)
                        : cell->kind == CELL_REAL ? json_real(cell->real)
                                                  : json_null();
        failed |= json_object_set_new(object, cell->name, value) != 0;
    }
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

static enum gw_status write_csv(const struct gw_study *study,
                                const struct gw_study_result *results,
                                FILE *out,
                                struct gw_error *error)
{
    struct row row;
    (void)error;
    for (size_t i = 0; i < study->runs; i++) {
        make_row(&results[i], &row);
        for (size_t c = 0; i == 0 && c < row.n; c++)
            fprintf(out, "%s%s", c ? "," : "", row.cell[c].name);
        if (i == 0)
            fputs("\r\n", out);
        write_csv_row(out, &row);
    }
    return GW_OK;
}

static enum gw_status write_json(const struct gw_study *study,
                                 const struct gw_study_result *results,
                                 FILE *out,
                                 struct gw_error *error)
{
    struct row row;
    for (size_t i = 0; i < study->runs; i++) {
        make_row(&results[i], &row);
        json_t *object = object_of(&row);
        int failed =
            !object ||
            json_dumpf(object, out, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0;
        json_decref(object);
        if (failed && !ferror(out))
            return gw_fail(error, GW_ENOMEM, "no memory for results");
        fputc('\n', out);
    }
    return GW_OK;
}

enum gw_status gw_study_write(const struct gw_study *study,
                              const struct gw_study_result *results,
                              const char *dir,
                              struct gw_error *error)
{
    static const struct {
        const char *name;
        enum gw_status (*write)(const struct gw_study *study,
                                const struct gw_study_result *results,
                                FILE *out,
                                struct gw_error *error);
    } files[] = {{"results.csv", write_csv},
                 {"results.jsonl", write_json},
                 {"results.txt", gw_study_print}};
    enum gw_status status = GW_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && status == GW_OK;
         i++) {
        struct gw_output output;
        status = gw_study_open_file(dir, files[i].name, &output, error);
        if (status == GW_OK)
            status = files[i].write(study, results, output.file, error);
        if (status == GW_OK)
            status = gw_output_commit(&output, error);
        gw_output_abandon(&output);
    }
    return status;
}
