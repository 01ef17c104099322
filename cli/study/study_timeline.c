/* Timeline of the workers at the begin of a run, with the cause of each
   wait. */
#include "config.h"

#include "cli/study/study_sheet.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cli/study/study_job.h"
#include "proto/policy.h"

#define GREY "#888888" /* for servers and the network */

#define TIMELINE_SPANS 10 /* spans shown per worker */

struct span {
    double begin, end;
};

struct timeline {
    int together; /* workers wait for others */
    size_t workers;
    struct span *span; /* [workers][TIMELINE_SPANS] */
    size_t *n;         /* [workers] */
};

static int read_spans(const struct gw_study_sheet *sheet,
                      size_t run,
                      struct timeline *timeline)
{
    char line[128];
    char *path =
        gw_study_run_path(sheet->dir, &sheet->study->run[run], "spans");
    FILE *file = path ? fopen(path, "r") : NULL;
    free(path);
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        uint32_t rank;
        uint64_t begin, end;
        if (sscanf(line, "%" SCNu32 " %" SCNu64 " %" SCNu64, &rank, &begin,
                   &end) != 3 ||
            rank >= timeline->workers || timeline->n[rank] == TIMELINE_SPANS)
            continue;
        timeline->span[rank * TIMELINE_SPANS + timeline->n[rank]++] =
            (struct span){(double)begin / 1e3, (double)end / 1e3};
    }
    fclose(file);
    return 1;
}

/* The colour of the last worker to compute while `rank` waited; GREY if none
   did, when the wait was for servers and the network. */
static const char *wait_colour(const struct timeline *timeline,
                               const struct span *before,
                               const struct span *after)
{
    const char *colour = GREY;
    double last = before->end;
    for (size_t r = 0; timeline->together && r < timeline->workers; r++)
        for (size_t i = 0; i < timeline->n[r]; i++) {
            const struct span *span = &timeline->span[r * TIMELINE_SPANS + i];
            if (span->end <= after->begin && span->end > last) {
                last = span->end;
                colour = gw_study_colour(r);
            }
        }
    return colour;
}

/* A box per span, and per wait a thinner one in the colour of its cause. */
static size_t draw_boxes(const struct gw_study_sheet *sheet,
                         const struct timeline *timeline,
                         size_t object)
{
    for (size_t r = 0; r < timeline->workers; r++) {
        const struct span *span = &timeline->span[r * TIMELINE_SPANS];
        for (size_t i = 0; i < timeline->n[r]; i++) {
            fprintf(sheet->out,
                    "set object %zu rect from %.6g,%.2f to %.6g,%.2f fc rgb "
                    "'%s' fs solid 0.9 noborder\n",
                    ++object, span[i].begin, (double)r - 0.38, span[i].end,
                    (double)r + 0.38, gw_study_colour(r));
            if (i == 0 || span[i].begin <= span[i - 1].end)
                continue;
            fprintf(sheet->out,
                    "set object %zu rect from %.6g,%.2f to %.6g,%.2f fc rgb "
                    "'%s' fs solid 0.9 noborder\n",
                    ++object, span[i - 1].end, (double)r - 0.08, span[i].begin,
                    (double)r + 0.08,
                    wait_colour(timeline, &span[i - 1], &span[i]));
        }
    }
    return object;
}

/* Non-zero if workers wait for each other: not under per-push policies, but
   under ssp. */
static int waits(const char *policy)
{
    struct gw_policy_plan plan;
    if (gw_policy_plan_parse(policy, &plan, NULL) != GW_OK)
        return 1;
    const struct gw_policy_word first = gw_policy_at(&plan, 0);
    return gw_policy_is_together(first.kind) || first.kind == GW_POLICY_SSP;
}

static void draw_panel(const struct gw_study_sheet *sheet, size_t run)
{
    struct timeline timeline = {
        .workers =
            strtoul(sheet->results[run].value[GW_STUDY_WORKERS], NULL, 10)};
    double end = 0;
    timeline.together = waits(sheet->results[run].value[GW_STUDY_POLICY]);
    timeline.span =
        calloc(timeline.workers * TIMELINE_SPANS, sizeof *timeline.span);
    timeline.n = calloc(timeline.workers, sizeof *timeline.n);
    if (timeline.span && timeline.n && read_spans(sheet, run, &timeline)) {
        for (size_t i = 0; i < timeline.workers * TIMELINE_SPANS; i++)
            if (timeline.span[i].end > end)
                end = timeline.span[i].end;
        fputs("unset object\nset title ", sheet->out);
        gw_study_quote_label(sheet, run);
        fprintf(sheet->out,
                "\nset xrange [0:%.6g]\nset yrange [%.1f:-0.5]\n"
                "set ytics 1\n",
                end > 0 ? end : 1, (double)timeline.workers - 0.5);
        draw_boxes(sheet, &timeline, 0);
        fputs("plot NaN notitle\n", sheet->out);
    }
    free(timeline.n);
    free(timeline.span);
}

void gw_study_draw_timeline(const struct gw_study_sheet *sheet)
{
    size_t panels = sheet->study->points < GW_STUDY_PANELS
                        ? sheet->study->points
                        : GW_STUDY_PANELS;
    fprintf(sheet->out,
            "set xlabel 'time [ms]'\nset ylabel 'worker [rank]'\n"
            "set key off\nset multiplot layout %zu,1\n",
            panels);
    for (size_t i = 0, drawn = 0; i < sheet->study->runs && drawn < panels; i++)
        if (i == 0 ||
            sheet->study->run[i - 1].point != sheet->study->run[i].point) {
            draw_panel(sheet, i);
            drawn++;
        }
    fputs("unset multiplot\n", sheet->out);
}
