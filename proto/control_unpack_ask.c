/* The rest of control_unpack.c: what is asked for, and answered: files of
   checkpoints, and what an observer wants. */
#include <config.h>

#include "proto/control_codec.h"

GW_UNPACK(gw_unpack_file_open)
{
    const Gwpb__FileOpen *from = in->file_open;
    struct gw_file_open *to = &message->file_open;
    (void)arena;
    if (!gw_is_clock(from->clock))
        return GW_EPROTO;
    to->name = from->name;
    to->write = from->write != 0;
    to->offset = from->offset;
    to->bytes = from->bytes;
    to->window = from->window;
    to->clock = from->clock;
    to->request = from->request;
    return GW_OK;
}

GW_UNPACK(gw_unpack_file_reply)
{
    const Gwpb__FileReply *from = in->file_reply;
    struct gw_file_reply *to = &message->file_reply;
    (void)arena;
    to->status = (enum gw_status)from->status;
    to->text = from->text;
    to->offset = from->offset;
    to->bytes = from->bytes;
    to->window = from->window;
    to->request = from->request;
    return GW_OK;
}

GW_UNPACK(gw_unpack_status)
{
    const Gwpb__Status *from = in->status;
    struct gw_status_message *to = &message->status;
    (void)arena;
    if (from->request > GW_ASK_JOB)
        return GW_EPROTO;
    to->request = (uint8_t)from->request;
    to->text = from->text;
    to->status = (enum gw_status)from->status;
    return GW_OK;
}

GW_UNPACK(gw_unpack_request)
{
    const Gwpb__Request *from = in->request;
    struct gw_request *to = &message->request;
    (void)arena;
    if (from->kind < GW_REQUEST_POLICY || from->kind > GW_REQUEST_STOP)
        return GW_EPROTO;
    to->kind = (uint8_t)from->kind;
    to->text = from->text;
    return GW_OK;
}
