/*
 * transport/member/remote: the asking side of files that go through the
 * coordinator, which is played here; the functions of member.h that it uses are
 * this file's.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "transport/member/remote.h"

#define FILE_BYTES   ((size_t)5 << 19) /* two pieces and a half */
#define WINDOW_BYTES ((uint64_t)4 << 20)

static struct gw_peer coordinator;
static struct gw_file_open asked; /* last */
static unsigned asks;
static struct gw_send *sending; /* that has not left */

enum gw_status gw_peer_tell(struct gw_peer *peer,
                            const struct gw_message *message)
{
    assert_ptr_equal(peer, &coordinator);
    assert_int_equal(message->kind, GW_MESSAGE_FILE_OPEN);
    asked = message->file_open;
    asks++;
    return GW_OK;
}

void gw_peer_send(struct gw_peer *peer, unsigned link, struct gw_send *send)
{
    assert_ptr_equal(peer, &coordinator);
    assert_int_equal(link, 0);
    assert_null(sending);
    sending = send;
}

static void has_left(enum gw_status status)
{
    struct gw_send *send = sending;
    assert_non_null(send);
    sending = NULL;
    send->done(send, status);
}

/* What became of the request. */
static struct outcome {
    int n;
    enum gw_status status;
    uint64_t bytes;
    char text[64];
} outcome;

static void
done(void *owner, enum gw_status status, const char *text, uint64_t bytes)
{
    assert_ptr_equal(owner, &outcome);
    outcome.n++;
    outcome.status = status;
    outcome.bytes = bytes;
    snprintf(outcome.text, sizeof outcome.text, "%s", text);
}

static uint8_t file[FILE_BYTES];

static struct gw_remote *begin(void)
{
    struct gw_remote *remote;
    struct gw_error error;
    coordinator = (struct gw_peer){.role = 0};
    outcome = (struct outcome){.n = 0};
    asked = (struct gw_file_open){.request = 0};
    sending = NULL;
    asks = 0;
    for (size_t i = 0; i < FILE_BYTES; i++)
        file[i] = (uint8_t)(i * 7 + i / 251);
    assert_int_equal(gw_remote_open(&coordinator, &remote, &error), GW_OK);
    return remote;
}

static void reply(struct gw_remote *remote, struct gw_file_reply say)
{
    say.request = asked.request;
    say.text = say.status == GW_OK ? "" : "full";
    gw_remote_reply(remote, &say);
}

static void written(struct gw_remote *remote, uint64_t bytes)
{
    reply(remote, (struct gw_file_reply){
                      .offset = bytes, .bytes = WINDOW_BYTES, .window = 9});
}

static void begin_to_write(struct gw_remote *remote)
{
    static struct gw_file_part parts[2];
    parts[0] = (struct gw_file_part){file, 1000};
    parts[1] = (struct gw_file_part){file + 1000, FILE_BYTES - 1000};
    gw_remote_write(remote, 12, "f", parts, 2, done, &outcome);
}

static void is_asked_to_write(void)
{
    assert_int_equal(asked.write, 1);
    assert_int_equal(asked.clock, 12);
    assert_int_equal(asked.offset, 0);
    assert_int_equal(asked.bytes, FILE_BYTES);
}

static void write_file(struct gw_remote *remote)
{
    begin_to_write(remote);
    is_asked_to_write();
}

/* The piece that is on its way: right bytes, in the right place. */
static uint64_t check_piece(void)
{
    assert_non_null(sending);
    const struct gw_frame *frame = &sending->frame;
    assert_int_equal(frame->kind, GW_FRAME_FILE);
    assert_int_equal(frame->window, 9);
    assert_int_equal(frame->count, asked.request);
    assert_int_equal(frame->offset, frame->clock % WINDOW_BYTES);
    assert_memory_equal(sending->payload, file + frame->clock, frame->length);
    return frame->clock + frame->length;
}

