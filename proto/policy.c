#include <config.h>

#include "proto/policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/distance.h"

#define BLANKS      " \t"
#define LIST_BYTES  160 /* all words, in a line */
#define SHOWN_BYTES 40  /* a text from outside, in a line */

/* clang-format off */
static const struct {
    const char *name;
    char letter; /* name of the number behind the word; 0: there is none */
    int together, local;
    uint64_t min, max;
} words[GW_POLICY_KINDS] = {
    [GW_POLICY_SYNC] = {.name = "sync", .together = 1},
    [GW_POLICY_BACKUP] = {.name = "backup", .together = 1,
        .letter = 'B', .min = 0, .max = GW_POLICY_BACKUP_MAX},
    [GW_POLICY_SSP] = {.name = "ssp",
        .letter = 'S', .min = 0, .max = GW_WORD_N_MAX},
    [GW_POLICY_ASYNC] = {.name = "async"},
    [GW_POLICY_STALE_LR] = {.name = "stale-lr",
        .letter = 'N', .min = 1, .max = GW_POLICY_SPLIT_MAX},
    [GW_POLICY_DC_ASYNC] = {.name = "dc-async"},
    [GW_POLICY_DOWNPOUR] = {.name = "downpour", .local = 1,
        .letter = 'T', .min = 1, .max = GW_WORD_N_MAX},
    [GW_POLICY_EASGD] = {.name = "easgd", .local = 1,
        .letter = 'T', .min = 1, .max = GW_WORD_N_MAX},
    [GW_POLICY_LOCAL] = {.name = "local", .together = 1, .local = 1,
        .letter = 'H', .min = 1, .max = GW_WORD_N_MAX},
    [GW_POLICY_DILOCO] = {.name = "diloco", .together = 1, .local = 1,
        .letter = 'H', .min = 1, .max = GW_WORD_N_MAX},
};
/* clang-format on */

/* A word without blanks and commas; bytes is 0 at the end of a phase. */
struct token {
    const char *at;
    size_t bytes;
};

static struct token take_token(const char **rest)
{
    *rest += strspn(*rest, BLANKS);
    struct token token = {*rest, strcspn(*rest, BLANKS ",")};
    *rest += token.bytes;
    return token;
}

/* As much of the token as a line shows, for %.*s. */
static int shown(struct token token)
{
    return (int)(token.bytes < SHOWN_BYTES ? token.bytes : SHOWN_BYTES);
}

static int is_word(struct token token, const char *word)
{
    return token.bytes == strlen(word) &&
           strncasecmp(token.at, word, token.bytes) == 0;
}

/* Digits only, in min..max. */
static int
read_number(struct token token, uint64_t min, uint64_t max, uint64_t *n_p)
{
    uint64_t n = 0;
    if (token.bytes == 0 || token.bytes > 18) /* more do not fit */
        return 0;
    for (size_t i = 0; i < token.bytes; i++) {
        if (token.at[i] < '0' || token.at[i] > '9')
            return 0;
        n = 10 * n + (uint64_t)(token.at[i] - '0');
    }
    *n_p = n;
    return n >= min && n <= max;
}

/* "ssp:S" */
static void print_form(unsigned kind, char text[GW_WORD_BYTES])
{
    const char number[] = {':', words[kind].letter, '\0'};
    snprintf(text, GW_WORD_BYTES, "%s%s", words[kind].name,
             words[kind].letter ? number : "");
}

static void list_forms(char text[LIST_BYTES])
{
    size_t used = 0;
    for (unsigned kind = 0; kind < GW_POLICY_KINDS; kind++) {
        char form[GW_WORD_BYTES];
        const char *before = kind + 1 < GW_POLICY_KINDS ? ", " : " and ";
        print_form(kind, form);
        used += (size_t)snprintf(text + used, LIST_BYTES - used, "%s%s",
                                 kind == 0 ? "" : before, form);
    }
}

static enum gw_status
no_such_word(struct token token, size_t name_bytes, struct gw_error *error)
{
    char name[GW_DISTANCE_BYTES], list[LIST_BYTES];
    char form[GW_WORD_BYTES];
    unsigned nearest = 0;
    list_forms(list);
    if (token.bytes == 0)
        return gw_fail(error, GW_EUSAGE,
                       "a policy is missing here; there are %s", list);
    snprintf(name, sizeof name, "%.*s", (int)name_bytes, token.at);
    for (unsigned kind = 1; kind < GW_POLICY_KINDS; kind++) {
        if (gw_edit_distance(name, words[kind].name) <
            gw_edit_distance(name, words[nearest].name))
            nearest = kind;
    }
    print_form(nearest, form);
    return gw_fail(error, GW_EUSAGE,
                   "\"%.*s\" is no policy, the nearest is %s; there are %s",
                   shown(token), token.at, form, list);
}

static enum gw_status read_word(struct token token,
                                struct gw_policy_word *word,
                                struct gw_error *error)
{
    const char *colon = memchr(token.at, ':', token.bytes);
    size_t name_bytes = colon ? (size_t)(colon - token.at) : token.bytes;
    struct token name = {token.at, name_bytes};
    unsigned kind = 0;
    while (kind < GW_POLICY_KINDS && !is_word(name, words[kind].name))
        kind++;
    if (kind == GW_POLICY_KINDS)
        return no_such_word(token, name_bytes, error);

