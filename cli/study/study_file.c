/* Study files, over libconfig. */
#include "config.h"

#include "cli/study/study.h"

#include <errno.h>
#include <libconfig.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/study/study_grid.h"
#include "proto/distance.h"

/* ---- settings ---- */

static enum gw_status fail_at(const config_setting_t *setting,
                              struct gw_error *error,
                              const char *format,
                              ...) __attribute__((format(printf, 3, 4)));

/* A study and its name, since libconfig knows only the names of included
   files. */
struct file {
    config_t tree;
    const char *name;
};

/* The file with the setting; lives as long as the tree. */
static const char *file_of(const config_setting_t *setting)
{
    const struct file *file = (const void *)setting->config; /* its tree */
    const char *included = config_setting_source_file(setting);
    return included ? included : file->name;
}

static enum gw_status fail_at(const config_setting_t *setting,
                              struct gw_error *error,
                              const char *format,
                              ...)
{
    char text[GW_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gw_fail(error, GW_EUSAGE, "%s:%u: %s", file_of(setting),
                   (unsigned)config_setting_source_line(setting), text);
}

static const char *name_of(const config_setting_t *setting)
{
    const char *name = config_setting_name(setting);
    return name ? name : "this";
}

/* Refuses members of a group that are not in `names`. */
static enum gw_status check_names(const config_setting_t *group,
                                  const char *const *names,
                                  struct gw_error *error)
{
    for (int i = 0; i < config_setting_length(group); i++) {
        const config_setting_t *member =
            config_setting_get_elem(group, (unsigned)i);
        char all[256] = "", said[GW_NEAREST_BYTES];
        struct gw_nearest nearest = {0};
        size_t n = 0, used = 0;
        while (names[n] && strcmp(names[n], name_of(member)) != 0)
            gw_nearest_try(&nearest, name_of(member), names[n++]);
        if (names[n])
            continue;
        for (n = 0; names[n]; n++)
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s",
                                     n ? ", " : "", names[n]);
        return fail_at(member, error, "%s is not known here; there are %s%s",
                       name_of(member), all, gw_nearest_say(&nearest, said));
    }
    return GW_OK;
}

/* Reads a number or a text, as text. */
static enum gw_status read_scalar(struct gw_study *study,
                                  const config_setting_t *setting,
                                  const char **text_p,
                                  struct gw_error *error)
{
    char text[64];
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        snprintf(text, sizeof text, "%lld", config_setting_get_int64(setting));
        break;
    case CONFIG_TYPE_FLOAT:
        snprintf(text, sizeof text, "%.9g", config_setting_get_float(setting));
        break;
    case CONFIG_TYPE_STRING:
        *text_p = gw_study_keep_text(study, config_setting_get_string(setting));
        return *text_p ? GW_OK : gw_study_no_memory(error);
    default:
        return fail_at(setting, error, "%s: takes numbers and texts",
                       name_of(setting));
    }
    *text_p = gw_study_keep_text(study, text);
    return *text_p ? GW_OK : gw_study_no_memory(error);
}

/* Reads one value or a list; *values_p is ended by NULL. */
static enum gw_status read_values(struct gw_study *study,
                                  const config_setting_t *setting,
                                  const char ***values_p,
                                  size_t *n_p,
                                  struct gw_error *error)
{
    int lists =
        config_setting_is_array(setting) || config_setting_is_list(setting);
    size_t n = lists ? (size_t)config_setting_length(setting) : 1;
    const char **values = gw_study_keep(study, (n + 1) * sizeof *values);
    if (!values)
        return gw_study_no_memory(error);
    if (n == 0)
        return fail_at(setting, error, "%s: is an empty list",
                       name_of(setting));
    for (size_t i = 0; i < n; i++) {
        enum gw_status status = read_scalar(
            study,
            lists ? config_setting_get_elem(setting, (unsigned)i) : setting,
            &values[i], error);
        if (status != GW_OK)
            return status;
    }
    *values_p = values;
    *n_p = n;
    return GW_OK;
}

#define NUMBER_MAX 1e12 /* 30,000 years, or 12 days in us */

/* Reads a number of a group; leaves *number alone if it is absent. */
static enum gw_status read_number(const config_setting_t *group,
                                  const char *name,
                                  double *number,
                                  struct gw_error *error)
{
    const config_setting_t *member = config_setting_get_member(group, name);
    if (!member)
        return GW_OK;
    if (!config_setting_is_number(member))
        return fail_at(member, error, "%s: takes a number", name);
    double value = config_setting_type(member) == CONFIG_TYPE_FLOAT
                       ? config_setting_get_float(member)
                       : (double)config_setting_get_int64(member);
    if (!(value >= 0 && value <= NUMBER_MAX))
        return fail_at(member, error, "%s: takes a number of 0..1e12", name);
    *number = value;
    return GW_OK;
}

