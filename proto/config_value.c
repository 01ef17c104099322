/* Values of a job: checked against the type of their key, and stored in the
   struct. */
#include <config.h>

#include "proto/config_value.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

_Static_assert(sizeof(enum gw_data_format) == sizeof(unsigned),
               "choices are kept as unsigned");

static void *place_of(struct gw_config *config, const struct gw_config_key *key)
{
    return (char *)config + key->offset;
}

void gw_config_clear(struct gw_config *config, const struct gw_config_key *key)
{
    memset(place_of(config, key), 0, gw_config_bytes(key));
}

static enum gw_status wrong_type(const struct gw_config_key *key,
                                 const struct gw_value *value,
                                 struct gw_error *error)
{
    char shown[GW_SHOWN_BYTES], wanted[192];
    gw_value_show(value, shown);
    gw_config_describe(key, wanted, sizeof wanted);
    return gw_fail(error, GW_EUSAGE, "%s: takes %s, not %s", key->name, wanted,
                   shown);
}

static enum gw_status check_range(const struct gw_config_key *key,
                                  const struct gw_value *value,
                                  struct gw_error *error)
{
    if (value->real >= key->min && value->real <= key->max)
        return GW_OK;
    char shown[GW_SHOWN_BYTES], min[GW_REAL_BYTES], max[GW_REAL_BYTES];
    gw_value_show(value, shown);
    gw_config_print_bound(key->min, min);
    gw_config_print_bound(key->max, max);
    return gw_fail(error, GW_EUSAGE, "%s: %s is out of range %s..%s", key->name,
                   shown, min, max);
}

/* Bytes of the character that begins here; 0: this is not UTF-8 (RFC 3629). */
static size_t character_bytes(const char *text)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80)
        return 1;
    if (at[0] < 0xc0 || at[0] >= 0xf8)
        return 0;
    size_t more = at[0] >= 0xf0 ? 3 : at[0] >= 0xe0 ? 2 : 1;
    uint32_t code = at[0] & (0x3fu >> more);
    for (size_t i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    if (code < least[more] || code > 0x10ffff ||
        (code >= 0xd800 && code <= 0xdfff))
        return 0;
    return 1 + more;
}

/*
 * Control characters would break lines of logs and of printed jobs; text that
 * is not UTF-8 can stand neither in a message nor in a manifest.
 */
static enum gw_status check_characters(const struct gw_config_key *key,
                                       const char *text,
                                       struct gw_error *error)
{
    if (strlen(text) >= gw_config_text_max(key))
        return gw_fail(error, GW_EUSAGE,
                       "%s: the text \"%.20s...\" is longer than %zu bytes",
                       key->name, text, gw_config_text_max(key) - 1);
    size_t bytes;
    for (const char *at = text; *at; at += bytes) {
        bytes = character_bytes(at);
        if (bytes == 0)
            return gw_fail(error, GW_EUSAGE,
                           "%s: byte %td of the text is not UTF-8 (0x%02x)",
                           key->name, at - text, (unsigned char)*at);
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return gw_fail(error, GW_EUSAGE,
                           "%s: byte %td of the text is a control character "
                           "(0x%02x)",
                           key->name, at - text, (unsigned char)*at);
    }
    return GW_OK;
}

enum gw_status gw_config_check_text(const struct gw_config_key *key,
                                    const char *text,
                                    struct gw_error *error)
{
    unsigned index;
    enum gw_status status = check_characters(key, text, error);
    if (!status && key->check) {
        status = key->check(text, error);
        return status && error ? gw_fail_in(error, "%s", key->name) : status;
    }
    if (status || !key->choices)
        return status;
    int known = gw_config_choice(key, text, &index);
    if (known && strcasecmp(text, "NUMBER") != 0)
        return GW_OK;

    struct gw_value value = gw_value_of_word(text);
    if (value.kind != GW_VALUE_TEXT && gw_config_choice(key, "NUMBER", &index))
        return check_range(key, &value, error);
    char choices[GW_CHOICES_BYTES], shown[GW_SHOWN_BYTES];
    char nearest[GW_NEAREST_BYTES];
    gw_config_list_choices(key, choices);
    value = (struct gw_value){.kind = GW_VALUE_TEXT, .text = text};
    gw_value_show(&value, shown);
    return gw_fail(error, GW_EUSAGE,
                   "%s: %s is not in this version, it has %s%s", key->name,
                   shown, choices,
                   gw_config_nearest_choice(key, text, nearest));
}

static enum gw_status put_bool(int *place,
                               const struct gw_config_key *key,
                               const struct gw_value *value,
                               struct gw_error *error)
{
    static const char *const words[][2] = {
        {"false", "true"}, {"no", "yes"}, {"off", "on"}};
    if (value->kind == GW_VALUE_BOOL) {
        *place = value->whole != 0;
        return GW_OK;
    }
    for (size_t i = 0; i < 3 && value->kind == GW_VALUE_TEXT; i++) {
        for (int truth = 0; truth < 2; truth++) {
            if (strcasecmp(value->text, words[i][truth]) == 0) {
                *place = truth;
                return GW_OK;
            }
        }
    }
    return wrong_type(key, value, error);
}

