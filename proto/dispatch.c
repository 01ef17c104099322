/* A linear search: an actor has about twenty rows. */
#include <config.h>

#include "proto/dispatch.h"

int gw_message_dispatch(const struct gw_message_handler *handlers,
                        size_t n,
                        unsigned sender,
                        void *actor,
                        struct gw_peer *peer,
                        const struct gw_message *message)
{
    for (size_t i = 0; i < n; i++) {
        const struct gw_message_handler *row = &handlers[i];
        if (row->kind != message->kind || !(row->senders & sender))
            continue;
        row->handle(actor, peer, message);
        return 1;
    }
    return 0;
}
