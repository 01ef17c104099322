/* Lines for the owner of the coordinator, and messages to members. */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

void gw_coordinator_tell(struct gw_coordinator *self,
                         struct gw_peer *peer,
                         const struct gw_message *message)
{
    enum gw_status status = gw_peer_tell(peer, message);
    if (status == GW_OK || status == GW_ECLOSED)
        return;
    gw_coordinator_end(self, status, "%s cannot be told of a %s: %s",
                       peer->name, gw_message_name(message->kind),
                       gw_status_text(status));
}

void gw_coordinator_tell_leader(struct gw_coordinator *self,
                                const struct gw_message *message)
{
    const struct gw_seat *leader = gw_roster_leader(self);
    if (!leader->is_unnamed)
        gw_coordinator_tell(self, leader->peer, message);
}

void gw_coordinator_note(struct gw_coordinator *self, const char *format, ...)
{
    char text[GW_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    gw_text_print(text, sizeof text, format, args);
    va_end(args);
    gw_text_clean(text);
    self->options.events->note(self->options.owner, text);
}

void gw_coordinator_warn(struct gw_coordinator *self, const char *format, ...)
{
    char text[GW_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    gw_text_print(text, sizeof text, format, args);
    va_end(args);
    gw_text_clean(text);
    self->options.events->warning(self->options.owner, text);
}