/* ---- grids ---- */

static enum gw_status read_variant(struct gw_study *study,
                                   const config_setting_t *variant,
                                   struct gw_study_grid *grid,
                                   size_t i,
                                   struct gw_error *error)
{
    static const char *const names[] = {"name", "set", NULL};
    const char **values;
    size_t n;
    if (!config_setting_is_group(variant))
        return fail_at(variant, error,
                       "vary: takes a list of { name = \"...\"; set = [ ... "
                       "]; }");
    enum gw_status status = check_names(variant, names, error);
    const config_setting_t *name = config_setting_get_member(variant, "name");
    const config_setting_t *set = config_setting_get_member(variant, "set");
    if (status == GW_OK && (!name || !set))
        return fail_at(variant, error, "vary: needs a name and a set");
    if (status == GW_OK)
        status =
            read_scalar(study, name, &grid->value[GW_STUDY_VARY][i], error);
    if (status == GW_OK)
        status = read_values(study, set, &values, &n, error);
    if (status == GW_OK)
        grid->set[i] = values;
    return status;
}

static enum gw_status read_vary(struct gw_study *study,
                                const config_setting_t *list,
                                struct gw_study_grid *grid,
                                struct gw_error *error)
{
    size_t n = (size_t)config_setting_length(list);
    grid->n[GW_STUDY_VARY] = n;
    grid->value[GW_STUDY_VARY] = gw_study_keep(study, (n + 1) * sizeof(char *));
    grid->set = gw_study_keep(study, (n + 1) * sizeof *grid->set);
    if (!grid->value[GW_STUDY_VARY] || !grid->set)
        return gw_study_no_memory(error);
    if (!config_setting_is_list(list) || n == 0)
        return fail_at(list, error,
                       "vary: takes a list, ( { name = \"...\"; set = [ ... "
                       "]; }, ... )");
    for (size_t i = 0; i < n; i++) {
        enum gw_status status = read_variant(
            study, config_setting_get_elem(list, (unsigned)i), grid, i, error);
        if (status != GW_OK)
            return status;
    }
    return GW_OK;
}

static enum gw_status read_grid(struct gw_study *study,
                                const config_setting_t *group,
                                struct gw_study_grid *grid,
                                struct gw_error *error)
{
    const char *names[GW_STUDY_AXES + 1] = {NULL};
    for (size_t axis = 0; axis < GW_STUDY_AXES; axis++)
        names[axis] = gw_study_axis_name((enum gw_study_axis)axis);
    *grid = (struct gw_study_grid){
        .file = file_of(group),
        .line = (unsigned)config_setting_source_line(group)};
    if (!config_setting_is_group(group))
        return fail_at(group, error, "grid: takes { policy = [ ... ]; ... }");
    enum gw_status status = check_names(group, names, error);
    for (size_t axis = 0; axis < GW_STUDY_AXES && status == GW_OK; axis++) {
        const config_setting_t *values = config_setting_get_member(
            group, gw_study_axis_name((enum gw_study_axis)axis));
        if (values)
            status = axis == GW_STUDY_VARY
                         ? read_vary(study, values, grid, error)
                         : read_values(study, values, &grid->value[axis],
                                       &grid->n[axis], error);
    }
    return status;
}

static enum gw_status add_grids(struct gw_study *study,
                                const config_setting_t *grids,
                                struct gw_error *error)
{
    int lists = grids && config_setting_is_list(grids);
    size_t n = lists ? (size_t)config_setting_length(grids) : 1;
    enum gw_status status = GW_OK;
    for (size_t i = 0; i < n && status == GW_OK; i++) {
        struct gw_study_grid grid = {.file = study->file, .line = 1};
        if (grids)
            status = read_grid(
                study,
                lists ? config_setting_get_elem(grids, (unsigned)i) : grids,
                &grid, error);
        if (status == GW_OK)
            status = gw_study_add(study, &grid, error);
    }
    return status;
}

/* ---- the file ---- */

/* Relative to the study file. */
static enum gw_status read_job(struct gw_study *study,
                               const config_setting_t *root,
                               struct gw_error *error)
{
    const char *job, *slash = strrchr(study->file, '/');
    size_t dir = slash ? (size_t)(slash + 1 - study->file) : 0;
    if (!config_setting_lookup_string(root, "job", &job))
        return gw_fail(error, GW_EUSAGE,
                       "%s: needs job = \"FILE\", the job that is studied",
                       study->file);
    if (job[0] == '/')
        dir = 0;
    study->job = gw_study_keep(study, dir + strlen(job) + 1);
    if (!study->job)
        return gw_study_no_memory(error);
    memcpy(study->job, study->file, dir);
    strcpy(study->job + dir, job);
    return GW_OK;
}

