/*
 * Control messages from anyone: no crash, no allocation outside the arena, and
 * what is taken can be sent on and reads the same again.
 */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "proto/control.h"
#include "proto/wire.h"

/* Three arenas: a message's pointers lead into its own. */
struct workshop {
    struct gw_control_arena first, second, scratch;
    uint8_t once[GW_MESSAGE_BYTES_MAX], twice[GW_MESSAGE_BYTES_MAX];
};

static void goes_round(struct workshop *shop, const struct gw_message *message)
{
    struct gw_message again;
    size_t n = 0, m = 0;
    enum gw_status status = gw_message_encode(
        message, &shop->scratch, shop->once, sizeof shop->once, &n);
    FUZZ_PROMISE(status == GW_OK);
    FUZZ_PROMISE(gw_message_decode(shop->once, n, &shop->second, &again) ==
                 GW_OK);
    FUZZ_PROMISE(again.kind == message->kind);
    FUZZ_PROMISE(gw_message_encode(&again, &shop->scratch, shop->twice,
                                   sizeof shop->twice, &m) == GW_OK);
    FUZZ_PROMISE(n == m && memcmp(shop->once, shop->twice, n) == 0);
    if (n > 0)
        FUZZ_PROMISE(gw_message_encode(message, &shop->scratch, shop->once,
                                       n - 1, &m) == GW_ERANGE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct workshop shop;
    struct gw_message message;
    if (gw_message_decode(data, n, &shop.first, &message) == GW_OK) {
        FUZZ_PROMISE(n <= GW_MESSAGE_BYTES_MAX);
        FUZZ_PROMISE(strcmp(gw_message_name(message.kind), "unknown") != 0);
        goes_round(&shop, &message);
    }
    return 0;
}
