/* A job's model on this machine, for commands that look at checkpoints. */
#ifndef GW_CLI_INSPECT_H
#define GW_CLI_INSPECT_H

#include "kernels/kernels.h"
#include "proto/config.h"
#include "server/checkpoint/checkpoint.h"
#include "worker/data/dataset.h"
#include "worker/data/feed.h"
#include "worker/model/model.h"

#define GW_INSPECT_BATCH 250 /* samples per pass */

struct gw_inspect {
    struct gw_dataset *data;
    const struct gw_backend_ops *backend;
    struct gw_device *device;
    struct gw_model *model;
    struct gw_feed feed;
};

/* Writes the refusal to standard error. */
void gw_inspect_refused(uint64_t clock, const char *why);

/* gw_checkpoint_open with gw_inspect_refused. */
enum gw_status gw_inspect_checkpoint(struct gw_disk *disk,
                                     const char *path,
                                     struct gw_checkpoint *checkpoint,
                                     struct gw_error *error);

/*
 * Opens a part of the job's data and builds the model for it, with `classes`
 * classes, or those of the data if 0. Free with gw_inspect_close.
 */
enum gw_status gw_inspect_open(const struct gw_config *config,
                               enum gw_dataset_part part,
                               size_t classes,
                               struct gw_inspect *inspect,
                               struct gw_error *error);
void gw_inspect_close(struct gw_inspect *inspect);

/* Loss and hits over the whole data set; weights[i], host memory that is
   aligned to 64 bytes, belongs to key i; all lie in `arena` as `map` says.
   Errors of gw_mirror_open and of gw_model_result. */
enum gw_status gw_inspect_score(struct gw_inspect *inspect,
                                const struct gw_map *map,
                                const float *arena,
                                float *const *weights,
                                struct gw_model_result *sum,
                                struct gw_error *error);

#endif
