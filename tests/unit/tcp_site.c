#include "config.h"

#include "tests/unit/tcp_site.h"

#include <errno.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

static void on_line(void *context, const char *line, size_t bytes)
{
    struct site *site = context;
    site->lines++;
    snprintf(site->line, sizeof site->line, "%.*s", (int)bytes, line);
}

static uint64_t log_clock(void *clock)
{
    return gw_loop_now(clock);
}

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    struct site *site = owner;
    (void)why, (void)why_bytes;
    if (hello->role == GW_ROLE_SERVER)
        site->guest_at_host = peer;
    else
        site->stranger = peer;
    return GW_OK;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    (void)owner, (void)peer, (void)link;
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct site *site = owner;
    (void)message;
    site->messages += peer == site->guest_at_host;
    site->strange += peer != site->guest_at_host;
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    (void)peer, (void)link, (void)frame, (void)payload;
    ((struct site *)owner)->frames++;
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    struct site *site = owner;
    (void)link, (void)status, (void)why;
    site->downs += peer == site->guest_at_host;
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    struct site *site = owner;
    (void)status, (void)why;
    site->lost += peer != site->guest_at_host;
}

static const struct gw_member_handler handler = {.admit = admit,
                                                 .link_up = link_up,
                                                 .message = on_message,
                                                 .frame = on_frame,
                                                 .link_down = link_down,
                                                 .lost = lost,
                                                 .stuck =
                                                     gw_member_stuck_unheard};

void join(struct site *site, struct gw_peer **peer_p)
{
    struct gw_error error;
    struct gw_member_options options = {
        .loop = site->loop,
        .transport = gw_transport_find("tcp", &error),
        .role = GW_ROLE_SERVER,
        .handler = &handler,
        .owner = site,
    };
    assert_int_equal(gw_member_open(&options, &site->guest, &error), GW_OK);
    assert_int_equal(gw_member_dial(site->guest, gw_member_address(site->host),
                                    GW_ROLE_COORDINATOR, 0, 1, NULL, peer_p,
                                    &error),
                     GW_OK);
}

void site_open(struct site *site)
{
    struct gw_error error;
    *site = (struct site){.lines = 0};
    assert_int_equal(gw_loop_open_uv(&site->loop, &error), GW_OK);
    site->log = (struct gw_log){.level = GW_LOG_INFO,
                                .rank = -1,
                                .role = "test",
                                .now_us = log_clock,
                                .clock = site->loop,
                                .sink = on_line,
                                .context = site};
    site->loop->log = &site->log;
    struct gw_member_options options = {
        .loop = site->loop,
        .transport = gw_transport_find("tcp", &error),
        .transport_config = {.login_us = 300000},
        .role = GW_ROLE_COORDINATOR,
        .job = 7,
        .handler = &handler,
        .owner = site,
    };
    assert_int_equal(gw_member_open(&options, &site->host, &error), GW_OK);
    assert_int_equal(gw_member_listen(site->host, "127.0.0.1:0", &error),
                     GW_OK);
}

void site_close(struct site *site)
{
    gw_member_close(site->guest);
    gw_member_close(site->host);
    gw_loop_close(site->loop);
}

static void on_limit(struct gw_timer *timer)
{
    *(int *)timer->owner = 1;
}

int turn_until(struct site *site,
               const uint64_t *number,
               uint64_t least,
               uint64_t limit_us)
{
    int late = 0;
    struct gw_timer limit = {.fire = on_limit, .owner = &late};
    gw_timer_start(site->loop, &limit, limit_us);
    while (!late && *number < least)
        gw_loop_turn(site->loop);
    gw_timer_stop(site->loop, &limit);
    return *number >= least;
}

void turn_for(struct site *site, uint64_t us)
{
    static const uint64_t never = 0;
    turn_until(site, &never, 1, us);
}

int knock(const struct site *site)
{
    const char *address = gw_member_address(site->host);
    const char *colon = strrchr(address, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(colon - address), address);
    assert_int_equal(getaddrinfo(name, colon + 1, &hints, &found), 0);
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, found->ai_addr, found->ai_addrlen), 0);
    freeaddrinfo(found);
    return fd;
}

int is_closed(struct site *site, int fd)
{
    uint8_t bytes[512];
    for (int i = 0; i < 50; i++) {
        ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return 1;
        turn_for(site, 10000);
    }
    return 0;
}

void guest_is_well(struct site *site, struct gw_peer *peer)
{
    struct gw_message message = {.kind = GW_MESSAGE_READY};
    uint64_t before = site->messages;
    assert_int_equal(gw_peer_tell(peer, &message), GW_OK);
    assert_true(turn_until(site, &site->messages, before + 1, SITE_WAIT_US));
    assert_int_equal(site->downs, 0);
}

void make_hello(const struct site *site,
                uint32_t generation,
                uint8_t out[GW_HELLO_BYTES])
{
    struct gw_hello hello = {
        .role = GW_ROLE_WORKER,
        .links = 1,
        .generation = generation,
        .rank = 3,
        .job = gw_member_job(site->host),
        .incarnation = 99,
        .version = PACKAGE_VERSION,
    };
    gw_hello_encode(&hello, out);
}

uint32_t log_in(struct site *site, int fd, uint32_t generation)
{
    uint8_t bytes[GW_REPLY_BYTES];
    struct gw_reply reply;
    size_t got = 0;
    make_hello(site, generation, bytes);
    assert_int_equal(send(fd, bytes, GW_HELLO_BYTES, MSG_NOSIGNAL),
                     GW_HELLO_BYTES);
    for (int i = 0; i < 1000 && got < sizeof bytes; i++) {
        turn_for(site, 1000);
        ssize_t n = recv(fd, bytes + got, sizeof bytes - got, MSG_DONTWAIT);
        got += n > 0 ? (size_t)n : 0;
    }
    assert_int_equal(gw_reply_decode(bytes, &reply), GW_OK);
    assert_int_equal(reply.status, GW_OK);
    return reply.session;
}
