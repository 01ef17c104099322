/* Jobs as text again, and jobs compared. */
#include <config.h>

#include "proto/config.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/config_value.h"
#include "proto/hash.h"

#define COMMENT_COLUMNS 72

/* Text that is counted in full and kept as far as it fits. */
struct out {
    char *text;
    size_t room, used;
};

static void __attribute__((format(printf, 2, 3)))
print(struct out *out, const char *format, ...)
{
    size_t left = out->used < out->room ? out->room - out->used : 0;
    va_list args;
    va_start(args, format);
    int bytes =
        vsnprintf(left ? out->text + out->used : NULL, left, format, args);
    va_end(args);
    out->used += bytes > 0 ? (size_t)bytes : 0;
}

static void print_quoted(struct out *out, const char *text)
{
    print(out, "\"");
    while (*text) {
        size_t plain = strcspn(text, "\"\\");
        print(out, "%.*s", (int)plain, text);
        text += plain;
        if (*text)
            print(out, "\\%c", *text++);
    }
    print(out, "\"");
}

static void print_real(struct out *out, double real)
{
    char text[GW_REAL_BYTES];
    gw_real_print(real, text);
    print(out, "%s", text);
}

void gw_every_print(const struct gw_every *every, char text[GW_EVERY_BYTES])
{
    static const char *const units[] = {"never", "step", "epoch", "second"};
    if (every->unit == GW_NEVER)
        snprintf(text, GW_EVERY_BYTES, "never");
    else
        snprintf(text, GW_EVERY_BYTES, "%" PRIu64 " %s%s", every->n,
                 units[every->unit], gw_plural(every->n));
}

void gw_cadence_print(const struct gw_cadence *cadence,
                      char text[GW_CADENCE_BYTES])
{
    const struct gw_every steps = {cadence->steps, GW_STEPS};
    const struct gw_every seconds = {cadence->seconds, GW_SECONDS};
    char part[2][GW_EVERY_BYTES] = {"", ""};
    if (cadence->steps)
        gw_every_print(&steps, part[0]);
    if (cadence->seconds)
        gw_every_print(&seconds, part[1]);
    snprintf(text, GW_CADENCE_BYTES, "%s%s%s", part[0],
             part[0][0] && part[1][0] ? ", " : "", part[1]);
    if (!text[0])
        snprintf(text, GW_CADENCE_BYTES, "auto");
}

static void print_cadence(struct out *out, const struct gw_cadence *cadence)
{
    char text[GW_CADENCE_BYTES];
    gw_cadence_print(cadence, text);
    print_quoted(out, text);
}

static void print_every(struct out *out, const struct gw_every *every)
{
    char text[GW_EVERY_BYTES];
    gw_every_print(every, text);
    print_quoted(out, text);
}

static void print_strings(struct out *out, const struct gw_string_list *list)
{
    print(out, "(");
    for (size_t i = 0; i < list->n; i++) {
        print(out, i ? ", " : "");
        print_quoted(out, list->item[i]);
    }
    print(out, ")");
}

static void print_paths(struct out *out, const struct gw_path_list *list)
{
    print(out, "(");
    for (size_t i = 0; i < list->n; i++) {
        print(out, i ? ", " : "");
        print_quoted(out, gw_path_at(list, i));
    }
    print(out, ")");
}

static void print_numbers(struct out *out, const struct gw_number_list *list)
{
    print(out, "(");
    for (size_t i = 0; i < list->n; i++) {
        print(out, i ? ", " : "");
        print_real(out, list->item[i]);
    }
    print(out, ")");
}

static const void *place_of(const struct gw_config *config,
                            const struct gw_config_key *key)
{
    return (const char *)config + key->offset;
}

static void
print_value(struct out *out, const struct gw_config_key *key, const void *place)
{
    unsigned index;
    size_t bytes;
    const char *choice;
    switch (key->type) {
    case GW_TYPE_BOOL:
        print(out, "%s", *(const int *)place ? "true" : "false");
        break;
    case GW_TYPE_COUNT:
        print(out, "%" PRIu64, *(const uint64_t *)place);
        break;
    case GW_TYPE_REAL:
        print_real(out, *(const double *)place);
        break;
    case GW_TYPE_STRING:
    case GW_TYPE_PATH:
        print_quoted(out, place);
        break;
    case GW_TYPE_PATHS:
        print_paths(out, place);
        break;
    case GW_TYPE_CHOICE:
        memcpy(&index, place, sizeof index);
        choice = gw_config_choice_text(key, index, &bytes);
        print(out, "\"%.*s\"", (int)bytes, choice);
        break;
    case GW_TYPE_EVERY:
        print_every(out, place);
        break;
    case GW_TYPE_CADENCE:
        print_cadence(out, place);
        break;
    case GW_TYPE_STRINGS:
        print_strings(out, place);
        break;
    case GW_TYPE_NUMBERS:
        print_numbers(out, place);
        break;
    }
}