static enum gw_status put_count(uint64_t *place,
                                const struct gw_config_key *key,
                                const struct gw_value *value,
                                struct gw_error *error)
{
    if (value->kind != GW_VALUE_WHOLE)
        return wrong_type(key, value, error);
    enum gw_status status = check_range(key, value, error);
    if (!status)
        *place = (uint64_t)value->whole;
    return status;
}

static enum gw_status put_real(double *place,
                               const struct gw_config_key *key,
                               const struct gw_value *value,
                               struct gw_error *error)
{
    if (value->kind != GW_VALUE_WHOLE && value->kind != GW_VALUE_REAL)
        return wrong_type(key, value, error);
    enum gw_status status = check_range(key, value, error);
    if (!status)
        *place = value->real;
    return status;
}

/* The text of a number, where a text may be one. */
static const char *text_of(const struct gw_value *value,
                           char number[GW_REAL_BYTES])
{
    if (value->kind == GW_VALUE_WHOLE)
        snprintf(number, GW_REAL_BYTES, "%lld", (long long)value->whole);
    else if (value->kind == GW_VALUE_REAL)
        gw_real_print(value->real, number);
    else
        return value->kind == GW_VALUE_TEXT ? value->text : NULL;
    return number;
}

/* Words are accepted in any case of their letters, and kept as the rest of the
   program knows them. */
static void put_words(char *place, const struct gw_config_key *key)
{
    unsigned index;
    size_t bytes;
    if (key->choices && gw_config_choice(key, place, &index)) {
        const char *choice = gw_config_choice_text(key, index, &bytes);
        memcpy(place, choice, bytes); /* the length is the same */
    }
    for (char *at = place; key->words && *at; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
}

static enum gw_status put_string(char *place,
                                 const struct gw_config_key *key,
                                 const struct gw_value *value,
                                 struct gw_error *error)
{
    char number[GW_REAL_BYTES];
    unsigned index;
    int numbers = key->choices && gw_config_choice(key, "NUMBER", &index);
    const char *text = text_of(value, number);
    if (!text || (value->kind != GW_VALUE_TEXT && !numbers))
        return wrong_type(key, value, error);
    enum gw_status status = gw_config_check_text(key, text, error);
    if (status)
        return status;
    memset(place, 0, gw_config_bytes(key));
    memcpy(place, text, strlen(text));
    put_words(place, key);
    return GW_OK;
}

static enum gw_status put_choice(void *place,
                                 const struct gw_config_key *key,
                                 const struct gw_value *value,
                                 struct gw_error *error)
{
    unsigned index;
    if (value->kind != GW_VALUE_TEXT)
        return wrong_type(key, value, error);
    if (!gw_config_choice(key, value->text, &index)) {
        char shown[GW_SHOWN_BYTES], choices[GW_CHOICES_BYTES];
        char nearest[GW_NEAREST_BYTES];
        gw_value_show(value, shown);
        gw_config_list_choices(key, choices);
        return gw_fail(error, GW_EUSAGE, "%s: %s is not %s%s", key->name, shown,
                       choices,
                       gw_config_nearest_choice(key, value->text, nearest));
    }
    memcpy(place, &index, sizeof index);
    return GW_OK;
}

/* "epoch" or "epochs" and so on; GW_NEVER for any other word. */
static enum gw_every_unit unit_of(const char *word)
{
    static const struct {
        const char *word;
        enum gw_every_unit unit;
    } units[] = {
        {"step", GW_STEPS},    {"steps", GW_STEPS},    {"epoch", GW_EPOCHS},
        {"epochs", GW_EPOCHS}, {"second", GW_SECONDS}, {"seconds", GW_SECONDS},
        {"s", GW_SECONDS},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcasecmp(word, units[i].word) == 0)
            return units[i].unit;
    }
    return GW_NEVER;
}

static enum gw_status put_every(struct gw_every *place,
                                const struct gw_config_key *key,
                                const struct gw_value *value,
                                struct gw_error *error)
{
    struct gw_value count = *value;
    enum gw_every_unit unit = GW_STEPS;
    char number[GW_REAL_BYTES];
    if (value->kind == GW_VALUE_TEXT) {
        if (strcasecmp(value->text, "never") == 0) {
            *place = (struct gw_every){.unit = GW_NEVER};
            return GW_OK;
        }
        size_t digits = strcspn(value->text, " ");
        if (digits >= sizeof number)
            return wrong_type(key, value, error);
        memcpy(number, value->text, digits);
        number[digits] = '\0';
        count = gw_value_of_word(number);
        const char *word = value->text + digits;
        if (*word)
            unit = unit_of(word + strspn(word, " "));
    }
    if (count.kind != GW_VALUE_WHOLE || unit == GW_NEVER)
        return wrong_type(key, value, error);
    enum gw_status status = check_range(key, &count, error);
    if (!status)
        *place = (struct gw_every){.n = (uint64_t)count.whole, .unit = unit};
    return status;
}

