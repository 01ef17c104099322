/*
 * The model and data of the job, as workers declare them: all the same ones,
 * and the keys of rank 0, part by part.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gw_declaration {
    struct gw_declare first;
    const struct gw_seat *by; /* the worker that it came from */
    int is_here;
    char optimizer[GW_STRING_MAX]; /* the first one's text */
    struct gw_key *keys;           /* [first.keys_total] */
    uint32_t keys_seen;
};

enum gw_status gw_declaration_open(struct gw_coordinator *self,
                                   struct gw_error *error)
{
    self->declaration = calloc(1, sizeof *self->declaration);
    return self->declaration
               ? GW_OK
               : gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
}

void gw_declaration_close(struct gw_coordinator *self)
{
    if (!self->declaration)
        return;
    free(self->declaration->keys);
    free(self->declaration);
    self->declaration = NULL;
}

const struct gw_declare *gw_declaration(const struct gw_coordinator *self)
{
    return &self->declaration->first;
}

const struct gw_key *gw_declaration_key(const struct gw_coordinator *self)
{
    return self->declaration->keys;
}

uint32_t gw_declaration_keys(const struct gw_coordinator *self)
{
    return self->declaration->keys_seen;
}

int gw_declaration_is_here(const struct gw_coordinator *self)
{
    return self->declaration->is_here;
}

int gw_declaration_is_other(const struct gw_coordinator *self,
                            const struct gw_seat *one)
{
    const struct gw_declare *first = &self->declaration->first;
    return one->declared && (one->keys_hash != first->keys_hash ||
                             one->types_hash != first->types_hash);
}

int gw_declaration_add_keys(struct gw_coordinator *self,
                            const struct gw_declare *declare)
{
    struct gw_declaration *known = self->declaration;
    struct gw_declare *first = &known->first;
    if (!known->keys) {
        known->keys = calloc(declare->keys_total + 1, sizeof *known->keys);
        first->keys_total = declare->keys_total;
        first->keys_hash = declare->keys_hash;
        first->types_hash = declare->types_hash;
    }
    if (!known->keys || declare->keys_total == 0 ||
        declare->keys_total != first->keys_total ||
        declare->keys_first != known->keys_seen)
        return 0;
    memcpy(known->keys + declare->keys_first, declare->keys,
           declare->keys_n * sizeof *known->keys);
    known->keys_seen += declare->keys_n;
    return 1;
}

/* The part that all share, which shards are told too; no pointer into the
   message outlives it. */
static void keep(struct gw_declaration *known,
                 const struct gw_seat *who,
                 const struct gw_declare *first)
{
    snprintf(known->optimizer, sizeof known->optimizer, "%s", first->optimizer);
    known->by = who;
    known->first = (struct gw_declare){
        .keys_total = known->first.keys_total, /* they may be here before */
        .keys_hash = known->first.keys_hash,
        .types_hash = known->first.types_hash,
        .course = first->course,
        .total_steps = first->total_steps,
        .test_samples = first->test_samples,
        .device = "",
        .tuned = "",
        .note = "",
        .optimizer = known->optimizer,
        .clip = first->clip,
    };
    memcpy(known->first.data_digest, first->data_digest, GW_DIGEST_BYTES);
    known->is_here = 1;
}

const char *gw_declaration_difference(struct gw_coordinator *self,
                                      const struct gw_seat *who,
                                      const struct gw_declare *declare)
{
    struct gw_declaration *known = self->declaration;
    const struct gw_declare *first = &known->first;
    if (!known->is_here)
        keep(known, who, declare);
    if (declare->course.samples != first->course.samples)
        return "another number of training samples";
    if (memcmp(declare->data_digest, first->data_digest, GW_DIGEST_BYTES) != 0)
        return "other training data";
    if (declare->test_samples != first->test_samples)
        return "another number of test samples";
    if (declare->course.samples == 0 &&
        declare->course.batch != first->course.batch)
        return "another weight of a full step";
    if (!gw_course_is_same(&declare->course, &first->course) ||
        declare->total_steps != first->total_steps)
        return "another number of steps";
    return NULL;
}

void gw_seat_declare(struct gw_seat *who, const struct gw_declare *declare)
{
    who->keys_hash = declare->keys_hash;
    who->types_hash = declare->types_hash;
    snprintf(who->device, sizeof who->device, "%s", declare->device);
    gw_text_clean(who->device);
    snprintf(who->tuned, sizeof who->tuned, "%s", declare->tuned);
    gw_text_clean(who->tuned);
    who->shares = declare->shares;
}

/* ---- what the program asks for ---- */

static enum gw_status unlike(const struct gw_declaration *known,
                             const struct gw_seat *who,
                             const char *setting,
                             const char *asked,
                             const char *by_first,
                             struct gw_error *error)
{
    return gw_fail(error, GW_EMISMATCH,
                   "the program of worker %u (%s) asks for %s as its %s, that "
                   "of worker %u (%s) for %s; give all workers the same "
                   "program",
                   who->id, who->host, asked, setting, known->by->id,
                   known->by->host, by_first);
}

static const char *text_of_clip(double clip, char text[32])
{
    snprintf(text, 32, clip != 0 ? "%.9g" : "the job's", clip);
    return text;
}

enum gw_status gw_declaration_check_program(const struct gw_coordinator *self,
                                            const struct gw_seat *who,
                                            const struct gw_declare *declare,
                                            struct gw_error *error)
{
    const struct gw_declaration *known = self->declaration;
    const char *name = declare->optimizer, *first = known->optimizer;
    char clip[32], first_clip[32];
    if (strcmp(name, first) != 0)
        return unlike(known, who, "optimizer", name[0] ? name : "the job's",
                      first[0] ? first : "the job's", error);
    if (declare->clip != known->first.clip)
        return unlike(known, who, "largest norm of a gradient",
                      text_of_clip(declare->clip, clip),
                      text_of_clip(known->first.clip, first_clip), error);
    return GW_OK;
}