static enum gw_status read_kind(struct gw_study *study,
                                const config_setting_t *root,
                                struct gw_error *error)
{
    const config_setting_t *kind = config_setting_get_member(root, "run");
    const char *word = kind ? config_setting_get_string(kind) : "simulated";
    study->simulated = word && strcasecmp(word, "simulated") == 0;
    if (!study->simulated && (!word || strcasecmp(word, "processes") != 0))
        return fail_at(kind, error, "run: takes simulated or processes");
    return GW_OK;
}

static enum gw_status read_numbers(struct gw_study *study,
                                   const config_setting_t *root,
                                   struct gw_error *error)
{
    static const char *const compute_names[] = {"step_us", "sample_us", NULL};
    static const char *const target_names[] = {"loss", "accuracy", NULL};
    const config_setting_t *compute =
        config_setting_get_member(root, "compute");
    const config_setting_t *target = config_setting_get_member(root, "target");
    enum gw_status status =
        read_number(root, "limit_s", &study->limit_s, error);
    if (status == GW_OK && compute)
        status = check_names(compute, compute_names, error);
    if (status == GW_OK && compute)
        status = read_number(compute, "step_us", &study->step_us, error);
    if (status == GW_OK && compute)
        status = read_number(compute, "sample_us", &study->sample_us, error);
    if (status == GW_OK && target)
        status = check_names(target, target_names, error);
    if (status == GW_OK && target)
        status = read_number(target, "loss", &study->target_loss, error);
    if (status == GW_OK && target)
        status =
            read_number(target, "accuracy", &study->target_accuracy, error);
    return status;
}

static enum gw_status read_root(struct gw_study *study,
                                const config_setting_t *root,
                                struct gw_error *error)
{
    static const char *const names[] = {"job",     "set",    "run",  "compute",
                                        "limit_s", "target", "grid", NULL};
    const config_setting_t *set = config_setting_get_member(root, "set");
    const char **values = NULL;
    size_t n;
    enum gw_status status = check_names(root, names, error);
    if (status == GW_OK)
        status = read_job(study, root, error);
    if (status == GW_OK)
        status = read_kind(study, root, error);
    if (status == GW_OK)
        status = read_numbers(study, root, error);
    if (status == GW_OK && set)
        status = read_values(study, set, &values, &n, error);
    study->set = values;
    if (status != GW_OK)
        return status;
    return add_grids(study, config_setting_get_member(root, "grid"), error);
}

/* Skips the byte order mark of Windows editors. A file that begins with another
   0xef is no study either. */
static void skip_mark(FILE *stream)
{
    int first = getc(stream);
    if (first != 0xef)
        ungetc(first, stream);
    else if (getc(stream) == 0xbb)
        getc(stream);
}

static enum gw_status fail_syntax(const struct file *file,
                                  struct gw_error *error)
{
    const char *included = config_error_file(&file->tree);
    return gw_fail(
        error, GW_EUSAGE, "%s:%d: %s", included ? included : file->name,
        config_error_line(&file->tree), config_error_text(&file->tree));
}

static enum gw_status read_file(struct gw_study *study, struct gw_error *error)
{
    enum gw_status status = GW_OK;
    struct file file = {.name = study->file};
    FILE *stream = fopen(study->file, "re");
    if (!stream)
        return gw_fail(error, GW_EUSAGE, "%s: cannot be opened: %s",
                       study->file, strerror(errno));
    config_init(&file.tree);
    skip_mark(stream);
    if (config_read(&file.tree, stream))
        status = read_root(study, config_root_setting(&file.tree), error);
    else if (ferror(stream))
        status = gw_fail(error, GW_EUSAGE, "%s: cannot be read: %s",
                         study->file, strerror(errno));
    else
        status = fail_syntax(&file, error);
    config_destroy(&file.tree);
    fclose(stream);
    return status;
}

enum gw_status gw_study_read(const char *file,
                             struct gw_study **study_p,
                             struct gw_error *error)
{
    struct gw_study *study = calloc(1, sizeof *study);
    if (!study)
        return gw_study_no_memory(error);
    study->limit_s = 1e6;
    study->file = gw_study_keep_text(study, file);
    enum gw_status status =
        study->file ? read_file(study, error) : gw_study_no_memory(error);
    if (status != GW_OK) {
        gw_study_free(study);
        return status;
    }
    *study_p = study;
    return GW_OK;
}
