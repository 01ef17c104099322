/*
 * Mail between hosts. Within a region it is on its way at once; to another
 * region, which may be in another thread, it goes when the window is over, and
 * is there before the next one begins.
 */
#include "config.h"

#include "transport/sim/sim_link.h"

#include <assert.h>
#include <stdlib.h>

/* Distance of prefetching, so that the end's memory is there in time. */
#define AHEAD 8

static void enter_note(struct gw_sim_note *note)
{
    struct gw_sim_event *event = &note->event;
    gw_sim_schedule_placed(note->to->region, event, event->at_us, event->place);
}

/* NULL: the other region may be touched now. */
static struct gw_sim_mail *mail_to(struct gw_sim_region *from,
                                   const struct gw_sim_region *to)
{
    const struct gw_sim *sim = from->sim;
    return from == to || !sim->divided ? NULL : &from->out[to - sim->region];
}

static void note_time(struct gw_sim_mail *mail, uint64_t at_us)
{
    if (at_us < mail->first_us)
        mail->first_us = at_us;
}

static void grow(struct gw_sim_mail *mail)
{
    mail->room = mail->room ? 2 * mail->room : 64;
    mail->letter = realloc(mail->letter, mail->room * sizeof *mail->letter);
    assert(mail->letter);
}

void gw_sim_mail_flight(struct gw_sim_region *from,
                        struct gw_sim_link *to,
                        struct gw_sim_host *there,
                        struct gw_sim_flight *flight)
{
    struct gw_sim_mail *mail = mail_to(from, there->region);
    if (!mail) {
        gw_sim_link_enter(to, flight);
        return;
    }
    assert(flight->at_us >= from->sim->end_us);
    if (mail->letters == mail->room)
        grow(mail);
    mail->letter[mail->letters++] =
        (struct gw_sim_letter){.to = to, .flight = flight};
    note_time(mail, flight->at_us);
}

void gw_sim_mail_note(struct gw_sim_host *from,
                      struct gw_sim_note *note,
                      uint64_t at_us)
{
    struct gw_sim_mail *mail = mail_to(from->region, note->to->region);
    note->event.at_us = at_us;
    note->event.place = gw_sim_place(from);
    if (!mail) {
        enter_note(note);
        return;
    }
    assert(at_us >= from->sim->end_us);
    note->next = NULL;
    *mail->notes_last = note;
    mail->notes_last = &note->next;
    note_time(mail, at_us);
}

static void take(struct gw_sim_mail *mail)
{
    const struct gw_sim_letter *letter = mail->letter;
    for (size_t i = 0; i < mail->letters; i++) {
        if (i + AHEAD < mail->letters) {
            gw_sim_link_prefetch(letter[i + AHEAD].to);
            gw_sim_prefetch(letter[i + AHEAD].flight, sizeof *letter->flight);
        }
        gw_sim_link_enter(letter[i].to, letter[i].flight);
    }
    for (struct gw_sim_note *note = mail->notes, *next; note; note = next) {
        next = note->next;
        enter_note(note);
    }
}

static void empty(struct gw_sim_mail *mail)
{
    mail->letters = 0;
    mail->notes = NULL;
    mail->notes_last = &mail->notes;
    mail->first_us = UINT64_MAX;
}

void gw_sim_mail_take(struct gw_sim_region *region)
{
    for (size_t i = 0; i < region->sim->regions; i++) {
        take(&region->in[i]);
        empty(&region->in[i]);
    }
}

void gw_sim_mail_prepare(struct gw_sim_region *region)
{
    for (size_t i = 0; i < GW_SIM_REGIONS_MAX; i++) {
        empty(&region->in[i]);
        empty(&region->out[i]);
    }
}

/* Swaps the letters' memory; a list of notes refers to its own end. */
static void swap(struct gw_sim_mail *out, struct gw_sim_mail *in)
{
    const struct gw_sim_mail taken = *in;
    *in = *out;
    *out = taken;
    empty(out);
}

uint64_t gw_sim_mail_pass(struct gw_sim *sim)
{
    uint64_t first_us = UINT64_MAX;
    for (size_t from = 0; from < sim->regions; from++) {
        for (size_t to = 0; to < sim->regions; to++) {
            struct gw_sim_mail *out = &sim->region[from].out[to];
            if (out->first_us < first_us)
                first_us = out->first_us;
            swap(out, &sim->region[to].in[from]);
        }
    }
    return first_us;
}

void gw_sim_mail_free(struct gw_sim_region *region)
{
    for (size_t i = 0; i < region->sim->regions; i++) {
        free(region->out[i].letter);
        free(region->in[i].letter);
    }
}
