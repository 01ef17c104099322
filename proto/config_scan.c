/*
 * Finds the parts of a job file's text that libconfig misses or reports badly:
 * includes, which must never be opened; whole numbers, which it cuts to 32
 * bits; comments and texts without an end, with which it leaves out the rest of
 * the file; and settings that stand twice, for which it has a line but no name.
 */
#include <config.h>

#include "proto/config_value.h"

#include <stdio.h>
#include <string.h>

#define DIGITS      "0123456789"
#define LETTERS     "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz*"
#define WIDE_DIGITS 10 /* fewer always fit 32 bits */

/*
 * libconfig knows an include only at the beginning of a line: this finds every
 * one, and some in comments too.
 */
enum gw_status gw_config_scan_includes(const char *file,
                                       const char *text,
                                       struct gw_error *error)
{
    unsigned line = 1;
    for (const char *at = text;; line++) {
        at += strspn(at, " \t");
        if (strncmp(at, "@include", 8) == 0)
            return gw_fail(error, GW_EUSAGE,
                           "%s:%u: @include is not possible: a job is one file",
                           file, line);
        at += strcspn(at, "\n");
        if (*at == '\0')
            return GW_OK;
        at++;
    }
}

enum token_kind {
    TOKEN_NAME,
    TOKEN_WHOLE,
    TOKEN_OPEN,
    TOKEN_OTHER
};

/* A piece of text as libconfig's scanner cuts it. OPEN: a comment or a quoted
   text that does not end. WHOLE: a number of at least WIDE_DIGITS digits. */
struct token {
    size_t bytes;
    enum token_kind kind;
};

/* Bytes of "e5", "E-10" at this place, 0 if none. */
static size_t exponent_bytes(const char *at)
{
    size_t sign = 1;
    if (*at != 'e' && *at != 'E')
        return 0;
    sign += at[1] == '+' || at[1] == '-';
    size_t digits = strspn(at + sign, DIGITS);
    return digits ? sign + digits : 0;
}

static struct token number_at(const char *at)
{
    size_t sign = *at == '+' || *at == '-';
    size_t digits = strspn(at + sign, DIGITS);
    const char *end = at + sign + digits;
    if (*end == '.') {
        end += 1 + strspn(end + 1, DIGITS);
        return (struct token){(size_t)(end - at) + exponent_bytes(end),
                              TOKEN_OTHER};
    }
    size_t exponent = digits ? exponent_bytes(end) : 0;
    int wide = digits >= WIDE_DIGITS && exponent == 0 && *end != 'L';
    return (struct token){sign + digits + exponent,
                          wide ? TOKEN_WHOLE : TOKEN_OTHER};
}

static struct token string_at(const char *at)
{
    const char *end = at + 1;
    for (; *end && *end != '"'; end++) {
        if (*end == '\\' && end[1])
            end++;
    }
    size_t bytes = (size_t)(end - at);
    if (*end == '\0')
        return (struct token){bytes, TOKEN_OPEN};
    return (struct token){bytes + 1, TOKEN_OTHER};
}

static struct token comment_at(const char *at)
{
    if (*at == '#' || (at[0] == '/' && at[1] == '/'))
        return (struct token){strcspn(at, "\n"), TOKEN_OTHER};
    if (at[0] != '/' || at[1] != '*')
        return (struct token){0, TOKEN_OTHER};
    const char *end = strstr(at + 2, "*/");
    if (!end)
        return (struct token){strlen(at), TOKEN_OPEN};
    return (struct token){(size_t)(end + 2 - at), TOKEN_OTHER};
}

/* `at` is not the end of the text; the token has at least one byte. */
static struct token token_at(const char *at)
{
    if (strchr(LETTERS, *at))
        return (struct token){strspn(at, LETTERS DIGITS "-_"), TOKEN_NAME};
    struct token token = *at == '"' ? string_at(at) : comment_at(at);
    if (token.bytes == 0)
        token = number_at(at);
    if (token.bytes == 0)
        token.bytes = 1;
    return token;
}

