#include "config.h"

#include "cli/study/study_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/study/study_plot.h"
#include "cli/study/study_write.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, "
    "initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<style>\n"
    ":root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff;\n"
    "  --line: #d0d7de; --soft: #57606a; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  :root { --ink: #e6edf3; --paper: #14181d; --line: #3a424c;\n"
    "    --soft: #9aa5b1; } }\n"
    "body { font: 16px/1.5 sans-serif; color: var(--ink);\n"
    "  background: var(--paper); max-width: 60rem; margin: 0 auto;\n"
    "  padding: 1rem; }\n"
    "h1, h2 { line-height: 1.2; }\n"
    "p.what { color: var(--soft); margin-top: -0.5rem; }\n"
    "figure { margin: 0; overflow-x: auto; }\n"
    "figure svg { width: 100%; min-width: 30rem; height: auto;\n"
    "  color: var(--ink); }\n"
    ".wide { overflow-x: auto; }\n"
    "table { border-collapse: collapse; font-size: 0.85rem; }\n"
    "th, td { border-bottom: 1px solid var(--line); padding: 0.2rem 0.6rem;\n"
    "  text-align: left; vertical-align: top; white-space: nowrap; }\n"
    "pre { overflow-x: auto; font-size: 0.85rem; line-height: 1.4; }\n"
    "</style>\n";

static void print_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if (*text == '"')
            fputs("&quot;", out);
        else
            fputc(*text, out);
    }
}

/* ---- tables ---- */

static enum gw_status print_summary(const struct gw_study *study,
                                    const struct gw_study_result *results,
                                    FILE *out,
                                    struct gw_error *error)
{
    char *text = NULL;
    size_t n = 0;
    FILE *table = open_memstream(&text, &n);
    if (!table)
        return gw_fail(error, GW_ENOMEM, "no memory for a report");
    enum gw_status status = gw_study_print(study, results, table, error);
    fclose(table);
    if (status != GW_OK) {
        free(text);
        return status;
    }
    fputs("<h2>Points</h2>\n<p class=\"what\">Mean and standard deviation over "
          "the runs of a point.</p>\n<pre>",
          out);
    print_text(out, text);
    fputs("</pre>\n", out);
    free(text);
    return GW_OK;
}

/* The study's settings of a run, in addition to its axes. */
static void print_sets(FILE *out, const char *const *set)
{
    for (const char *between = ""; set && *set; set++, between = ", ") {
        fputs(between, out);
        print_text(out, *set);
    }
}

static void print_run(const struct gw_study_result *result, FILE *out)
{
    fprintf(out, "<tr><td>%s</td>", result->run->id);
    for (size_t axis = 0; axis < GW_STUDY_AXES; axis++) {
        fputs("<td>", out);
        print_text(out, result->value[axis]);
        fputs("</td>", out);
    }
    fputs("<td>", out);
    print_sets(out, result->run->set);
    fputs("</td><td>", out);
    print_text(out, result->why ? result->why : "done");
    fputs("</td></tr>\n", out);
}

static void print_runs(const struct gw_study *study,
                       const struct gw_study_result *results,
                       FILE *out)
{
    fputs("<h2>Runs</h2>\n<p class=\"what\">Job ", out);
    print_text(out, study->job);
    if (study->set) {
        fputs(" with ", out);
        print_sets(out, study->set);
    }
    if (study->simulated)
        fprintf(out,
                "; simulated, a computation takes %g us and %g us for each "
                "sample",
                study->step_us, study->sample_us);
    fputs(".</p>\n<div class=\"wide\"><table>\n<tr><th>id</th>", out);
    for (size_t axis = 0; axis < GW_STUDY_AXES; axis++)
        fprintf(out, "<th>%s</th>",
                gw_study_axis_name((enum gw_study_axis)axis));
    fputs("<th>set</th><th>end</th></tr>\n", out);
    for (size_t i = 0; i < study->runs; i++)
        print_run(&results[i], out);
    fputs("</table></div>\n", out);
}

/* ---- plots ---- */

/* Prints the SVG element. Things drawn in GW_STUDY_INK or in gnuplot's default
   colour get the page's text colour. */
static void print_svg(FILE *out, const char *svg)
{
    static const char *const inks[][2] = {
        {GW_STUDY_INK, "currentColor"},
        {"rgb(  1,   2,   3)", "currentColor"},
        {"rgb(1,2,3)", "currentColor"},
        {"\"black\"", "\"currentColor\""},
    };
    const size_t n = sizeof inks / sizeof *inks;
    for (const char *at = strstr(svg, "<svg"); at && *at;) {
        size_t i = 0;
        while (i < n && strncmp(at, inks[i][0], strlen(inks[i][0])) != 0)
            i++;
        if (i < n) {
            fputs(inks[i][1], out);
            at += strlen(inks[i][0]);
        } else {
            fputc(*at++, out);
        }
    }
}

/* Reads an SVG; NULL: unreadable. */
static char *read_svg(const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/plots/%s.svg", dir, name);
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;
    if (!file)
        return NULL;
    if (getdelim(&text, &room, '\0', file) <= 0) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

static void print_plots(const char *dir, FILE *out)
{
    size_t n;
    const struct gw_study_plot *plot = gw_study_plots(&n);
    for (size_t i = 0; i < n; i++) {
        char *svg = read_svg(dir, plot[i].name);
        if (!svg)
            continue;
        fprintf(out, "<h2>%s</h2>\n<p class=\"what\">%s</p>\n<figure>\n",
                plot[i].title, plot[i].what);
        print_svg(out, svg);
        fputs("</figure>\n", out);
        free(svg);
    }
}

/* ---- the report ---- */

enum gw_status gw_study_report(const struct gw_study *study,
                               const struct gw_study_result *results,
                               const char *dir,
                               const char *note,
                               struct gw_error *error)
{
    struct gw_output output;
    enum gw_status status =
        gw_study_open_file(dir, "report.html", &output, error);
    if (status != GW_OK)
        return status;
    FILE *out = output.file;
    fprintf(out, "%s<title>", head);
    print_text(out, study->file);
    fputs("</title>\n</head>\n<body>\n<h1>", out);
    print_text(out, study->file);
    fprintf(
        out,
        "</h1>\n<p class=\"what\">%zu run%s of %zu point%s, %s, by gradweir "
        "%s.</p>\n",
        study->runs, gw_plural(study->runs), study->points,
        gw_plural(study->points),
        study->simulated ? "in virtual time" : "as real processes",
        PACKAGE_VERSION);
    status = print_summary(study, results, out, error);
    if (note) {
        fputs("<p>", out);
        print_text(out, note);
        fputs("</p>\n", out);
    } else {
        print_plots(dir, out);
    }
    print_runs(study, results, out);
    fputs("</body>\n</html>\n", out);
    if (status == GW_OK)
        status = gw_output_commit(&output, error);
    gw_output_abandon(&output);
    return status;
}
