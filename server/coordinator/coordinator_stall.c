/* Steps that do not come on, as servers and workers report it. */
#include "config.h"

#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

#include <stdio.h>

/* The watch tells it, of all members that are stuck together. */
static void keep_stuck(struct gw_seat *who, const char *text)
{
    snprintf(who->stuck, sizeof who->stuck, "%s", text);
    gw_text_clean(who->stuck);
    who->stuck_told = 0;
}

void gw_coordinator_stalled(struct gw_coordinator *self,
                            struct gw_seat *who,
                            const struct gw_stall *stall)
{
    double limit = self->config->cluster.abort_after;
    char why[GW_STUCK_BYTES];
    if (stall->stuck) {
        keep_stuck(who, stall->text);
        return;
    }
    if (gw_vacant_any(self))
        return; /* that wait is told, and has its own limit */
    gw_stall_cause(self, why);
    gw_coordinator_note(self, "%.400s%s", gw_reason(stall->text), why);
    if (limit > 0 && stall->seconds >= limit)
        gw_coordinator_end(self, GW_ETIMEOUT,
                           "no progress for %.1f s (cluster.abort_after): "
                           "%.300s%s",
                           stall->seconds, gw_reason(stall->text), why);
}

void gw_stall_cause(const struct gw_coordinator *self,
                    char words[GW_STUCK_BYTES])
{
    const struct gw_seat *one = gw_roster_first(self);
    while (one && !one->stuck[0])
        one = one->next;
    words[0] = '\0';
    if (one)
        snprintf(words, GW_STUCK_BYTES, "; %s %s", one->peer->name, one->stuck);
}

/* One line is enough where a hundred members cannot reach one. */
void gw_stall_tell_stuck(struct gw_coordinator *self)
{
    const struct gw_seat *first = NULL;
    char more[48] = "";
    unsigned n = 0;
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next) {
        if (!one->stuck[0] || one->stuck_told)
            continue;
        one->stuck_told = 1;
        first = first ? first : one;
        n++;
    }
    if (n > 1)
        snprintf(more, sizeof more, "; nor can %u more reach theirs", n - 1);
    if (first && self->phase < GW_PHASE_ENDING)
        gw_coordinator_note(self, "%s %s%s", first->peer->name, first->stuck,
                            more);
}
