/* Job files and --set: from text to the struct, over libconfig. */
#include <config.h>

#include "proto/config.h"

#include <assert.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/config_value.h"

#define MARK       "\xef\xbb\xbf"
#define NAME_BYTES 128 /* longer than any known name in a job file */

/* Adds the file and line of a setting; file is NULL under --set. */
static enum gw_status located(const char *file,
                              const config_setting_t *setting,
                              struct gw_error *error)
{
    if (!file)
        return error->status;
    return gw_fail_in(error, "%s:%u", file,
                      (unsigned)config_setting_source_line(setting));
}

static enum gw_status unknown_key(const char *name, struct gw_error *error)
{
    return gw_fail(error, GW_EUSAGE,
                   "%.64s: no such key, the nearest is %s (gradweir config "
                   "lists all)",
                   name, gw_config_nearest(name));
}

static enum gw_status value_of_setting(const config_setting_t *setting,
                                       const struct gw_config_key *key,
                                       struct gw_value *value,
                                       struct gw_error *error)
{
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        /* libconfig cuts numbers of other bases to 32 bits, silently */
        if (config_setting_get_format(setting) != CONFIG_FORMAT_DEFAULT)
            return gw_fail(error, GW_EUSAGE, "%s: write the number in decimal",
                           key->name);
        value->kind = GW_VALUE_WHOLE;
        value->whole = config_setting_type(setting) == CONFIG_TYPE_INT
                           ? config_setting_get_int(setting)
                           : config_setting_get_int64(setting);
        value->real = (double)value->whole;
        return GW_OK;
    case CONFIG_TYPE_FLOAT:
        value->kind = GW_VALUE_REAL;
        value->real = config_setting_get_float(setting);
        return GW_OK;
    case CONFIG_TYPE_BOOL:
        value->kind = GW_VALUE_BOOL;
        value->whole = config_setting_get_bool(setting);
        return GW_OK;
    case CONFIG_TYPE_STRING:
        value->kind = GW_VALUE_TEXT;
        value->text = config_setting_get_string(setting);
        return GW_OK;
    default: {
        char wanted[NAME_BYTES * 2];
        gw_config_describe(key, wanted, sizeof wanted);
        return gw_fail(error, GW_EUSAGE, "%s: takes %s, not a %s", key->name,
                       wanted,
                       config_setting_is_group(setting) ? "section" : "list");
    }
    }
}

static enum gw_status take_value(struct gw_config *config,
                                 const struct gw_config_key *key,
                                 const config_setting_t *setting,
                                 const char *file,
                                 struct gw_error *error)
{
    struct gw_value value;
    enum gw_status status = value_of_setting(setting, key, &value, error);
    if (!status)
        status = gw_config_put(config, key, &value, error);
    return status ? located(file, setting, error) : GW_OK;
}

/* A list may also be given as its only entry. */
static enum gw_status take_setting(struct gw_config *config,
                                   const struct gw_config_key *key,
                                   const config_setting_t *setting,
                                   const char *file,
                                   struct gw_error *error)
{
    gw_config_clear(config, key);
    if (!gw_config_is_list(key) ||
        !(config_setting_is_array(setting) || config_setting_is_list(setting)))
        return take_value(config, key, setting, file, error);
    unsigned n = (unsigned)config_setting_length(setting);
    for (unsigned i = 0; i < n; i++) {
        enum gw_status status = take_value(
            config, key, config_setting_get_elem(setting, i), file, error);
        if (status)
            return status;
    }
    return GW_OK;
}

static enum gw_status take_section(struct gw_config *config,
                                   const config_setting_t *section,
                                   const char *file,
                                   struct gw_error *error)
{
    const char *name = config_setting_name(section);
    if (!gw_config_find_section(name)) {
        unknown_key(name, error);
        return located(file, section, error);
    }
    if (!config_setting_is_group(section)) {
        gw_fail(error, GW_EUSAGE, "%s: a section is written %s = { ... };",
                name, name);
        return located(file, section, error);
    }
    unsigned n = (unsigned)config_setting_length(section);
    for (unsigned i = 0; i < n; i++) {
        const config_setting_t *setting = config_setting_get_elem(section, i);
        char full[NAME_BYTES];
        snprintf(full, sizeof full, "%s.%s", name,
                 config_setting_name(setting));
        const struct gw_config_key *key = gw_config_find(full);
        if (!key) {
            unknown_key(full, error);
            return located(file, setting, error);
        }
        enum gw_status status = take_setting(config, key, setting, file, error);
        if (status)
            return status;
    }
    return GW_OK;
}

