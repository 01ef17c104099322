/*
 * The input of gnuplot scripts, and the functions that write a script after
 * terminal and axes are set; inside study_plot.h.
 */
#ifndef GW_CLI_STUDY_SHEET_H
#define GW_CLI_STUDY_SHEET_H

#include <stdio.h>

#include "cli/study/study_plot.h"

#define GW_STUDY_PANELS 12 /* of the timeline, at most */

struct gw_study_sheet {
    const struct gw_study *study;
    const struct gw_study_result *results;
    const char *dir;
    FILE *out;
};

/* Colour of a point or worker, of GW_STUDY_COLOURS. */
#define GW_STUDY_COLOURS 6
const char *gw_study_colour(size_t i);

/* Writes a run's label in double quotes. */
void gw_study_quote_label(const struct gw_study_sheet *sheet, size_t run);

void gw_study_draw_loss_time(const struct gw_study_sheet *sheet);
void gw_study_draw_loss_steps(const struct gw_study_sheet *sheet);
void gw_study_draw_loss_bytes(const struct gw_study_sheet *sheet);
void gw_study_draw_accuracy_time(const struct gw_study_sheet *sheet);
void gw_study_draw_staleness(const struct gw_study_sheet *sheet);
void gw_study_draw_throughput(const struct gw_study_sheet *sheet);
void gw_study_draw_timeline(const struct gw_study_sheet *sheet);

#endif
