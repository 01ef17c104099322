#include "config.h"

#include "server/checkpoint/membership.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/config.h"
#include "proto/digest.h"
#include "server/checkpoint/json.h"
#include "server/checkpoint/store.h"

#define FORMAT      2
#define BYTES_MAX   ((uint64_t)32 << 20)
#define NUMBER_MAX  17 /* 64 bits in hexadecimal digits */
#define DIGITS      "0123456789abcdef"
#define MEMBERS_MAX 65536
#define PATH_BYTES  1024 /* for messages */

void gw_membership_free(struct gw_membership *membership)
{
    free(membership->threads);
    free(membership->member);
    *membership = (struct gw_membership){0};
}

void gw_membership_digest(const void *bytes,
                          size_t n,
                          uint8_t digest[GW_DIGEST_BYTES])
{
    struct gw_digest *of = gw_digest_begin();
    gw_digest_add(of, bytes, n);
    gw_digest_end(of, digest);
}

/* ---- printing: identities are texts, since JSON has no such numbers ---- */

static json_t *print_number(uint64_t number)
{
    char text[NUMBER_MAX];
    snprintf(text, sizeof text, "%016" PRIx64, number);
    return json_string(text);
}

static json_t *print_digest(const uint8_t digest[GW_DIGEST_BYTES])
{
    char text[2 * GW_DIGEST_BYTES + 1];
    gw_digest_hex(digest, text);
    return json_string(text);
}

/* JSON is UTF-8, but a host may have any name; it is for people. */
static json_t *print_host(const char *host)
{
    char plain[sizeof((struct gw_membership_member *)0)->host];
    snprintf(plain, sizeof plain, "%s", host);
    for (char *at = plain; *at; at++)
        if ((unsigned char)*at > 0x7f)
            *at = '?';
    return json_string(plain);
}

static json_t *print_member(const struct gw_membership_member *member)
{
    return json_pack(
        "{s:i, s:i, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "role",
        member->role, "caught", member->caught, "id", (json_int_t)member->id,
        "server", (json_int_t)member->server, "thread",
        (json_int_t)member->thread, "pid", (json_int_t)member->pid, "host",
        print_host(member->host), "incarnation",
        print_number(member->incarnation), "machine",
        print_number(member->machine), "secret", print_digest(member->secret));
}

static json_t *print_threads(const struct gw_membership *membership)
{
    json_t *threads = json_array();
    int failed = 0;
    for (size_t i = 0; i < membership->servers; i++)
        failed |= json_array_append_new(threads,
                                        json_integer(membership->threads[i]));
    if (!failed)
        return threads;
    json_decref(threads);
    return NULL;
}

static json_t *print_members(const struct gw_membership *membership)
{
    json_t *members = json_array();
    int failed = 0;
    for (size_t i = 0; i < membership->members; i++)
        failed |= json_array_append_new(members,
                                        print_member(&membership->member[i]));
    if (!failed)
        return members;
    json_decref(members);
    return NULL;
}

static json_t *print_from(const struct gw_course_cut *from)
{
    const struct gw_course *course = &from->course;
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I}", "clock", (json_int_t)from->clock,
        "since", (json_int_t)course->clock, "epoch", (json_int_t)course->epoch,
        "sample", (json_int_t)course->sample, "batch",
        (json_int_t)course->batch, "samples", (json_int_t)course->samples);
}

static json_t *print(const struct gw_membership *membership)
{
    return json_pack(
        "{s:i, s:o, s:o, s:I, s:s, s:s, s:I, s:I, s:I, s:o, s:i, s:o, s:o}",
        "format", FORMAT, "job", print_number(membership->job), "text",
        print_digest(membership->text), "epoch", (json_int_t)membership->epoch,
        "address", membership->address, "token", membership->token,
        "silence_us", (json_int_t)membership->silence_us, "began_us",
        (json_int_t)membership->began_us, "begin",
        (json_int_t)membership->begin, "from", print_from(&membership->from),
        "sums", membership->sums, "threads", print_threads(membership),
        "members", print_members(membership));
}

