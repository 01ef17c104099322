/* A checkpoint that the caller asks for. */
#include "config.h"

#include "worker/client/client_session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct gw_client_save {
    char clock[24]; /* of the last request */
    int asked;      /* there was one */
    atomic_int answered;
    struct gw_error answer; /* before it */
};

enum gw_status gw_client_save_open(struct gw_client *client)
{
    client->save = calloc(1, sizeof *client->save);
    return client->save ? GW_OK : GW_ENOMEM;
}

void gw_client_save_close(struct gw_client *client)
{
    free(client->save);
}

void gw_client_got_status(void *actor,
                          struct gw_peer *peer,
                          const struct gw_message *message)
{
    struct gw_client *client = actor;
    struct gw_error *answer = &client->save->answer;
    (void)peer;
    answer->status = (enum gw_status)message->status.status;
    snprintf(answer->text, sizeof answer->text, "%.400s", message->status.text);
    gw_text_clean(answer->text);
    atomic_store(&client->save->answered, 1);
}

static void tell(struct gw_client *client)
{
    const struct gw_message message = {
        .kind = GW_MESSAGE_REQUEST,
        .request = {.kind = GW_REQUEST_CHECKPOINT,
                    .text = client->save->clock}};
    if (gw_away_is_known(&client->away))
        gw_client_tell(client, client->coordinator, &message);
}

void gw_client_save_renew(struct gw_client *client)
{
    if (client->save->asked && !atomic_load(&client->save->answered))
        tell(client);
}

void gw_client_ask_save(struct gw_client *client, const uint64_t *waits_at)
{
    struct gw_client_save *save = client->save;
    gw_loop_enter(client->loop);
    save->clock[0] = '\0';
    if (waits_at)
        snprintf(save->clock, sizeof save->clock, "%" PRIu64, *waits_at);
    save->asked = 1;
    atomic_store(&save->answered, 0);
    tell(client);
    gw_loop_leave(client->loop);
}

static int is_answered(const struct gw_client *client)
{
    return atomic_load(&client->save->answered) ||
           gw_client_end_clock(client) != UINT64_MAX;
}

enum gw_status
gw_client_save_answer(struct gw_client *client, int waits, struct gw_error *why)
{
    enum gw_status status = GW_OK;
    if (waits)
        status = gw_client_wait_for(client, is_answered, GW_WAITING_UNWATCHED);
    else if (gw_client_is_over(client))
        status = client->error.status;
    if (status != GW_OK)
        return status;
    if (!atomic_load(&client->save->answered))
        return is_answered(client) ? GW_EEND : GW_EAGAIN;
    *why = client->save->answer;
    return why->status == GW_EREFUSED ? GW_EEND : why->status;
}
