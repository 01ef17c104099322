#include <config.h>

#include "proto/copy.h"

#include <math.h>
#include <string.h>

#include "proto/control.h"
#include "proto/wire.h"

/* kind 1, has digest 1, reserved 2, scale 4, seven counts 8 each, terms, digest
   4 */
#define TERMS_AT  64
#define DIGEST_AT (TERMS_AT + GW_TERMS_BYTES)

_Static_assert(DIGEST_AT + sizeof(uint32_t) == GW_COPY_NOTE_BYTES,
               "counts, terms, digest");

void gw_copy_note_encode(const struct gw_copy_note *note,
                         uint8_t out[GW_COPY_NOTE_BYTES])
{
    const uint64_t count[] = {note->version,  note->updates, note->skipped,
                              note->pushes,   note->t,       note->samples,
                              note->uncounted};
    const struct gw_group_terms terms = {0, note->terms};
    uint32_t scale;
    memset(out, 0, GW_COPY_NOTE_BYTES);
    memcpy(&scale, &note->scale, sizeof scale);
    out[0] = note->kind;
    out[1] = note->has_digest != 0;
    gw_put_u32(out + 4, scale);
    for (unsigned i = 0; i < sizeof count / sizeof *count; i++)
        gw_put_u64(out + 8 + (size_t)8 * i, count[i]);
    gw_terms_encode(&terms, out + TERMS_AT);
    gw_put_u32(out + DIGEST_AT, note->has_digest ? note->digest : 0);
}

static int is_of_a_job(const struct gw_copy_note *note)
{
    double value;
    if (note->version >= GW_CLOCK_MAX || note->skipped > note->updates ||
        note->uncounted > note->samples || note->samples >= GW_CLOCK_MAX)
        return 0;
    if (note->kind == GW_COPY_STEP &&
        (note->t < 1 || note->t >= GW_CLOCK_MAX || !isfinite(note->scale)))
        return 0;
    return note->kind == GW_COPY_WHOLE || note->kind == GW_COPY_SKIP ||
           !gw_terms_fault(&note->terms, &value);
}

enum gw_status gw_copy_note_decode(const uint8_t in[GW_COPY_NOTE_BYTES],
                                   struct gw_copy_note *note)
{
    struct gw_group_terms terms;
    uint32_t scale = gw_get_u32(in + 4);
    gw_terms_decode(in + TERMS_AT, &terms);
    struct gw_copy_note read = {.kind = in[0],
                                .version = gw_get_u64(in + 8),
                                .updates = gw_get_u64(in + 16),
                                .skipped = gw_get_u64(in + 24),
                                .pushes = gw_get_u64(in + 32),
                                .t = gw_get_u64(in + 40),
                                .samples = gw_get_u64(in + 48),
                                .uncounted = gw_get_u64(in + 56),
                                .terms = terms.terms,
                                .has_digest = in[1],
                                .digest = gw_get_u32(in + DIGEST_AT)};
    memcpy(&read.scale, &scale, sizeof scale);
    if (read.kind < GW_COPY_WHOLE || read.kind > GW_COPY_NO_SUM || in[1] > 1 ||
        in[2] || in[3] || terms.group || (read.digest && !read.has_digest) ||
        !is_of_a_job(&read))
        return GW_EPROTO;
    *note = read;
    return GW_OK;
}
