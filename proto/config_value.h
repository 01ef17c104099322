/*
 * Inside of proto/config: one value on its way between text and the struct.
 * Not for other rooms.
 */
#ifndef GW_PROTO_CONFIG_VALUE_H
#define GW_PROTO_CONFIG_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/config.h"
#include "proto/distance.h"

#define GW_CONFIG_KEYS_MAX 96
#define GW_REAL_BYTES      32  /* a real as text, with its end */
#define GW_SHOWN_BYTES     64  /* a refused value in a message */
#define GW_CHOICES_BYTES   128 /* a key's choices in words */

enum gw_value_kind {
    GW_VALUE_BOOL,
    GW_VALUE_WHOLE,
    GW_VALUE_REAL,
    GW_VALUE_TEXT
};

/* A value, before its key is known. */
struct gw_value {
    enum gw_value_kind kind;
    int64_t whole;    /* BOOL and WHOLE */
    double real;      /* WHOLE and REAL */
    const char *text; /* TEXT */
};

/*
 * The value of a bare word: a number where all of it is one, else a text. The
 * result points into `word`.
 */
struct gw_value gw_value_of_word(const char *word);

/* The value as it would be written, cut to fit one line, for messages. */
void gw_value_show(const struct gw_value *value, char text[GW_SHOWN_BYTES]);

/*
 * Puts a value into the key's place in *config; to a list it is appended.
 * GW_EUSAGE with "section.key: ..." when the key does not take it.
 */
enum gw_status gw_config_put(struct gw_config *config,
                             const struct gw_config_key *key,
                             const struct gw_value *value,
                             struct gw_error *error);

/* Zeroes the key's place: lists are empty then. */
void gw_config_clear(struct gw_config *config, const struct gw_config_key *key);

int gw_config_is_list(const struct gw_config_key *key);

/* Bytes of a text, or of each in a list, with its end. */
size_t gw_config_text_max(const struct gw_config_key *key);

/* Non-zero if both have the same value there. */
int gw_config_is_same(const struct gw_config_key *key,
                      const struct gw_config *a,
                      const struct gw_config *b);

/* The part of gw_config_check about jobs with model.kind = "external".
   GW_EUSAGE with a line, GW_ENOMEM. */
enum gw_status gw_config_check_external(const struct gw_config *config,
                                        struct gw_error *error);

/* Bytes of the key's place in the struct. */
size_t gw_config_bytes(const struct gw_config_key *key);

/* Is `text` one of key->choices, in any case of its letters? Its index goes to
 *index_p. */
int gw_config_choice(const struct gw_config_key *key,
                     const char *text,
                     unsigned *index_p);

/* The text of choice number `index`, *bytes_p long, not ended. */
const char *gw_config_choice_text(const struct gw_config_key *key,
                                  unsigned index,
                                  size_t *bytes_p);

/* gw_nearest_say of the choices. */
const char *gw_config_nearest_choice(const struct gw_config_key *key,
                                     const char *text,
                                     char said[GW_NEAREST_BYTES]);

/* The choices as "idx, cifar10 or npy". */
void gw_config_list_choices(const struct gw_config_key *key,
                            char text[GW_CHOICES_BYTES]);

/* GW_EUSAGE unless `text` may stand in this key of type GW_TYPE_STRING. */
enum gw_status gw_config_check_text(const struct gw_config_key *key,
                                    const char *text,
                                    struct gw_error *error);

/*
 * The part of gw_config_check about cluster.policy: GW_EUSAGE when a phase of
 * it does not go with the other keys, or is not in this version. The plan was
 * read by gw_config_check_text before.
 */
enum gw_status gw_config_check_policy(const struct gw_config *config,
                                      struct gw_error *error);

/* The same of one word alone, as a phase. */
enum gw_status gw_config_check_phase(const struct gw_config *config,
                                     const struct gw_policy_word *word,
                                     struct gw_error *error);

/* A bound of a range: whole where it can be, 1..1000 and not 1.0..1000.0. */
void gw_config_print_bound(double bound, char text[GW_REAL_BYTES]);

/* The shortest text that gives the same real again, always with a point or an
   exponent, in any locale. */
void gw_real_print(double real, char text[GW_REAL_BYTES]);

/*
 * Looks through a job file's text for parts that libconfig must not see or does
 * not report: GW_EUSAGE with "file:line: ..." for an @include, which would open
 * a file.
 */
enum gw_status gw_config_scan_includes(const char *file,
                                       const char *text,
                                       struct gw_error *error);

/*
 * Copies text with an L behind every long whole number: libconfig 1.5 cuts
 * numbers without it to 32 bits, silently. `wide` has room for 9/8 of the text
 * and its end.
 */
void gw_config_widen(const char *text, char *wide);

/* The line of a comment or a quoted text without its end, or 0; libconfig
   silently takes the rest of the file for it. */
unsigned gw_config_find_open(const char *text);

/*
 * The first section or key that stands twice in `text`: 1 and where, or 0.
 * Names that are not in the table do not count.
 */
struct gw_config_twice {
    const char *name; /* "train" or "train.batch", name_bytes long */
    size_t name_bytes;
    unsigned first, again; /* lines */
};
int gw_config_find_twice(const char *text, struct gw_config_twice *twice);

#endif
