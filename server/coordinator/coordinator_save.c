/*
 * Checkpoints that workers ask for. The answer comes when one is complete that
 * has all that the worker had done when it asked.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_run.h"

static void tell(struct gw_coordinator *self,
                 struct gw_seat *who,
                 enum gw_status status,
                 const char *text)
{
    const struct gw_message message = {
        .kind = GW_MESSAGE_STATUS,
        .status = {.status = (int32_t)status, .text = text}};
    who->saves = 0;
    gw_coordinator_tell(self, who->peer, &message);
}

void gw_saves_ask(struct gw_coordinator *self,
                  struct gw_seat *who,
                  uint64_t clock)
{
    uint64_t newest;
    who->saves = 1;
    who->saves_from = clock;
    if (gw_final_checkpoint(self, &newest) && newest >= clock)
        tell(self, who, GW_OK, "");
    else if (gw_keeper_newest(self) > clock && !gw_keeper_is_busy(self))
        tell(self, who, GW_EIO, "the checkpoint of this step has failed");
}

void gw_saves_answer(struct gw_coordinator *self,
                     uint64_t clock,
                     enum gw_status status,
                     const char *text)
{
    char line[GW_ERROR_TEXT_BYTES] = "";
    if (status != GW_OK)
        snprintf(line, sizeof line,
                 "the checkpoint of step %" PRIu64 " failed: %.300s", clock,
                 text);
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next)
        if (one->saves && clock >= one->saves_from &&
            self->phase < GW_PHASE_ENDING)
            tell(self, one, status == GW_OK ? GW_OK : GW_EIO, line);
}