/* A comment, broken between words. */
static void print_comment(struct out *out, const char *text)
{
    while (*text) {
        size_t line = strlen(text);
        if (line > COMMENT_COLUMNS) {
            for (line = COMMENT_COLUMNS; line > 0 && text[line] != ' ';)
                line--;
        }
        print(out, "    # %.*s\n", (int)line, text);
        text += line + (text[line] == ' ');
    }
}

static void print_help(struct out *out, const struct gw_config_key *key)
{
    char takes[256];
    gw_config_describe(key, takes, sizeof takes);
    print_comment(out, key->help);
    print_comment(out, takes);
}

size_t gw_config_value(const struct gw_config *config,
                       const struct gw_config_key *key,
                       char *text,
                       size_t text_bytes)
{
    struct out out = {.text = text, .room = text_bytes};
    print_value(&out, key, place_of(config, key));
    if (out.used >= 2 && out.used < text_bytes && text[0] == '"') {
        out.used -= 2;
        memmove(text, text + 1, out.used);
        text[out.used] = '\0';
    }
    return out.used;
}

size_t gw_config_print(const struct gw_config *config,
                       int help,
                       char *text,
                       size_t text_bytes)
{
    struct out out = {.text = text, .room = text_bytes};
    const char *section = "";
    size_t n, section_bytes = 0;
    const struct gw_config_key *keys = gw_config_keys(&n);
    if (text_bytes > 0)
        text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const char *name = keys[i].name;
        size_t bytes = gw_config_section_bytes(&keys[i]);
        if (bytes != section_bytes || memcmp(name, section, bytes) != 0) {
            print(&out, "%s%.*s = {\n", i ? "};\n" : "", (int)bytes, name);
            section = name;
            section_bytes = bytes;
        } else if (help) {
            print(&out, "\n");
        }
        if (help)
            print_help(&out, &keys[i]);
        print(&out, "    %s = ", name + bytes + 1);
        print_value(&out, &keys[i], place_of(config, &keys[i]));
        print(&out, ";\n");
    }
    print(&out, "};\n");
    return out.used;
}

void gw_config_keep_local(struct gw_config *to, const struct gw_config *from)
{
    size_t n;
    const struct gw_config_key *keys = gw_config_keys(&n);
    for (size_t i = 0; i < n; i++) {
        if (keys[i].local)
            memcpy((char *)to + keys[i].offset, place_of(from, &keys[i]),
                   gw_config_bytes(&keys[i]));
    }
}

void gw_config_forget_own(struct gw_config *config)
{
    size_t n;
    const struct gw_config_key *keys = gw_config_keys(&n);
    for (size_t i = 0; i < n; i++) {
        if (!keys[i].own)
            continue;
        assert(keys[i].type == GW_TYPE_STRING);
        strcpy((char *)config + keys[i].offset, keys[i].fallback);
    }
}

/* Hashes the value that print_value writes, without its text. */
static uint64_t
hash_value(uint64_t hash, const struct gw_config_key *key, const void *place)
{
    const struct gw_every *every = place;
    const struct gw_string_list *strings = place;
    const struct gw_path_list *paths = place;
    const struct gw_number_list *numbers = place;
    switch (key->type) {
    case GW_TYPE_STRING:
    case GW_TYPE_PATH:
        return gw_hash_text(hash, place);
    case GW_TYPE_PATHS:
        hash = gw_hash_u64(hash, paths->n);
        for (size_t i = 0; i < paths->n; i++)
            hash = gw_hash_text(hash, gw_path_at(paths, i));
        return hash;
    case GW_TYPE_EVERY:
        return gw_hash_u64(gw_hash_u64(hash, every->unit), every->n);
    case GW_TYPE_STRINGS:
        hash = gw_hash_u64(hash, strings->n);
        for (size_t i = 0; i < strings->n; i++)
            hash = gw_hash_text(hash, strings->item[i]);
        return hash;
    case GW_TYPE_NUMBERS:
        hash = gw_hash_u64(hash, numbers->n);
        return gw_hash_bytes(hash, numbers->item,
                             numbers->n * sizeof *numbers->item);
    default: /* numbers without padding or bytes that mean nothing */
        return gw_hash_bytes(hash, place, gw_config_bytes(key));
    }
}

int gw_config_is_same(const struct gw_config_key *key,
                      const struct gw_config *a,
                      const struct gw_config *b)
{
    return hash_value(GW_HASH_BEGIN, key, place_of(a, key)) ==
           hash_value(GW_HASH_BEGIN, key, place_of(b, key));
}

uint64_t gw_config_hash(const struct gw_config *config)
{
    uint64_t hash = GW_HASH_BEGIN;
    size_t n;
    const struct gw_config_key *keys = gw_config_keys(&n);
    for (size_t i = 0; i < n; i++) {
        if (keys[i].local)
            continue;
        hash = gw_hash_text(hash, keys[i].name);
        hash = hash_value(hash, &keys[i], place_of(config, &keys[i]));
    }
    return hash;
}
