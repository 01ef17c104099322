/*
 * The declaration of this rank: its keys, its data, the settings that its
 * program asks for. A rank with other keys than worker 0 gets those, since it
 * alone has both sides, and ends the job by naming the first difference.
 */
#include "config.h"

#include "worker/client/client_declare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/client/client_session.h"

/* ---- out ---- */

/* It may have to be told again, when the caller's is gone. */
struct gw_client_declared {
    struct gw_declare of; /* its texts are these */
    char device[128], tuned[GW_TUNED_BYTES], optimizer[GW_STRING_MAX];
};

enum gw_status gw_client_declared_open(struct gw_client *client)
{
    client->declared = calloc(1, sizeof *client->declared);
    return client->declared ? GW_OK : GW_ENOMEM;
}

void gw_client_declared_close(struct gw_client *client)
{
    free(client->declared);
}

/* keys: [n] */
static void
tell(struct gw_client *client, const struct gw_key *keys, uint32_t n)
{
    struct gw_message message = {.kind = GW_MESSAGE_DECLARE,
                                 .declare = client->declared->of};
    struct gw_declare *declare = &message.declare;
    uint32_t at = 0;
    do {
        declare->keys_first = at;
        declare->keys = keys + at;
        declare->keys_n = gw_keys_in_part(keys + at, n - at);
        gw_client_tell(client, client->coordinator, &message);
        at += declare->keys_n;
    } while (at < n);
}

static void keep(char *to, size_t room, const char *text)
{
    snprintf(to, room, "%s", text ? text : "");
}

void gw_client_send_declaration(struct gw_client *client,
                                const struct gw_client_declaration *from)
{
    struct gw_client_declared *declared = client->declared;
    declared->of = (struct gw_declare){
        .keys_hash = gw_keys_hash(from->keys, from->n_keys),
        .course = from->course,
        .total_steps = from->total_steps,
        .device = declared->device,
        .tuned = declared->tuned,
        .note = from->note,
        .optimizer = declared->optimizer,
        .clip = from->program.clip,
        .test_samples = from->test_samples,
        .shares = client->group != NULL,
        .types_hash = gw_keys_types_hash(from->keys, from->n_keys),
        .keys_total = (uint32_t)from->n_keys};
    memcpy(declared->of.data_digest, from->data_digest, GW_DIGEST_BYTES);
    keep(declared->device, sizeof declared->device, from->device);
    keep(declared->tuned, sizeof declared->tuned, from->tuned);
    keep(declared->optimizer, sizeof declared->optimizer,
         from->program.optimizer);
    client->declaration = from;
    tell(client, from->keys,
         client->job->rank == 0 ? (uint32_t)from->n_keys : 0);
    declared->of.note = "";
}

void gw_client_declare_again(struct gw_client *client)
{
    tell(client, NULL, 0); /* shard 0 tells the keys */
}

/* ---- the keys of worker 0 ---- */

enum {
    KEY_TEXT = 320 /* the longest shape has 176 */
};

/* "a", f32[4, 5], group 0. */
static void describe(const struct gw_key *key, char text[KEY_TEXT])
{
    static const char *const types[] = {"f32", "bf16", "f16"};
    const char *type =
        key->type < sizeof types / sizeof *types ? types[key->type] : "?";
    int n = snprintf(text, KEY_TEXT, "\"%.60s\", %s[", key->name, type);
    for (size_t d = 0; d < key->dims; d++)
        n += snprintf(text + n, (size_t)(KEY_TEXT - n), "%s%" PRIu64,
                      d ? ", " : "", key->shape[d]);
    n += snprintf(text + n, (size_t)(KEY_TEXT - n), "]");
    if (key->group || key->rule)
        snprintf(text + n, (size_t)(KEY_TEXT - n), ", group %u%s", key->group,
                 key->rule == GW_KEY_RULE_MEAN ? " of means" : "");
}

static int is_same(const struct gw_key *a, const struct gw_key *b)
{
    return strcmp(a->name, b->name) == 0 && a->type == b->type &&
           a->dtype == b->dtype && a->dims == b->dims && a->rule == b->rule &&
           a->group == b->group &&
           memcmp(a->shape, b->shape, a->dims * sizeof *a->shape) == 0;
}

static void
differ(struct gw_client *client, size_t i, const char *here, const char *there)
{
    gw_client_fail(client, GW_EMISMATCH,
                   "key %zu is %s here, and %s on worker 0; give all workers "
                   "the same program and the same model",
                   i, here, there);
}

void gw_client_got_keys(void *actor,
                        struct gw_peer *peer,
                        const struct gw_message *message)
{
    struct gw_client *client = actor;
    const struct gw_client_declaration *own = client->declaration;
    const struct gw_declare *from = &message->declare;
    char here[KEY_TEXT] = "none", there[KEY_TEXT] = "none";
    size_t end = (size_t)from->keys_first + from->keys_n;
    (void)peer;
    if (!own || gw_client_has_started(client)) {
        gw_client_fail(client, GW_EPROTO, "keys came out of order");
        return;
    }
    for (size_t i = from->keys_first; i < end; i++) {
        const struct gw_key *other = &from->keys[i - from->keys_first];
        if (i < own->n_keys && is_same(&own->keys[i], other))
            continue;
        if (i < own->n_keys)
            describe(&own->keys[i], here);
        describe(other, there);
        differ(client, i, here, there);
        return;
    }
    if (end < from->keys_total)
        return;
    if (end < own->n_keys)
        describe(&own->keys[end], here);
    differ(client, end, here, there);
}