static void a_file_is_written_in_pieces(void **state)
{
    (void)state;
    struct gw_remote *remote = begin();
    write_file(remote);
    assert_null(sending); /* nobody has said where to */
    written(remote, 0);
    uint64_t end = 0;
    unsigned pieces = 0;
    while (sending) {
        assert_int_equal(sending->frame.clock, end);
        end = check_piece();
        pieces++;
        has_left(GW_OK);
    }
    assert_int_equal(end, FILE_BYTES);
    assert_int_equal(pieces, 4); /* the first part is short */
    assert_int_equal(outcome.n, 0);
    written(remote, FILE_BYTES);
    assert_int_equal(outcome.n, 1);
    assert_int_equal(outcome.status, GW_OK);
    gw_remote_close(remote);
}

/* A piece is sent again after a link broke, and the coordinator had it: what
   the caller owns is read until the piece has left. */
static void nothing_is_over_while_it_is_sent(void **state)
{
    (void)state;
    static const enum gw_status left[] = {GW_OK, GW_ECLOSED};
    for (size_t i = 0; i < 4; i++) {
        struct gw_remote *remote = begin();
        write_file(remote);
        written(remote, 0);
        while (sending)
            has_left(GW_OK);
        gw_remote_link_up(remote);
        check_piece();
        if (i < 2)
            written(remote, FILE_BYTES);
        else
            reply(remote, (struct gw_file_reply){.status = GW_ENOSPC});
        assert_int_equal(outcome.n, 0);
        gw_remote_link_up(remote); /* changes nothing */
        has_left(left[i % 2]);
        assert_null(sending);
        assert_int_equal(outcome.n, 1);
        assert_int_equal(outcome.status, i < 2 ? GW_OK : GW_ENOSPC);
        assert_string_equal(outcome.text, i < 2 ? "" : "full");
        write_file(remote); /* the next one */
        written(remote, 0);
        check_piece();
        has_left(GW_OK);
        gw_remote_close(remote);
    }
}

static void what_a_link_lost_is_sent_again(void **state)
{
    (void)state;
    struct gw_remote *remote = begin();
    write_file(remote);
    written(remote, 0);
    uint64_t first = check_piece();
    has_left(GW_OK);
    written(remote, first);
    has_left(GW_ECLOSED);
    assert_null(sending);
    gw_remote_link_up(remote);
    check_piece();
    assert_int_equal(sending->frame.clock, first);
    assert_int_equal(asks, 1);
    has_left(GW_OK);
    gw_remote_close(remote);
}

static void lies_of_the_coordinator_end_a_request(void **state)
{
    (void)state;
    static const struct gw_file_reply lies[] = {
        {.offset = 1, .bytes = WINDOW_BYTES, .window = 9}, /* was not sent */
        {.offset = 0, .bytes = 0, .window = 9},            /* no window */
    };
    for (size_t i = 0; i < 2; i++) {
        struct gw_remote *remote = begin();
        write_file(remote);
        reply(remote, lies[i]);
        assert_int_equal(outcome.n, 1);
        assert_int_equal(outcome.status, GW_EPROTO);
        reply(remote, lies[i]); /* nobody waits any more */
        assert_int_equal(outcome.n, 1);
        gw_remote_close(remote);
    }
}

/* The coordinator's put of what was asked for. */
static void put(struct gw_remote *remote)
{
    void *to = gw_window_at(&coordinator.windows, GW_FRAME_FILE, asked.window,
                            0, (uint32_t)asked.bytes);
    assert_non_null(to);
    memcpy(to, file + asked.offset, (size_t)asked.bytes);
    const struct gw_frame frame = {.kind = GW_FRAME_FILE,
                                   .window = asked.window,
                                   .clock = asked.offset,
                                   .count = asked.request,
                                   .length = (uint32_t)asked.bytes};
    assert_int_equal(gw_remote_frame(remote, &frame), 1);
}