/* Refuses a setting that stands twice, in line `line` or, for 0, in any line.
   To libconfig Train and train are two. */
static enum gw_status check_twice(unsigned line,
                                  const char *file,
                                  const char *text,
                                  struct gw_error *error)
{
    struct gw_config_twice twice;
    if (!gw_config_find_twice(text, &twice) || (line && twice.again != line))
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "%s:%u: %.*s: given twice, first in line %u", file,
                   twice.again, (int)twice.name_bytes, twice.name, twice.first);
}

/* libconfig's own refusal, with the name where a key stands twice. */
static enum gw_status refused(const config_t *tree,
                              const char *file,
                              const char *text,
                              struct gw_error *error)
{
    unsigned line = (unsigned)config_error_line(tree);
    const char *what = config_error_text(tree);
    enum gw_status status = check_twice(line, file, text, error);
    if (status)
        return status;
    if (what && strstr(what, "mismatched"))
        return gw_fail(error, GW_EUSAGE,
                       "%s:%u: a list in [ ] has entries of one type, use ( ) "
                       "for a mixed one",
                       file, line);
    return gw_fail(error, GW_EUSAGE,
                   "%s:%u: %s, it should be section = { key = value; }; with "
                   "texts in double quotes",
                   file, line, what ? what : "cannot be read");
}

/* The caller destroys *tree in any case. */
static enum gw_status read_tree(config_t *tree,
                                const char *file,
                                const char *text,
                                struct gw_error *error)
{
    config_init(tree);
    enum gw_status status = gw_config_scan_includes(file, text, error);
    if (status)
        return status;
    size_t bytes = strlen(text);
    char *wide = malloc(bytes + bytes / 8 + 2);
    if (!wide)
        return gw_fail(error, GW_ENOMEM, "%s: no memory to read it", file);
    gw_config_widen(text, wide);
    /* libconfig 1.5 takes no comment in a last line without its newline */
    strcat(wide, "\n");
    /* should an include ever get past the scan: no file lies below this one */
    config_set_include_dir(tree, "/dev/null");
    int read = config_read_string(tree, wide);
    unsigned open = gw_config_find_open(text);
    if (open && (read || (unsigned)config_error_line(tree) >= open))
        status = gw_fail(error, GW_EUSAGE,
                         "%s:%u: what begins here, a comment or a text in "
                         "quotes, does not end",
                         file, open);
    else if (!read)
        status = refused(tree, file, text, error);
    free(wide);
    return status;
}

enum gw_status gw_config_parse(struct gw_config *config,
                               const char *file,
                               const char *text,
                               struct gw_error *error)
{
    struct gw_error unheard;
    if (!error)
        error = &unheard;
    if (strnlen(text, GW_JOB_TEXT_MAX + 1) > GW_JOB_TEXT_MAX)
        return gw_fail(error, GW_EUSAGE, "%s: longer than %u bytes", file,
                       GW_JOB_TEXT_MAX);

    /* editors of Windows write a byte order mark */
    text += strncmp(text, MARK, sizeof MARK - 1) == 0 ? sizeof MARK - 1 : 0;
    config_t tree;
    enum gw_status status = read_tree(&tree, file, text, error);
    if (!status)
        status = check_twice(0, file, text, error);
    if (!status) {
        const config_setting_t *root = config_root_setting(&tree);
        unsigned n = (unsigned)config_setting_length(root);
        for (unsigned i = 0; i < n && !status; i++)
            status = take_section(config, config_setting_get_elem(root, i),
                                  file, error);
    }
    config_destroy(&tree);
    return status;
}

/* A value in a job file's syntax: quoted, or a list in brackets. */
static enum gw_status set_written(struct gw_config *config,
                                  const struct gw_config_key *key,
                                  const char *value,
                                  struct gw_error *error)
{
    int open = gw_config_is_list(key) && value[0] == '"';
    size_t bytes = strlen(value) + sizeof "v = (\n);";
    char *text = malloc(bytes);
    if (!text)
        return gw_fail(error, GW_ENOMEM, "%s: no memory to read it", key->name);
    snprintf(text, bytes, open ? "v = (%s\n);" : "v = %s\n;", value);

    config_t tree;
    enum gw_status status = read_tree(&tree, key->name, text, error);
    const config_setting_t *root = config_root_setting(&tree);
    if (status || config_setting_length(root) != 1)
        status = gw_fail(error, GW_EUSAGE,
                         "%s: cannot read %.64s: one value, texts in double "
                         "quotes, commas between the entries of a list",
                         key->name, value);
    else
        status = take_setting(config, key, config_setting_get_elem(root, 0),
                              NULL, error);
    config_destroy(&tree);
    free(text);
    return status;
}

