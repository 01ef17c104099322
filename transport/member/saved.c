#include "config.h"

#include "transport/member/saved.h"

#include <stdio.h>

struct gw_message gw_saved_keep(struct gw_saved_files *files,
                                const struct gw_saved *saved)
{
    unsigned at = files->n++ % GW_SAVED_KEPT;
    struct gw_saved *of = &files->last[at].of;
    *of = *saved;
    snprintf(files->last[at].file, sizeof files->last[at].file, "%s",
             saved->file);
    snprintf(files->last[at].text, sizeof files->last[at].text, "%s",
             saved->text);
    of->file = files->last[at].file;
    of->text = files->last[at].text;
    return (struct gw_message){.kind = GW_MESSAGE_SAVED, .saved = *of};
}

int gw_saved_at(const struct gw_saved_files *files,
                unsigned i,
                struct gw_message *message_p)
{
    unsigned first = files->n > GW_SAVED_KEPT ? files->n - GW_SAVED_KEPT : 0;
    if (first + i >= files->n)
        return 0;
    *message_p = (struct gw_message){
        .kind = GW_MESSAGE_SAVED,
        .saved = files->last[(first + i) % GW_SAVED_KEPT].of};
    return 1;
}