static void a_file_is_read_in_pieces(void **state)
{
    (void)state;
    static uint8_t to[FILE_BYTES];
    struct gw_remote *remote = begin();
    gw_remote_read(remote, 12, "f", 0, NULL, 0, done, &outcome);
    const struct gw_frame nothing = {
        .kind = GW_FRAME_FILE, .window = asked.window, .count = asked.request};
    assert_int_equal(gw_remote_frame(remote, &nothing), 0); /* no size */
    reply(remote, (struct gw_file_reply){.bytes = FILE_BYTES});
    assert_int_equal(outcome.n, 1);
    assert_int_equal(outcome.bytes, FILE_BYTES);
    memset(to, 0, sizeof to);
    gw_remote_read(remote, 12, "f", 100, to, FILE_BYTES - 100, done, &outcome);
    while (outcome.n == 1) {
        assert_int_equal(asked.write, 0);
        gw_remote_link_up(remote); /* asks again, for the same */
        put(remote);
    }
    assert_int_equal(outcome.status, GW_OK);
    assert_memory_equal(to, file + 100, FILE_BYTES - 100);
    assert_int_equal(asks, 1 + 2 * 3);
    gw_remote_close(remote);
}

/* ---- another coordinator in the place of the one before ---- */

/* Nothing is asked of it, nor sent to it, whatever its link does. */
static void hold(struct gw_remote *remote)
{
    unsigned before = asks;
    gw_remote_hold(remote);
    gw_remote_link_up(remote);
    gw_remote_link_up(remote);
    assert_int_equal(asks, before);
    assert_null(sending);
}

/* Asks once, for what is under way, by a number that was not used before. */
static void renew(struct gw_remote *remote)
{
    uint32_t request = asked.request;
    unsigned before = asks;
    gw_remote_renew(remote);
    assert_int_equal(asks, before + 1);
    assert_true(asked.request > request);
    assert_null(sending);
}

/* All pieces that the window has room for leave, from the first byte on. */
static void write_all(struct gw_remote *remote)
{
    uint64_t end = 0;
    is_asked_to_write();
    written(remote, 0);
    while (sending) {
        assert_int_equal(sending->frame.clock, end);
        end = check_piece();
        has_left(GW_OK);
    }
    assert_int_equal(end, FILE_BYTES);
    assert_int_equal(outcome.n, 0);
    written(remote, FILE_BYTES);
    assert_int_equal(outcome.n, 1);
    assert_int_equal(outcome.status, GW_OK);
}

/* It has no byte of the file: all that the one before had is sent again, and
   words of that one count no more. */
static void a_write_begins_again_with_another_one(void **state)
{
    (void)state;
    static const enum gw_status left[] = {GW_OK, GW_ECLOSED};
    for (size_t i = 0; i < 2; i++) {
        struct gw_remote *remote = begin();
        write_file(remote);
        written(remote, 0);
        uint64_t first = check_piece();
        has_left(GW_OK);
        written(remote, first);
        has_left(left[i]);
        if (sending)
            has_left(GW_ECLOSED);
        const struct gw_file_reply late = {.request = asked.request,
                                           .offset = first,
                                           .bytes = WINDOW_BYTES,
                                           .window = 8,
                                           .text = ""};
        const struct gw_file_reply full = {
            .request = asked.request, .status = GW_ENOSPC, .text = "full"};
        hold(remote);
        gw_remote_reply(remote, &late);
        gw_remote_reply(remote, &full);
        assert_null(sending);
        renew(remote);
        gw_remote_reply(remote, &late);
        gw_remote_reply(remote, &full);
        assert_null(sending);
        assert_int_equal(outcome.n, 0);
        write_all(remote);
        gw_remote_close(remote);
    }
}

/* A third one comes before the second one knew this member. */
static void one_after_another_may_take_the_place(void **state)
{
    (void)state;
    struct gw_remote *remote = begin();
    write_file(remote);
    hold(remote);
    hold(remote);
    renew(remote);
    written(remote, 0);
    check_piece();
    has_left(GW_ECLOSED);
    hold(remote);
    renew(remote);
    write_all(remote);
    gw_remote_close(remote);
}

/* The pieces that are there already stay; the one that was asked for is asked
   for again, and comes from the new one alone. */