/* One bare word; for a key of numbers, a word that looks like a number is one.
 */
static enum gw_status put_word(struct gw_config *config,
                               const struct gw_config_key *key,
                               const char *word,
                               struct gw_error *error)
{
    struct gw_value value = {.kind = GW_VALUE_TEXT, .text = word};
    if (key->type != GW_TYPE_STRING && key->type != GW_TYPE_STRINGS &&
        key->type != GW_TYPE_PATH && key->type != GW_TYPE_PATHS &&
        key->type != GW_TYPE_CHOICE)
        value = gw_value_of_word(word);
    return gw_config_put(config, key, &value, error);
}

/* Bare words, with commas between the entries of a list. Cuts up `value`. */
static enum gw_status set_words(struct gw_config *config,
                                const struct gw_config_key *key,
                                char *value,
                                struct gw_error *error)
{
    gw_config_clear(config, key);
    if (gw_config_is_list(key) && value[0] == '\0')
        return GW_OK;
    for (char *rest = value, *next; rest; rest = next) {
        next = gw_config_is_list(key) ? strchr(rest, ',') : NULL;
        if (next)
            *next++ = '\0';
        rest += strspn(rest, " \t");
        for (size_t end = strlen(rest); end > 0 && strchr(" \t", rest[end - 1]);
             end--)
            rest[end - 1] = '\0';
        enum gw_status status = put_word(config, key, rest, error);
        if (status)
            return status;
    }
    return GW_OK;
}

/* The key of an assignment; NULL with a line. */
static const struct gw_config_key *
key_of(const char *assignment, const char **value_p, struct gw_error *error)
{
    char name[NAME_BYTES];
    const char *equals = strchr(assignment, '=');
    if (!equals) {
        gw_fail(error, GW_EUSAGE, "%.64s: write section.key=value", assignment);
        return NULL;
    }
    snprintf(name, sizeof name, "%.*s", (int)(equals - assignment), assignment);
    const struct gw_config_key *key = gw_config_find(name);
    if (!key)
        unknown_key(name, error);
    *value_p = equals + 1 + strspn(equals + 1, " \t");
    return key;
}

/* The later word wins. */
static void displace_rival(struct gw_config *config,
                           const struct gw_config_key *key)
{
    uint64_t value = 0;
    if (key->rival)
        memcpy(&value, (const char *)config + key->offset, sizeof value);
    if (value > 0)
        gw_config_clear(config, gw_config_find(key->rival));
}

const struct gw_config_key *gw_config_rival(const struct gw_config *config,
                                            const char *assignment,
                                            uint64_t *value_p)
{
    const char *value;
    struct gw_error unheard;
    const struct gw_config_key *key = key_of(assignment, &value, &unheard);
    if (!key || !key->rival)
        return NULL;
    key = gw_config_find(key->rival);
    memcpy(value_p, (const char *)config + key->offset, sizeof *value_p);
    return key;
}

enum gw_status gw_config_set(struct gw_config *config,
                             const char *assignment,
                             struct gw_error *error)
{
    struct gw_error unheard;
    const char *at;
    if (!error)
        error = &unheard;
    if (strnlen(assignment, GW_JOB_TEXT_MAX + 1) > GW_JOB_TEXT_MAX)
        return gw_fail(error, GW_EUSAGE, "%.64s...: longer than %u bytes",
                       assignment, GW_JOB_TEXT_MAX);
    const struct gw_config_key *key = key_of(assignment, &at, error);
    char *value = key ? strdup(at) : NULL;
    if (!key)
        return error->status;
    if (!value)
        return gw_fail(error, GW_ENOMEM, "%s: no memory to read it", key->name);
    enum gw_status status;
    if (value[0] != '\0' && strchr("[(\"", value[0]))
        status = set_written(config, key, value, error);
    else
        status = set_words(config, key, value, error);
    if (!status)
        displace_rival(config, key);
    free(value);
    return status;
}

void gw_config_default(struct gw_config *config)
{
    size_t n;
    const struct gw_config_key *keys = gw_config_keys(&n);
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < n; i++) {
        char value[GW_STRING_MAX];
        struct gw_error error;
        snprintf(value, sizeof value, "%s", keys[i].fallback);
        enum gw_status status = set_words(config, &keys[i], value, &error);
        assert(status == GW_OK); /* a default that its own key refuses */
        (void)status;
    }
}
