#include "config.h"

#include "cli/record.h"
#include "cli/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/digest.h"

struct gw_record {
    int fd;
    const char *file;
};

enum gw_status gw_record_open(const char *file,
                              struct gw_record **record_p,
                              struct gw_error *error)
{
    struct gw_record *record = calloc(1, sizeof *record);
    if (!record)
        return gw_fail(error, GW_ENOMEM, "no memory for --json");
    record->file = file;
    if (strcmp(file, "-") == 0)
        record->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    else
        record->fd =
            open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (record->fd < 0) {
        gw_fail(error, GW_EIO, "--json: %s cannot be opened: %s", file,
                strerror(errno));
        free(record);
        return error->status;
    }
    *record_p = record;
    return GW_OK;
}

/* Bytes of a file without what follows its last line. */
static off_t find_whole(int fd, off_t bytes)
{
    char part[4096];
    while (bytes > 0) {
        off_t at = bytes > (off_t)sizeof part ? bytes - (off_t)sizeof part : 0;
        ssize_t n = pread(fd, part, (size_t)(bytes - at), at);
        if (n != bytes - at)
            return -1;
        while (n > 0 && part[n - 1] != '\n')
            n--;
        bytes = at + n;
        if (n > 0)
            break;
    }
    return bytes;
}

enum gw_status gw_record_mend(struct gw_record *record, struct gw_error *error)
{
    struct stat about;
    int fd = -1; /* standard output is not ours to cut */
    if (fstat(record->fd, &about) == 0 && S_ISREG(about.st_mode) &&
        strcmp(record->file, "-") != 0)
        fd = open(record->file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return GW_OK;
    off_t whole = find_whole(fd, about.st_size);
    int failed = whole < 0 ||
                 (whole < about.st_size && ftruncate(record->fd, whole) != 0);
    close(fd);
    return failed ? gw_fail(error, GW_EIO,
                            "--json: %s cannot be read, or cut to whole "
                            "objects",
                            record->file)
                  : GW_OK;
}

/* Writes and frees `object`; NULL: memory ran out while it was built. */
static enum gw_status
write_object(struct gw_record *record, json_t *object, struct gw_error *error)
{
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(9);
    /* json_dumps silently drops parts on lack of memory; the object's size
       grows with the number of workers */
    size_t n = object ? json_dumpb(object, NULL, 0, flags) : 0;
    char *text = n > 0 ? malloc(n + 1) : NULL;
    size_t dumped = text ? json_dumpb(object, text, n, flags) : 0;
    json_decref(object);
    if (dumped == 0 || dumped != n) {
        free(text);
        return gw_fail(error, GW_ENOMEM, "--json: no memory for an object");
    }
    text[n++] = '\n';
    ssize_t written = write(record->fd, text, n);
    free(text);
    if (written == (ssize_t)n)
        return GW_OK;
    return gw_fail(error, errno == ENOSPC ? GW_ENOSPC : GW_EIO,
                   "--json: %s cannot be written: %s", record->file,
                   written < 0 ? strerror(errno) : "some of it was lost");
}

/* A list per worker: the number of chunks that were 0, 1, 2, .. updates
   stale. */
static json_t *staleness_of(const struct gw_step_report *report)
{
    json_t *workers = json_array();
    int failed = 0;
    for (size_t rank = 0; rank < report->workers; rank++) {
        const struct gw_staleness *of = &report->staleness[rank];
        json_t *list = json_array();
        for (size_t i = 0; i < gw_staleness_used(of); i++)
            failed |= json_array_append_new(list, gw_json_count(of->chunks[i]));
        failed |= json_array_append_new(workers, list);
    }
    if (!failed)
        return workers;
    json_decref(workers);
    return NULL;
}

/* Samples of each worker in the step. */
static json_t *split_of(const struct gw_step_report *report)
{
    json_t *list = json_array();
    int failed = 0;
    for (size_t rank = 0; rank < report->workers; rank++)
        failed |=
            json_array_append_new(list, gw_json_count(report->split[rank]));
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

enum gw_status gw_record_split(struct gw_record *record,
                               const struct gw_split_report *report,
                               struct gw_error *error)
{
    json_t *weights = json_array();
    int failed = 0;
    for (size_t rank = 0; rank < report->workers; rank++)
        failed |=
            json_array_append_new(weights, gw_json_count(report->weight[rank]));
    if (failed) {
        json_decref(weights);
        weights = NULL;
    }
    json_t *object =
        gw_json_with(json_object(), "split_step", gw_json_count(report->step));
    object = gw_json_with(object, "split_weights", weights);
    return write_object(record, object, error);
}

enum gw_status gw_record_step(struct gw_record *record,
                              const struct gw_record_step *step,
                              struct gw_error *error)
{
    const struct gw_step_report *report = step->report;
    json_t *object = json_object();
    object = gw_json_with(object, "step", gw_json_count(report->step));
    object = gw_json_with(object, "epoch", gw_json_count(report->epoch));
    object = gw_json_with(object, "wall_s", gw_json_number(step->wall_s));
    object = gw_json_with(object, "loss", gw_json_number(report->loss));
    object = gw_json_with(object, "lr", gw_json_number(report->lr));
    object = gw_json_with(object, "samples_per_s",
                          gw_json_number(step->samples_per_s));
    object = gw_json_with(object, "bytes_pushed",
                          gw_json_count(report->bytes_pushed));
    object = gw_json_with(object, "bytes_pulled",
                          gw_json_count(report->bytes_pulled));
    object = gw_json_with(object, "staleness",
                          report->staleness
                              ? gw_json_number(gw_staleness_mean(
                                    report->staleness, report->workers))
                              : gw_json_count(0));
    if (report->staleness)
        object =
            gw_json_with(object, "staleness_by_worker", staleness_of(report));
    if (report->split)
        object = gw_json_with(object, "split", split_of(report));
    object = gw_json_with(object, "policy", json_string(report->policy));
    if (step->has_accuracy)
        object = gw_json_with(object, "test_accuracy",
                              gw_json_number(step->accuracy));
    return write_object(record, object, error);
}

static json_t *rss_of(const struct gw_record_final *final)
{
    json_t *object = json_object();
    object = gw_json_with(object, "coordinator",
                          gw_json_count(final->rss_coordinator));
    object = gw_json_with(object, "server",
                          gw_json_count(final->report->rss_server));
    return gw_json_with(object, "worker",
                        gw_json_count(final->report->rss_worker));
}

/* Summed counters of one role, by the names of the counter table. */
static json_t *counters_of(const struct gw_metrics_snapshot *sum)
{
    json_t *object = json_object();
    for (int i = 0; i < GW_METRICS; i++)
        object = gw_json_with(object, gw_metric_info((enum gw_metric)i)->name,
                              gw_json_count(sum->value[i]));
    return object;
}

enum gw_status gw_record_final(struct gw_record *record,
                               const struct gw_record_final *final,
                               struct gw_error *error)
{
    const struct gw_final_report *report = final->report;
    char hex[2 * GW_DIGEST_BYTES + 1];
    json_t *object = json_object();
    object = gw_json_with(object, "final", json_true());
    if (report->has_score) {
        object = gw_json_with(object, "test_loss",
                              gw_json_number(report->score.loss));
        object = gw_json_with(object, "test_accuracy",
                              gw_json_number(report->score.accuracy));
    }
    object = gw_json_with(object, "samples_per_s",
                          gw_json_number(final->samples_per_s));
    object = gw_json_with(object, "wall_s", gw_json_number(final->wall_s));
    if (report->has_weights) {
        gw_digest_hex(report->weights_sha256, hex);
        object = gw_json_with(object, "weights_sha256", json_string(hex));
    }
    object = gw_json_with(object, "peak_rss_bytes", rss_of(final));
    object = gw_json_with(object, "workers", counters_of(&report->workers));
    object = gw_json_with(object, "servers", counters_of(&report->servers));
    return write_object(record, object, error);
}

void gw_record_close(struct gw_record *record)
{
    if (!record)
        return;
    close(record->fd);
    free(record);
}