/* One part of a cadence: a number of steps or of seconds, each once. */
static enum gw_status put_part(struct gw_cadence *cadence,
                               const struct gw_config_key *key,
                               const struct gw_value *whole,
                               const char *part,
                               struct gw_error *error)
{
    const struct gw_value value = {.kind = GW_VALUE_TEXT, .text = part};
    struct gw_every every = {.unit = GW_NEVER};
    struct gw_error unheard;
    enum gw_status status = put_every(&every, key, &value, &unheard);
    uint64_t *to =
        every.unit == GW_SECONDS ? &cadence->seconds : &cadence->steps;
    if (status || every.unit == GW_NEVER || every.unit == GW_EPOCHS || *to > 0)
        return wrong_type(key, whole, error);
    *to = every.n;
    return GW_OK;
}

static enum gw_status put_cadence(struct gw_cadence *place,
                                  const struct gw_config_key *key,
                                  const struct gw_value *value,
                                  struct gw_error *error)
{
    struct gw_cadence cadence = {0};
    char text[GW_CADENCE_BYTES], *rest = text;
    enum gw_status status = GW_OK;
    if (value->kind == GW_VALUE_WHOLE) {
        status = check_range(key, value, error);
        cadence.steps = (uint64_t)value->whole;
    } else if (value->kind != GW_VALUE_TEXT ||
               strlen(value->text) >= sizeof text) {
        status = wrong_type(key, value, error);
    } else if (strcasecmp(value->text, "auto") != 0) {
        strcpy(text, value->text);
        while (rest && !status) {
            char *part = strsep(&rest, ",");
            status = put_part(&cadence, key, value, part + strspn(part, " \t"),
                              error);
        }
    }
    if (!status)
        *place = cadence;
    return status;
}

/* A text that is to become entry n of a list, n from 0; NULL with a line. */
static const char *entry_of(const struct gw_config_key *key,
                            size_t n,
                            const struct gw_value *value,
                            char number[GW_REAL_BYTES],
                            struct gw_error *error)
{
    const char *text = text_of(value, number);
    if (!text)
        wrong_type(key, value, error);
    else if (n == GW_LIST_MAX)
        gw_fail(error, GW_EUSAGE, "%s: more than %d entries", key->name,
                GW_LIST_MAX);
    else if (text[0] == '\0')
        gw_fail(error, GW_EUSAGE, "%s: entry %zu is empty", key->name, n + 1);
    else if (check_characters(key, text, error) == GW_OK)
        return text;
    return NULL;
}

static enum gw_status put_strings(struct gw_string_list *place,
                                  const struct gw_config_key *key,
                                  const struct gw_value *value,
                                  struct gw_error *error)
{
    char number[GW_REAL_BYTES];
    const char *text = entry_of(key, place->n, value, number, error);
    if (!text)
        return GW_EUSAGE;
    memcpy(place->item[place->n++], text, strlen(text) + 1);
    return GW_OK;
}

static enum gw_status put_paths(struct gw_path_list *place,
                                const struct gw_config_key *key,
                                const struct gw_value *value,
                                struct gw_error *error)
{
    char number[GW_REAL_BYTES];
    const char *text = entry_of(key, place->n, value, number, error);
    if (!text)
        return GW_EUSAGE;
    if (gw_path_add(place, text))
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "%s: its paths together are longer than %u bytes", key->name,
                   GW_PATHS_BYTES - GW_LIST_MAX);
}

static enum gw_status put_numbers(struct gw_number_list *place,
                                  const struct gw_config_key *key,
                                  const struct gw_value *value,
                                  struct gw_error *error)
{
    double number = 0;
    enum gw_status status = put_real(&number, key, value, error);
    if (status)
        return status;
    if (place->n == GW_LIST_MAX)
        return gw_fail(error, GW_EUSAGE, "%s: more than %d entries", key->name,
                       GW_LIST_MAX);
    place->item[place->n++] = number;
    return GW_OK;
}

enum gw_status gw_config_put(struct gw_config *config,
                             const struct gw_config_key *key,
                             const struct gw_value *value,
                             struct gw_error *error)
{
    void *place = place_of(config, key);
    switch (key->type) {
    case GW_TYPE_BOOL:
        return put_bool(place, key, value, error);
    case GW_TYPE_COUNT:
        return put_count(place, key, value, error);
    case GW_TYPE_REAL:
        return put_real(place, key, value, error);
    case GW_TYPE_STRING:
    case GW_TYPE_PATH:
        return put_string(place, key, value, error);
    case GW_TYPE_PATHS:
        return put_paths(place, key, value, error);
    case GW_TYPE_CHOICE:
        return put_choice(place, key, value, error);
    case GW_TYPE_EVERY:
        return put_every(place, key, value, error);
    case GW_TYPE_CADENCE:
        return put_cadence(place, key, value, error);
    case GW_TYPE_STRINGS:
        return put_strings(place, key, value, error);
    case GW_TYPE_NUMBERS:
        return put_numbers(place, key, value, error);
    }
    return GW_EUSAGE;
}