static unsigned count_lines(const char *at, size_t bytes)
{
    unsigned lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += at[i] == '\n';
    return lines;
}

void gw_config_widen(const char *text, char *wide)
{
    while (*text) {
        struct token token = token_at(text);
        memcpy(wide, text, token.bytes);
        wide += token.bytes;
        text += token.bytes;
        if (token.kind == TOKEN_WHOLE)
            *wide++ = 'L';
    }
    *wide = '\0';
}

unsigned gw_config_find_open(const char *text)
{
    unsigned line = 1;
    while (*text) {
        struct token token = token_at(text);
        if (token.kind == TOKEN_OPEN)
            return line;
        line += count_lines(text, token.bytes);
        text += token.bytes;
    }
    return 0;
}

/* The key that a name in these brackets means; a section is its first key. */
static const struct gw_config_key *
meant(const char *at, size_t bytes, const struct gw_config_key *section)
{
    char name[GW_STRING_MAX];
    size_t used = 0;
    if (bytes > GW_STRING_MAX / 2)
        return NULL;
    if (section) {
        used = gw_config_section_bytes(section) + 1;
        memcpy(name, section->name, used);
    }
    memcpy(name + used, at, bytes);
    name[used + bytes] = '\0';
    return section ? gw_config_find(name) : gw_config_find_section(name);
}

int gw_config_find_twice(const char *text, struct gw_config_twice *twice)
{
    unsigned seen[2][GW_CONFIG_KEYS_MAX] = {0}; /* lines of sections, of keys */
    const struct gw_config_key *section = NULL;
    size_t n, depth = 0; /* open brackets of any kind */
    const struct gw_config_key *keys = gw_config_keys(&n);
    unsigned line = 1;
    for (struct token token; *text; text += token.bytes) {
        const struct gw_config_key *key = NULL;
        token = token_at(text);
        if (token.kind == TOKEN_NAME && depth == 0)
            key = section = meant(text, token.bytes, NULL);
        else if (token.kind == TOKEN_NAME && depth == 1 && section)
            key = meant(text, token.bytes, section);
        else if (strchr("([{", *text))
            depth++;
        else if (strchr(")]}", *text) && depth > 0)
            depth--;
        if (key && seen[depth][key - keys]) {
            twice->name = key->name;
            twice->name_bytes = depth ? strlen(key->name) : token.bytes;
            twice->first = seen[depth][key - keys];
            twice->again = line;
            return 1;
        }
        if (key)
            seen[depth][key - keys] = line;
        line += count_lines(text, token.bytes);
    }
    return 0;
}

/* Non-zero where a section of that key's begins in `text`. */
static int has_section(const char *text, const struct gw_config_key *key)
{
    size_t depth = 0;
    for (struct token token; *text; text += token.bytes) {
        token = token_at(text);
        if (token.kind == TOKEN_NAME && depth == 0 &&
            meant(text, token.bytes, NULL) == key)
            return 1;
        depth += strchr("([{", *text) != NULL;
        depth -= depth > 0 && strchr(")]}", *text);
    }
    return 0;
}

size_t gw_config_absent(const char *text, char absent[GW_ABSENT_BYTES])
{
    size_t n, count = 0, used = 0;
    const struct gw_config_key *keys = gw_config_keys(&n);
    absent[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        char name[GW_STRING_MAX];
        size_t bytes = gw_config_section_bytes(&keys[i]);
        snprintf(name, sizeof name, "%.*s", (int)bytes, keys[i].name);
        if (gw_config_find_section(name) != &keys[i] ||
            has_section(text, &keys[i]))
            continue;
        used += (size_t)snprintf(
            absent + used, used < GW_ABSENT_BYTES ? GW_ABSENT_BYTES - used : 0,
            "%s%s", count ? ", " : "", name);
        used = used < GW_ABSENT_BYTES ? used : GW_ABSENT_BYTES;
        count++;
    }
    return count;
}