enum gw_status gw_membership_write(struct gw_disk *dir,
                                   const struct gw_membership *membership,
                                   struct gw_error *error)
{
    json_t *json = print(membership);
    char *text = json ? gw_json_dump(json, JSON_INDENT(1)) : NULL;
    json_decref(json);
    if (!text)
        return gw_fail(error, GW_ENOMEM, "no memory to list the members");
    enum gw_status status =
        gw_store_replace(dir, GW_MEMBERSHIP_NAME, text, error);
    free(text);
    return status;
}

void gw_membership_remove(struct gw_disk *dir)
{
    dir->ops->remove(dir, GW_MEMBERSHIP_NAME, NULL);
}

/* ---- reading ---- */

static int read_number(const char *text, uint64_t *number_p)
{
    *number_p = strtoull(text, NULL, 16);
    return strlen(text) == NUMBER_MAX - 1 &&
           strspn(text, DIGITS) == NUMBER_MAX - 1;
}

/* A number of JSON's that is one of ours. */
static int is_count(json_int_t number, uint64_t most)
{
    return number >= 0 && (uint64_t)number <= most;
}

static int is_role(json_int_t role)
{
    return is_count(role, UINT8_MAX) &&
           (role == GW_ROLE_WORKER || gw_role_has_shard((uint8_t)role));
}

static enum gw_status read_member(json_t *from,
                                  struct gw_membership_member *member)
{
    json_int_t role, caught, id, server, thread, pid;
    const char *host, *incarnation, *machine, *secret;
    enum gw_status status = gw_json_unpack(
        from, "{s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:s}", "role",
        &role, "caught", &caught, "id", &id, "server", &server, "thread",
        &thread, "pid", &pid, "host", &host, "incarnation", &incarnation,
        "machine", &machine, "secret", &secret);
    if (status != GW_OK)
        return status;
    if (!is_role(role) || !is_count(caught, role == GW_ROLE_STANDBY) ||
        !is_count(id, UINT32_MAX) || !is_count(server, UINT32_MAX) ||
        !is_count(thread, UINT32_MAX) || !is_count(pid, UINT32_MAX) ||
        strlen(host) >= sizeof member->host ||
        !read_number(incarnation, &member->incarnation) ||
        !read_number(machine, &member->machine) ||
        !gw_digest_from_hex(secret, member->secret))
        return GW_ECORRUPT;
    member->role = (uint8_t)role;
    member->caught = (uint8_t)caught;
    member->id = (uint32_t)id;
    member->server = (uint32_t)server;
    member->thread = (uint32_t)thread;
    member->pid = (uint32_t)pid;
    strcpy(member->host, host);
    return GW_OK;
}

static enum gw_status read_from(json_t *from, struct gw_course_cut *cut)
{
    json_int_t clock, since, epoch, sample, batch, samples;
    enum gw_status status =
        gw_json_unpack(from, "{s:I, s:I, s:I, s:I, s:I, s:I}", "clock", &clock,
                       "since", &since, "epoch", &epoch, "sample", &sample,
                       "batch", &batch, "samples", &samples);
    if (status != GW_OK)
        return status;
    *cut = (struct gw_course_cut){.course = {.clock = (uint64_t)since,
                                             .epoch = (uint64_t)epoch,
                                             .sample = (uint64_t)sample,
                                             .batch = (uint64_t)batch,
                                             .samples = (uint64_t)samples},
                                  .clock = (uint64_t)clock};
    return is_count(clock, GW_CLOCK_MAX) && is_count(since, GW_CLOCK_MAX) &&
                   epoch >= 0 && sample >= 0 && batch >= 0 && samples >= 0 &&
                   gw_course_is_valid(&cut->course)
               ? GW_OK
               : GW_ECORRUPT;
}

static enum gw_status read_members(json_t *from,
                                   struct gw_membership *membership)
{
    size_t n = json_array_size(from);
    enum gw_status status = GW_OK;
    if (n == 0 || n > MEMBERS_MAX)
        return GW_ECORRUPT;
    membership->member = calloc(n, sizeof *membership->member);
    if (!membership->member)
        return GW_ENOMEM;
    for (; membership->members < n && status == GW_OK; membership->members++)
        status = read_member(json_array_get(from, membership->members),
                             &membership->member[membership->members]);
    return status;
}

