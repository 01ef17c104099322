/*
 * Frames of one who has logged in over tcp: wrong ones cost the connection and
 * nothing else, slow ones are no silence, and the last ones are heard.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/tcp_site.h"

/* Room for a message's frame */
#define MESSAGE_BYTES 512

/* A frame of one who is logged in, wrong in one way. */
static void bad_frame(size_t which, uint32_t session, uint8_t *out)
{
    struct gw_frame frame = {
        .kind = GW_FRAME_HEARTBEAT, .session = session, .chunk = GW_CHUNK_NONE};
    switch (which) {
    case 0:
        frame.session++;
        break;
    case 1: /* a put without a window of ours */
        frame.kind = GW_FRAME_PUSH;
        frame.window = 8;
        frame.length = 64;
        break;
    case 2: /* a message that is too long */
        frame.kind = GW_FRAME_CONTROL;
        frame.length = GW_MESSAGE_BYTES_MAX + 1;
        break;
    case 3: /* acknowledges what was never sent */
        frame.offset = 1000;
        break;
    case 4: /* a message out of order, with nothing in it */
        frame.kind = GW_FRAME_CONTROL;
        frame.clock = 5;
        break;
    default:
        break;
    }
    gw_frame_encode(&frame, out);
    if (which == 5)
        out[20] ^= 1; /* behind the checksum's back */
    if (which == 6)
        out[5] = 200; /* an unknown kind */
}
#define BAD_FRAMES 7

static void bad_frames_cost_the_connection_only(void **state)
{
    struct site site;
    struct gw_peer *peer;
    (void)state;
    site_open(&site);
    join(&site, &peer);
    guest_is_well(&site, peer);
    for (size_t which = 0; which < BAD_FRAMES; which++) {
        uint8_t bytes[GW_FRAME_BYTES];
        int fd = knock(&site);
        bad_frame(which, log_in(&site, fd, 1), bytes);
        assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL),
                         sizeof bytes);
        if (!is_closed(&site, fd))
            fail_msg("bad frame %zu is taken", which);
        close(fd);
        guest_is_well(&site, peer);
        /* the host forgets the stranger, or its generation would be old */
        for (struct gw_peer *one = gw_member_peers(site.host); one;
             one = gw_peer_next(one))
            if (one->role == GW_ROLE_WORKER) {
                gw_peer_close(one);
                break;
            }
    }
    site_close(&site);
}

/* A message's frame, which `spoil` makes nonsense; returns how many bytes. */
static size_t a_message(uint32_t session,
                        uint64_t clock,
                        uint8_t spoil,
                        uint8_t bytes[MESSAGE_BYTES])
{
    static struct gw_control_arena arena;
    const struct gw_message message = {.kind = GW_MESSAGE_READY,
                                       .ready = {.version = 300}};
    uint8_t *payload = bytes + GW_FRAME_BYTES;
    size_t n;
    assert_int_equal(gw_message_encode(&message, &arena, payload,
                                       MESSAGE_BYTES - GW_FRAME_BYTES, &n),
                     GW_OK);
    payload[0] ^= spoil;
    struct gw_frame frame = {.kind = GW_FRAME_CONTROL,
                             .session = session,
                             .clock = clock,
                             .length = (uint32_t)n,
                             .chunk = GW_CHUNK_NONE,
                             .payload_crc = gw_crc32c(0, payload, n)};
    gw_frame_encode(&frame, bytes);
    return GW_FRAME_BYTES + n;
}

/* What could not be read was not received: it counts when it comes again. */
static void a_message_in_pieces_comes_again(void **state)
{
    struct site site;
    struct gw_peer *peer;
    uint8_t bytes[MESSAGE_BYTES];
    (void)state;
    site_open(&site);
    join(&site, &peer);
    guest_is_well(&site, peer);
    for (uint32_t round = 1; round <= 2; round++) {
        int fd = knock(&site);
        size_t n = a_message(log_in(&site, fd, round), 1, round == 1 ? 0xff : 0,
                             bytes);
        assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
        if (round == 1)
            assert_true(is_closed(&site, fd));
        else
            assert_true(turn_until(&site, &site.strange, 1, SITE_WAIT_US));
        close(fd);
    }
    site_close(&site);
}

/* A large payload on a thin line: its bytes are heard before it is whole. */
static void a_slow_frame_is_no_silence(void **state)
{
    struct site site;
    struct gw_peer *peer;
    (void)state;
    site_open(&site);
    join(&site, &peer);
    guest_is_well(&site, peer);
    uint8_t bytes[GW_FRAME_BYTES], payload[16] = {0};
    int fd = knock(&site);
    struct gw_frame frame = {.kind = GW_FRAME_CONTROL,
                             .session = log_in(&site, fd, 1),
                             .clock = 1,
                             .length = GW_MESSAGE_BYTES_MAX,
                             .chunk = GW_CHUNK_NONE};
    gw_frame_encode(&frame, bytes);
    assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
    for (size_t at = 0; at < sizeof payload; at++) {
        turn_for(&site, 100000);
        assert_int_equal(send(fd, payload + at, 1, MSG_NOSIGNAL), 1);
    }
    assert_int_equal(site.lost, 0);
    assert_true(turn_until(&site, &site.lost, 1, SITE_WAIT_US));
    close(fd);
    site_close(&site);
}

/* One that ends at once, with something unread, is reset: its last words are
   heard also where the host was about to write. */
static void last_words_are_heard_by_a_writer(void **state)
{
    const struct gw_message message = {.kind = GW_MESSAGE_READY};
    struct site site;
    uint8_t bytes[MESSAGE_BYTES], unread;
    (void)state;
    site_open(&site);
    for (uint32_t round = 1; round <= 10; round++) {
        int fd = knock(&site);
        size_t n = a_message(log_in(&site, fd, round), round, 0, bytes);
        assert_int_equal(gw_peer_tell(site.stranger, &message), GW_OK);
        turn_for(&site, 1000);
        assert_int_equal(recv(fd, &unread, 1, MSG_PEEK), 1);
        assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
        close(fd);
        assert_int_equal(gw_peer_tell(site.stranger, &message), GW_OK);
        assert_true(turn_until(&site, &site.strange, round, 500000));
    }
    site_close(&site);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_frames_cost_the_connection_only),
        cmocka_unit_test(a_message_in_pieces_comes_again),
        cmocka_unit_test(a_slow_frame_is_no_silence),
        cmocka_unit_test(last_words_are_heard_by_a_writer),
    };
    return cmocka_run_group_tests_name("tcp frames", tests, NULL, NULL);
}
