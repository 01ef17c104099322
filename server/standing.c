/* Tells a coordinator that has told a later view where this shard stands, and a
   standby that comes while the job runs where shard 0 does. */
#include "config.h"

#include "server/server_state.h"

void gw_standing_tell(struct gw_server *server, struct gw_peer *peer)
{
    const struct gw_shard *shard = server->shard;
    char policy[GW_WORD_BYTES] = "";
    struct gw_message message = {
        .kind = GW_MESSAGE_STANDING,
        .standing = {.epoch = gw_member_epoch(server->member),
                     .ready = 1,
                     .chunks = shard->chunks,
                     .policy = policy}};
    struct gw_standing *standing = &message.standing;
    for (uint32_t i = 0; i < shard->chunks; i++) {
        uint64_t version = shard->chunk[i].version;
        if (i == 0 || version < standing->least)
            standing->least = version;
        if (version > standing->most)
            standing->most = version;
        standing->ready &= shard->chunk[i].ready;
    }
    if (server->leader) {
        standing->state = *gw_leader_state(server->leader);
        standing->decision = gw_leader_number(server->leader);
        gw_policy_word_print(&server->regime.word, policy);
        gw_switch_fill_standing(server, standing);
    }
    gw_server_tell(server, peer, &message);
}