    *word = (struct gw_policy_word){.kind = (enum gw_policy_kind)kind};
    if (!words[kind].letter && !colon)
        return GW_OK;
    if (!words[kind].letter)
        return gw_fail(error, GW_EUSAGE,
                       "\"%.*s\": %s takes no number, write it alone",
                       shown(token), token.at, words[kind].name);
    struct token number = {token.at + token.bytes, 0};
    if (colon)
        number = (struct token){colon + 1, token.bytes - name_bytes - 1};
    if (read_number(number, words[kind].min, words[kind].max, &word->n))
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "\"%.*s\": write %s:%c with a whole number %c, %" PRIu64
                   "..%" PRIu64,
                   shown(token), token.at, words[kind].name, words[kind].letter,
                   words[kind].letter, words[kind].min, words[kind].max);
}

enum gw_status gw_policy_word_parse(const char *text,
                                    struct gw_policy_word *word_p,
                                    struct gw_error *error)
{
    const char *rest = text;
    struct gw_policy_word word;
    enum gw_status status = read_word(take_token(&rest), &word, error);
    if (status)
        return status;
    rest += strspn(rest, BLANKS);
    if (*rest)
        return gw_fail(error, GW_EUSAGE,
                       "\"%.*s\": only one policy may stand here", SHOWN_BYTES,
                       text);
    *word_p = word;
    return GW_OK;
}

/* "until STEP" behind a word, or nothing; UINT64_MAX for nothing. */
static enum gw_status read_until(const char **rest,
                                 struct token word,
                                 uint64_t *until_p,
                                 struct gw_error *error)
{
    struct token token = take_token(rest);
    *until_p = UINT64_MAX;
    if (token.bytes == 0)
        return GW_OK;
    if (!is_word(token, "until"))
        return gw_fail(error, GW_EUSAGE,
                       "behind \"%.*s\" may stand \"until STEP\" or a comma, "
                       "not \"%.*s\"",
                       shown(word), word.at, shown(token), token.at);
    token = take_token(rest);
    if (!read_number(token, 1, GW_POLICY_STEP_MAX, until_p))
        return gw_fail(error, GW_EUSAGE,
                       "\"until %.*s\": write until STEP with a whole number "
                       "STEP, 1..%" PRIu64,
                       shown(token), token.at, (uint64_t)GW_POLICY_STEP_MAX);
    token = take_token(rest);
    if (token.bytes > 0)
        return gw_fail(error, GW_EUSAGE,
                       "behind \"until %" PRIu64 "\" may stand a comma, not "
                       "\"%.*s\"",
                       *until_p, shown(token), token.at);
    return GW_OK;
}

/* One phase, up to its comma or the end of the text. `before`: where the phase
   before it ends, or 0. */
static enum gw_status read_phase(const char **rest,
                                 uint64_t before,
                                 struct gw_policy_phase *phase,
                                 struct gw_error *error)
{
    struct token word = take_token(rest);
    enum gw_status status = read_word(word, &phase->word, error);
    if (!status)
        status = read_until(rest, word, &phase->until, error);
    if (status)
        return status;
    if (**rest == ',' && phase->until == UINT64_MAX)
        return gw_fail(error, GW_EUSAGE,
                       "\"%.*s\" needs \"until STEP\", since another phase "
                       "follows",
                       shown(word), word.at);
    if (**rest == '\0' && phase->until != UINT64_MAX)
        return gw_fail(error, GW_EUSAGE,
                       "\"until %" PRIu64 "\": the last phase goes to the end "
                       "of the job; leave this out, or add a phase",
                       phase->until);
    if (phase->until <= before)
        return gw_fail(error, GW_EUSAGE,
                       "\"until %" PRIu64 "\" is not later than \"until "
                       "%" PRIu64 "\" of the phase before",
                       phase->until, before);
    return GW_OK;
}

enum gw_status gw_policy_plan_parse(const char *text,
                                    struct gw_policy_plan *plan_p,
                                    struct gw_error *error)
{
    struct gw_policy_plan plan = {0};
    struct gw_error unheard;
    if (!error)
        error = &unheard;
    for (const char *rest = text;; rest++) { /* over the comma */
        if (plan.n == GW_POLICY_PHASES_MAX)
            return gw_fail(error, GW_EUSAGE, "more than %d phases",
                           GW_POLICY_PHASES_MAX);
        enum gw_status status =
            read_phase(&rest, plan.n ? plan.phase[plan.n - 1].until : 0,
                       &plan.phase[plan.n], error);
        plan.n++;
        if (status && strchr(text, ','))
            return gw_fail_in(error, "phase %zu", plan.n);
        if (status)
            return status;
        if (*rest == '\0')
            break;
    }
    *plan_p = plan;
    return GW_OK;
}

size_t gw_policy_phases_of(const struct gw_policy_plan *plan,
                           enum gw_policy_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < plan->n; i++)
        n += plan->phase[i].word.kind == kind;
    return n;
}

void gw_policy_word_print(const struct gw_policy_word *word,
                          char text[GW_WORD_BYTES])
{
    if (words[word->kind].letter)
        snprintf(text, GW_WORD_BYTES, "%s:%" PRIu64, words[word->kind].name,
                 word->n);
    else
        snprintf(text, GW_WORD_BYTES, "%s", words[word->kind].name);
}

static const struct gw_policy_phase *phase_at(const struct gw_policy_plan *plan,
                                              uint64_t step)
{
    size_t i = 0;
    while (i + 1 < plan->n && plan->phase[i].until <= step)
        i++;
    return &plan->phase[i];
}

struct gw_policy_word gw_policy_at(const struct gw_policy_plan *plan,
                                   uint64_t step)
{
    return phase_at(plan, step)->word;
}

uint64_t gw_policy_next_switch(const struct gw_policy_plan *plan, uint64_t step)
{
    return phase_at(plan, step)->until;
}

int gw_policy_is_together(enum gw_policy_kind kind)
{
    return words[kind].together;
}

int gw_policy_is_local(enum gw_policy_kind kind)
{
    return words[kind].local;
}
