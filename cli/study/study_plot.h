/*
 * Plots of a study by gnuplot: per plot a script that can be run again, an SVG
 * for the report and a PNG, all in DIR/plots.
 */
#ifndef GW_CLI_STUDY_PLOT_H
#define GW_CLI_STUDY_PLOT_H

#include "cli/study/study_result.h"

/* Colour of text, axes and frames in the SVGs, which the report replaces by the
   page's text colour. */
#define GW_STUDY_INK "#010203"

struct gw_study_plot {
    const char *name;  /* of its files */
    const char *title; /* and a sentence about it */
    const char *what;
    int simulated; /* for simulated studies only */
};

/* All plots of a report, in order. */
const struct gw_study_plot *gw_study_plots(size_t *n_p);

/*
 * Writes the scripts and runs gnuplot. GW_EUNSUPPORTED, with a line: gnuplot is
 * missing; GW_EIO, GW_ENOSPC, GW_ENOMEM.
 */
enum gw_status gw_study_draw(const struct gw_study *study,
                             const struct gw_study_result *results,
                             const char *dir,
                             struct gw_error *error);

#endif
