/*
 * Plots of a study, by gnuplot: for each a script that can be run again, an SVG
 * for the report and a PNG, all in DIR/plots.
 */
#ifndef GW_CLI_STUDY_PLOT_H
#define GW_CLI_STUDY_PLOT_H

#include "cli/study/study_result.h"

/* Text, axes and frames of the SVGs are drawn in this colour, which stands for
   whatever the page has for its text. */
#define GW_STUDY_INK "#010203"

struct gw_study_plot {
    const char *name;  /* of its files */
    const char *title; /* and what it shows */
    const char *what;
    int simulated; /* only of what is simulated */
};

/* The plots that a report has, *n_p of them, in their order. */
const struct gw_study_plot *gw_study_plots(size_t *n_p);

/*
 * Writes scripts and has them drawn. GW_EUNSUPPORTED, with a line: there is no
 * gnuplot here; GW_EIO, GW_ENOSPC, GW_ENOMEM.
 */
enum gw_status gw_study_draw(const struct gw_study *study,
                             const struct gw_study_result *results,
                             const char *dir,
                             struct gw_error *error);

#endif