static void a_read_goes_on_with_another_one(void **state)
{
    (void)state;
    static uint8_t to[FILE_BYTES];
    struct gw_remote *remote = begin();
    memset(to, 0, sizeof to);
    gw_remote_read(remote, 12, "f", 100, to, FILE_BYTES - 100, done, &outcome);
    put(remote);
    const struct gw_file_open before = asked;
    const struct gw_frame late = {.kind = GW_FRAME_FILE,
                                  .window = before.window,
                                  .clock = before.offset,
                                  .count = before.request,
                                  .length = (uint32_t)before.bytes};
    const struct gw_file_reply lost = {
        .request = before.request, .status = GW_ENOENT, .text = "gone"};
    hold(remote);
    assert_int_equal(gw_remote_frame(remote, &late), 1);
    gw_remote_reply(remote, &lost);
    renew(remote);
    assert_int_equal(asked.offset, before.offset);
    assert_int_equal(asked.bytes, before.bytes);
    assert_int_equal(gw_remote_frame(remote, &late), 1);
    gw_remote_reply(remote, &lost);
    assert_int_equal(outcome.n, 0);
    while (outcome.n == 0)
        put(remote);
    assert_int_equal(outcome.status, GW_OK);
    assert_memory_equal(to, file + 100, FILE_BYTES - 100);
    gw_remote_close(remote);
}

/* A member need not know that nobody can be asked now. */
static void what_begins_meanwhile_is_asked_later(void **state)
{
    (void)state;
    static uint8_t to[FILE_BYTES];
    struct gw_remote *remote = begin();
    hold(remote);
    begin_to_write(remote);
    assert_int_equal(asks, 0);
    renew(remote);
    write_all(remote);
    hold(remote);
    gw_remote_read(remote, 12, "f", 0, NULL, 0, done, &outcome);
    assert_int_equal(asks, 1);
    renew(remote);
    reply(remote, (struct gw_file_reply){.bytes = FILE_BYTES});
    assert_int_equal(outcome.n, 2);
    assert_int_equal(outcome.bytes, FILE_BYTES);
    hold(remote);
    gw_remote_read(remote, 12, "f", 0, to, FILE_BYTES, done, &outcome);
    assert_int_equal(asks, 2);
    renew(remote);
    while (outcome.n == 2)
        put(remote);
    assert_memory_equal(to, file, FILE_BYTES);
    gw_remote_close(remote);
}

/* Nothing is under way, or only a piece of something that is over. */
static void what_is_over_does_not_begin_again(void **state)
{
    (void)state;
    struct gw_remote *remote = begin();
    hold(remote);
    gw_remote_renew(remote);
    assert_int_equal(asks, 0);
    write_file(remote);
    written(remote, 0);
    while (sending)
        has_left(GW_OK);
    gw_remote_link_up(remote);
    check_piece();
    written(remote, FILE_BYTES);
    assert_int_equal(outcome.n, 0); /* the piece has not left */
    gw_remote_hold(remote);
    gw_remote_renew(remote);
    assert_int_equal(asks, 1);
    has_left(GW_ECLOSED);
    assert_int_equal(outcome.n, 1);
    assert_int_equal(outcome.status, GW_OK);
    gw_remote_close(remote);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_written_in_pieces),
        cmocka_unit_test(nothing_is_over_while_it_is_sent),
        cmocka_unit_test(what_a_link_lost_is_sent_again),
        cmocka_unit_test(lies_of_the_coordinator_end_a_request),
        cmocka_unit_test(a_file_is_read_in_pieces),
        cmocka_unit_test(a_write_begins_again_with_another_one),
        cmocka_unit_test(one_after_another_may_take_the_place),
        cmocka_unit_test(a_read_goes_on_with_another_one),
        cmocka_unit_test(what_begins_meanwhile_is_asked_later),
        cmocka_unit_test(what_is_over_does_not_begin_again),
    };
    return cmocka_run_group_tests_name("remote", tests, NULL, NULL);
}
