/* Words and numbers of a job: reading, writing and naming them. */
#include <config.h>

#include "proto/config_value.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/distance.h"

/* printf follows the locale's decimal point, job files do not. */
static void use_point(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (strchr("+-0123456789e", *from))
            *to++ = *from;
        else if (to == text || to[-1] != '.')
            *to++ = '.'; /* a decimal point may have several bytes */
    }
    *to = '\0';
}

static double read_real(const char *text, char **end)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double real = c ? strtod_l(text, end, c) : strtod(text, end);
    if (c)
        freelocale(c);
    return real;
}

void gw_real_print(double real, char text[GW_REAL_BYTES])
{
    if (!isfinite(real)) {
        snprintf(text, GW_REAL_BYTES, "%f", real); /* in messages only */
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, GW_REAL_BYTES, "%.*g", digits, real);
        use_point(text);
        if (read_real(text, NULL) == real)
            break;
    }
    if (!strpbrk(text, ".e"))
        memcpy(text + strlen(text), ".0", 3);
}

struct gw_value gw_value_of_word(const char *word)
{
    struct gw_value value = {.kind = GW_VALUE_TEXT, .text = word};
    if (word[0] == '\0' || word[strspn(word, "+-.0123456789eE")] != '\0')
        return value;

    char *end;
    errno = 0;
    long long whole = strtoll(word, &end, 10);
    if (*end == '\0' && errno == 0)
        return (struct gw_value){
            .kind = GW_VALUE_WHOLE, .whole = whole, .real = (double)whole};
    double real = read_real(word, &end);
    if (*end == '\0')
        return (struct gw_value){.kind = GW_VALUE_REAL, .real = real};
    return value;
}

void gw_value_show(const struct gw_value *value, char text[GW_SHOWN_BYTES])
{
    switch (value->kind) {
    case GW_VALUE_BOOL:
        snprintf(text, GW_SHOWN_BYTES, "%s", value->whole ? "true" : "false");
        break;
    case GW_VALUE_WHOLE:
        snprintf(text, GW_SHOWN_BYTES, "%lld", (long long)value->whole);
        break;
    case GW_VALUE_REAL:
        gw_real_print(value->real, text);
        break;
    case GW_VALUE_TEXT:
        snprintf(text, GW_SHOWN_BYTES, "\"%.*s\"", GW_SHOWN_BYTES - 8,
                 value->text);
        break;
    }
    gw_text_clean(text);
}

void gw_config_print_bound(double bound, char text[GW_REAL_BYTES])
{
    if (fabs(bound) < 1e19 && bound == floor(bound))
        snprintf(text, GW_REAL_BYTES, "%.0f", bound);
    else
        gw_real_print(bound, text);
}

const char *gw_config_choice_text(const struct gw_config_key *key,
                                  unsigned index,
                                  size_t *bytes_p)
{
    const char *at = key->choices;
    for (; index > 0; index--)
        at += strcspn(at, "|") + 1;
    *bytes_p = strcspn(at, "|");
    return at;
}

static unsigned count_choices(const struct gw_config_key *key)
{
    unsigned n = 1;
    for (const char *at = key->choices; *at; at++)
        n += *at == '|';
    return n;
}

int gw_config_choice(const struct gw_config_key *key,
                     const char *text,
                     unsigned *index_p)
{
    for (unsigned i = 0; i < count_choices(key); i++) {
        size_t bytes;
        const char *choice = gw_config_choice_text(key, i, &bytes);
        if (strlen(text) == bytes && strncasecmp(text, choice, bytes) == 0) {
            *index_p = i;
            return 1;
        }
    }
    return 0;
}

const char *gw_config_nearest_choice(const struct gw_config_key *key,
                                     const char *text,
                                     char said[GW_NEAREST_BYTES])
{
    struct gw_nearest nearest = {0};
    for (unsigned i = 0; i < count_choices(key); i++) {
        size_t bytes;
        const char *choice = gw_config_choice_text(key, i, &bytes);
        char name[GW_DISTANCE_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)bytes, choice);
        gw_nearest_try(&nearest, text, name);
    }
    return gw_nearest_say(&nearest, said);
}

void gw_config_list_choices(const struct gw_config_key *key,
                            char text[GW_CHOICES_BYTES])
{
    unsigned n = count_choices(key);
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < n && used < GW_CHOICES_BYTES; i++) {
        size_t bytes;
        const char *choice = gw_config_choice_text(key, i, &bytes);
        const char *before = i == 0 ? "" : i + 1 < n ? ", " : " or ";
        int number = bytes == 6 && memcmp(choice, "NUMBER", 6) == 0;
        used += (size_t)snprintf(text + used, GW_CHOICES_BYTES - used, "%s%.*s",
                                 before, number ? 8 : (int)bytes,
                                 number ? "a number" : choice);
    }
}

size_t gw_config_describe(const struct gw_config_key *key,
                          char *text,
                          size_t text_bytes)
{
    char min[GW_REAL_BYTES], max[GW_REAL_BYTES], choices[GW_CHOICES_BYTES];
    int bytes = 0;
    gw_config_print_bound(key->min, min);
    gw_config_print_bound(key->max, max);
    switch (key->type) {
    case GW_TYPE_BOOL:
        bytes = snprintf(text, text_bytes, "true or false");
        break;
    case GW_TYPE_COUNT:
        bytes = snprintf(text, text_bytes, "a whole number, %s..%s", min, max);
        break;
    case GW_TYPE_REAL:
        bytes = snprintf(text, text_bytes, "a number, %s..%s", min, max);
        break;
    case GW_TYPE_STRING:
    case GW_TYPE_PATH:
    case GW_TYPE_CHOICE:
        if (key->choices)
            gw_config_list_choices(key, choices);
        bytes = snprintf(text, text_bytes, "%s",
                         key->choices ? choices : "a text in double quotes");
        break;
    case GW_TYPE_EVERY:
        bytes = snprintf(text, text_bytes,
                         "\"N steps\", \"N epochs\", \"N seconds\" or "
                         "\"never\"");
        break;
    case GW_TYPE_CADENCE:
        bytes = snprintf(text, text_bytes,
                         "\"N steps\", \"N seconds\", \"N steps, N seconds\", "
                         "\"auto\" or a number of steps");
        break;
    case GW_TYPE_PATHS:
    case GW_TYPE_STRINGS:
        bytes = snprintf(text, text_bytes, "a list of texts or numbers");
        break;
    case GW_TYPE_NUMBERS:
        bytes =
            snprintf(text, text_bytes, "a list of numbers, %s..%s", min, max);
        break;
    }
    return (size_t)bytes;
}
