/*
 * Grids between a study file and its runs, inside study.h: study_file.c reads
 * them, study.c makes runs.
 */
#ifndef GW_CLI_STUDY_GRID_H
#define GW_CLI_STUDY_GRID_H

#include "cli/study/study.h"

/* The settings of one grid, or without a grid. */
struct gw_study_grid {
    const char *file; /* and its line there */
    unsigned line;
    size_t n[GW_STUDY_AXES]; /* 0: the axis is not in this grid */
    const char **value[GW_STUDY_AXES];
    const char *const **set; /* [n[GW_STUDY_VARY]] */
};

/* Allocates zeroed memory that lives as long as the study; NULL: no memory. */
void *gw_study_keep(struct gw_study *study, size_t bytes);
char *gw_study_keep_text(struct gw_study *study, const char *text);

/* GW_ENOMEM with a line. */
enum gw_status gw_study_no_memory(struct gw_error *error);

/* Adds every combination of the axes. GW_EUSAGE: the job does not allow one. */
enum gw_status gw_study_add(struct gw_study *study,
                            const struct gw_study_grid *grid,
                            struct gw_error *error);

#endif
