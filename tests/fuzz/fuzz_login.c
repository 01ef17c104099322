/*
 * Logins from anyone. Checksums and sizes are put right in most inputs, so that
 * what lies behind them is reached. What is taken comes back the same.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "proto/login.h"
#include "proto/wire.h"

static int is_printable(const char *text, size_t room)
{
    size_t n = strnlen(text, room);
    for (size_t i = 0; i < n; i++)
        if (text[i] < ' ' || text[i] > '~')
            return 0;
    return n < room;
}

/* Magic, wire version, size and checksum as they should be. */
static void
put_right(uint8_t *bytes, size_t n, const uint8_t *like, int version_too)
{
    memcpy(bytes, like, version_too ? 12 : 8);
    gw_put_u32(bytes + n - 4, gw_crc32c(0, bytes, n - 4));
}

static void read_hello(uint8_t in[GW_HELLO_BYTES])
{
    struct gw_hello hello = {0}, again = {0};
    uint8_t out[GW_HELLO_BYTES];
    enum gw_status status = gw_hello_decode(in, &hello);
    if (status == GW_EPROTO)
        return;
    FUZZ_PROMISE(is_printable(hello.version, sizeof hello.version));
    if (status == GW_EVERSION)
        return;
    FUZZ_PROMISE(status == GW_OK);
    FUZZ_PROMISE(hello.link < hello.links && hello.links <= GW_LINKS_MAX);
    FUZZ_PROMISE(hello.incarnation != 0);
    gw_hello_encode(&hello, out);
    FUZZ_PROMISE(gw_hello_decode(out, &again) == GW_OK);
    FUZZ_PROMISE(strcmp(hello.version, again.version) == 0);
    FUZZ_PROMISE(hello.job == again.job && hello.rank == again.rank &&
                 hello.expects == again.expects);
}

static void read_reply(uint8_t in[GW_REPLY_BYTES])
{
    struct gw_reply reply = {0}, again = {0};
    uint8_t out[GW_REPLY_BYTES];
    enum gw_status status = gw_reply_decode(in, &reply);
    if (status == GW_EPROTO)
        return;
    FUZZ_PROMISE(is_printable(reply.version, sizeof reply.version));
    if (status == GW_EVERSION)
        return;
    FUZZ_PROMISE(status == GW_OK);
    FUZZ_PROMISE(is_printable(reply.reason, sizeof reply.reason));
    gw_reply_encode(&reply, out);
    FUZZ_PROMISE(gw_reply_decode(out, &again) == GW_OK);
    FUZZ_PROMISE(strcmp(reply.reason, again.reason) == 0);
    FUZZ_PROMISE(reply.status == again.status &&
                 reply.session == again.session);
    FUZZ_PROMISE(gw_status_text(reply.status)[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t hello[GW_HELLO_BYTES] = {0}, reply[GW_REPLY_BYTES] = {0};
    uint8_t like[GW_REPLY_BYTES];
    if (n == 0)
        return 0;
    uint8_t how = data[0];
    data++;
    n--;
    memcpy(hello, data, n < sizeof hello ? n : sizeof hello);
    memcpy(reply, data, n < sizeof reply ? n : sizeof reply);
    if (how & 1) {
        gw_hello_encode(&(struct gw_hello){.version = "1"}, like);
        put_right(hello, sizeof hello, like, how & 2);
        gw_reply_encode(&(struct gw_reply){.version = "1"}, like);
        put_right(reply, sizeof reply, like, how & 2);
    }
    read_hello(hello);
    read_reply(reply);
    return 0;
}
