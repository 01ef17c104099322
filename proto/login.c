#include <config.h>

#include "proto/login.h"

#include <string.h>

#include "proto/wire.h"

/*
 *  0 magic 8 | wire version 2 | size 2 | zero 4 | program version 24
 * hello: 40 role 1 | link 1 | links 1 | zero 1 | generation 4 | rank 4 |
 *        epoch 4 | job 8 | incarnation 8 | expects 8 | proof 12 | CRC32C 4
 * reply: 40 status 4 | session 4 | epoch 4 | zero 4 | job 8 | incarnation 8 |
 *        reason 160 | zero 20 | CRC32C 4
 */
#define PROVED_BYTES 80 /* a hello up to its proof */

static const uint8_t hello_magic[8] = "GWHELLO";
static const uint8_t reply_magic[8] = "GWREPLY";

const char *gw_role_name(uint8_t role)
{
    switch (role) {
    case GW_ROLE_COORDINATOR:
        return "coordinator";
    case GW_ROLE_SERVER:
        return "server";
    case GW_ROLE_STANDBY:
        return "standby";
    case GW_ROLE_WORKER:
        return "worker";
    case GW_ROLE_OBSERVER:
        return "observer";
    default:
        return "unknown";
    }
}

static void put_text(uint8_t *out, const char *text, size_t room)
{
    size_t n = strnlen(text, room - 1);
    memset(out, 0, room);
    memcpy(out, text, n);
}

/* Text from outside is shown to people: printable ASCII only. */
static void get_text(const uint8_t *in, char *text, size_t room)
{
    size_t n = strnlen((const char *)in, room - 1);
    for (size_t i = 0; i < n; i++)
        text[i] = in[i] >= ' ' && in[i] <= '~' ? (char)in[i] : '?';
    text[n] = '\0';
}

static void
begin(uint8_t *out, size_t bytes, const uint8_t magic[8], const char *version)
{
    memset(out, 0, bytes);
    memcpy(out, magic, 8);
    gw_put_u16(out + 8, GW_WIRE_VERSION);
    gw_put_u16(out + 10, (uint16_t)bytes);
    put_text(out + 16, version, GW_VERSION_TEXT_MAX);
}

static void finish(uint8_t *out, size_t bytes)
{
    gw_put_u32(out + bytes - 4, gw_crc32c(0, out, bytes - 4));
}

static enum gw_status check(const uint8_t *in,
                            size_t bytes,
                            const uint8_t magic[8],
                            char *version,
                            uint16_t *wire_p)
{
    if (memcmp(in, magic, 8) != 0)
        return GW_EPROTO;
    get_text(in + 16, version, GW_VERSION_TEXT_MAX);
    *wire_p = gw_get_u16(in + 8);
    if (*wire_p != GW_WIRE_VERSION)
        return GW_EVERSION;
    if (gw_get_u16(in + 10) != bytes ||
        gw_get_u32(in + bytes - 4) != gw_crc32c(0, in, bytes - 4))
        return GW_EPROTO;
    return GW_OK;
}

void gw_hello_encode(const struct gw_hello *hello, uint8_t out[GW_HELLO_BYTES])
{
    begin(out, GW_HELLO_BYTES, hello_magic, hello->version);
    out[40] = hello->role;
    out[41] = hello->link;
    out[42] = hello->links;
    gw_put_u32(out + 44, hello->generation);
    gw_put_u32(out + 48, hello->rank);
    gw_put_u32(out + 52, hello->epoch);
    gw_put_u64(out + 56, hello->job);
    gw_put_u64(out + 64, hello->incarnation);
    gw_put_u64(out + 72, hello->expects);
    memcpy(out + PROVED_BYTES, hello->proof, GW_HELLO_PROOF_BYTES);
    finish(out, GW_HELLO_BYTES);
}

enum gw_status gw_hello_decode(const uint8_t in[GW_HELLO_BYTES],
                               struct gw_hello *hello)
{
    enum gw_status status =
        check(in, GW_HELLO_BYTES, hello_magic, hello->version, &hello->wire);
    if (status != GW_OK)
        return status;
    uint8_t role = in[40], link = in[41], links = in[42];
    if (role < GW_ROLE_COORDINATOR || role > GW_ROLE_OBSERVER || links == 0 ||
        links > GW_LINKS_MAX || link >= links || gw_get_u32(in + 44) == 0 ||
        gw_get_u64(in + 64) == 0)
        return GW_EPROTO;
    hello->role = role;
    hello->link = link;
    hello->links = links;
    hello->generation = gw_get_u32(in + 44);
    hello->rank = gw_get_u32(in + 48);
    hello->epoch = gw_get_u32(in + 52);
    hello->job = gw_get_u64(in + 56);
    hello->incarnation = gw_get_u64(in + 64);
    hello->expects = gw_get_u64(in + 72);
    memcpy(hello->proof, in + PROVED_BYTES, GW_HELLO_PROOF_BYTES);
    return GW_OK;
}

static enum gw_status prove(const struct gw_hello *hello,
                            const struct gw_secret *pair,
                            uint8_t proof[GW_PROOF_BYTES])
{
    uint8_t bytes[GW_HELLO_BYTES];
    gw_hello_encode(hello, bytes);
    return gw_secret_prove(pair, "gradweir hello", bytes, PROVED_BYTES, proof);
}

enum gw_status gw_hello_prove(struct gw_hello *hello,
                              const struct gw_secret *pair)
{
    uint8_t proof[GW_PROOF_BYTES];
    enum gw_status status = prove(hello, pair, proof);
    memcpy(hello->proof, proof, GW_HELLO_PROOF_BYTES);
    return status;
}

enum gw_status gw_hello_is_proved(const struct gw_hello *hello,
                                  const struct gw_secret *pair)
{
    uint8_t proof[GW_PROOF_BYTES];
    enum gw_status status = prove(hello, pair, proof);
    if (status == GW_OK &&
        !gw_proof_is(hello->proof, proof, GW_HELLO_PROOF_BYTES))
        status = GW_EREFUSED;
    return status;
}

void gw_reply_encode(const struct gw_reply *reply, uint8_t out[GW_REPLY_BYTES])
{
    begin(out, GW_REPLY_BYTES, reply_magic, reply->version);
    gw_put_u32(out + 40, (uint32_t)reply->status);
    gw_put_u32(out + 44, reply->session);
    gw_put_u32(out + 48, reply->epoch);
    gw_put_u64(out + 56, reply->job);
    gw_put_u64(out + 64, reply->incarnation);
    put_text(out + 72, reply->reason, GW_REASON_TEXT_MAX);
    finish(out, GW_REPLY_BYTES);
}

enum gw_status gw_reply_decode(const uint8_t in[GW_REPLY_BYTES],
                               struct gw_reply *reply)
{
    enum gw_status status =
        check(in, GW_REPLY_BYTES, reply_magic, reply->version, &reply->wire);
    if (status != GW_OK)
        return status;
    reply->status = (enum gw_status)(int32_t)gw_get_u32(in + 40);
    reply->session = gw_get_u32(in + 44);
    reply->epoch = gw_get_u32(in + 48);
    reply->job = gw_get_u64(in + 56);
    reply->incarnation = gw_get_u64(in + 64);
    get_text(in + 72, reply->reason, GW_REASON_TEXT_MAX);
    return GW_OK;
}