static enum gw_status read_threads(json_t *from,
                                   struct gw_membership *membership)
{
    size_t n = json_array_size(from);
    if (n == 0 || n > MEMBERS_MAX)
        return GW_ECORRUPT;
    membership->threads = calloc(n, sizeof *membership->threads);
    if (!membership->threads)
        return GW_ENOMEM;
    for (; membership->servers < n; membership->servers++) {
        const json_t *one = json_array_get(from, membership->servers);
        json_int_t threads = json_integer_value(one);
        if (threads == 0 || !is_count(threads, MEMBERS_MAX))
            return GW_ECORRUPT;
        membership->threads[membership->servers] = (uint32_t)threads;
    }
    return GW_OK;
}

/* Each of a server names one of the servers. */
static enum gw_status check_servers(const struct gw_membership *membership)
{
    for (size_t i = 0; i < membership->members; i++)
        if (membership->member[i].role != GW_ROLE_WORKER &&
            membership->member[i].server >= membership->servers)
            return GW_ECORRUPT;
    return GW_OK;
}

static enum gw_status read_whole(json_t *whole,
                                 struct gw_membership *membership)
{
    const char *job, *text, *address, *token;
    json_int_t format, epoch, silence_us, began_us, begin, sums;
    json_t *from, *threads, *members;
    enum gw_status status = gw_json_unpack(
        whole,
        "{s:I, s:s, s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:o, s:I, s:o, s:o}",
        "format", &format, "job", &job, "text", &text, "epoch", &epoch,
        "address", &address, "token", &token, "silence_us", &silence_us,
        "began_us", &began_us, "begin", &begin, "from", &from, "sums", &sums,
        "threads", &threads, "members", &members);
    if (status != GW_OK)
        return status;
    if (format != FORMAT || !read_number(job, &membership->job) ||
        membership->job == 0 || !gw_digest_from_hex(text, membership->text) ||
        !is_count(epoch, UINT32_MAX) || !is_count(begin, GW_CLOCK_MAX) ||
        !is_count(silence_us, GW_SILENCE_MAX_US) || !is_count(sums, 1) ||
        !is_count(began_us, INT64_MAX) ||
        strlen(address) >= sizeof membership->address ||
        strlen(token) >= sizeof membership->token)
        return GW_ECORRUPT;
    strcpy(membership->address, address);
    strcpy(membership->token, token);
    membership->epoch = (uint64_t)epoch;
    membership->silence_us = (uint64_t)silence_us;
    membership->began_us = (uint64_t)began_us;
    membership->begin = (uint64_t)begin;
    membership->sums = (uint8_t)sums;
    status = read_from(from, &membership->from);
    if (status == GW_OK)
        status = read_threads(threads, membership);
    if (status == GW_OK)
        status = read_members(members, membership);
    return status == GW_OK ? check_servers(membership) : status;
}

enum gw_status gw_membership_read(struct gw_disk *dir,
                                  struct gw_membership *membership_p,
                                  struct gw_error *error)
{
    uint8_t *text;
    char path[PATH_BYTES];
    size_t n;
    json_t *whole;
    struct gw_membership membership = {0};
    snprintf(path, sizeof path, "%s/" GW_MEMBERSHIP_NAME, dir->name);
    enum gw_status status =
        gw_store_read(dir, GW_MEMBERSHIP_NAME, BYTES_MAX, &text, &n, error);
    if (status != GW_OK)
        return status;
    status = gw_json_load(path, (const char *)text, n, &whole, error);
    free(text);
    if (status != GW_OK)
        return status;
    status = read_whole(whole, &membership);
    json_decref(whole);
    if (status == GW_OK) {
        *membership_p = membership;
        return GW_OK;
    }
    gw_membership_free(&membership);
    return gw_fail(error, status, "%s%s", path,
                   status == GW_ENOMEM ? ": no memory to read it"
                                       : " is damaged");
}
