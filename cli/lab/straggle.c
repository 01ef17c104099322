#include "config.h"

#include "cli/lab/straggle.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/random.h"

/* A second of computing becomes three hours, and with all laws twelve days;
   more is meaningless, and would take for ever to simulate. */
#define FACTOR_MAX  1e4
#define PRODUCT_MAX 1e6

#define WORDS                                                                  \
    "none, \"factor F of RANK\", exponential, \"pareto A\", \"trace FILE\""

/* One word. */
struct law {
    enum law_kind {
        LAW_NONE,
        LAW_FACTOR,
        LAW_EXPONENTIAL,
        LAW_PARETO,
        LAW_TRACE
    } kind;
    double value; /* F or A */
    uint32_t rank;
    double *number; /* trace: [rows][columns] */
    size_t rows, columns;
};

struct gw_straggle {
    size_t laws;
    struct law law[];
};

/* ---- a trace ---- */

/* Appends the numbers of a line. */
static enum gw_status read_row(struct law *law,
                               const char *line,
                               const char *where,
                               struct gw_error *error)
{
    size_t columns = 0;
    for (;;) {
        char *end;
        double number = strtod(line, &end);
        if (end == line)
            break;
        if (!(number > 0 && number <= FACTOR_MAX))
            return gw_fail(error, GW_EUSAGE,
                           "%s: factors are numbers above 0, up to %g", where,
                           FACTOR_MAX);
        size_t n = law->rows * law->columns + columns;
        double *grown = realloc(law->number, (n + 1) * sizeof *grown);
        if (!grown)
            return gw_fail(error, GW_ENOMEM, "%s: no memory for it", where);
        law->number = grown;
        law->number[n] = number;
        columns++;
        line = end;
    }
    if (line[strspn(line, " \t\r\n")])
        return gw_fail(error, GW_EUSAGE,
                       "%s: factors are numbers above 0, up to %g", where,
                       FACTOR_MAX);
    if (law->rows > 0 && columns != law->columns)
        return gw_fail(error, GW_EUSAGE,
                       "%s: %zu columns, the lines before have %zu", where,
                       columns, law->columns);
    law->columns = columns;
    law->rows++;
    return GW_OK;
}

static enum gw_status
read_rows(struct law *law, FILE *file, const char *path, struct gw_error *error)
{
    enum gw_status status = GW_OK;
    char *line = NULL, where[600];
    size_t room = 0;
    for (unsigned n = 1; status == GW_OK && getline(&line, &room, file) > 0;
         n++) {
        snprintf(where, sizeof where, "%.500s:%u", path, n);
        size_t blank = strspn(line, " \t\r\n");
        if (line[blank] && line[blank] != '#')
            status = read_row(law, line, where, error);
    }
    free(line);
    if (status == GW_OK && ferror(file))
        return gw_fail(error, GW_EIO, "cannot read %s: %s", path,
                       strerror(errno));
    if (status == GW_OK && law->rows == 0)
        return gw_fail(error, GW_EUSAGE, "%s has no line of factors", path);
    return status;
}

static enum gw_status read_trace(struct law *law,
                                 const char *name,
                                 const char *beside,
                                 struct gw_error *error)
{
    const char *slash = strrchr(beside, '/');
    int dir = slash && name[0] != '/' ? (int)(slash + 1 - beside) : 0;
    char path[4096];
    snprintf(path, sizeof path, "%.*s%s", dir, beside, name);
    FILE *file = fopen(path, "r");
    if (!file)
        return gw_fail(error, GW_EIO, "cannot open the trace %s: %s", path,
                       strerror(errno));
    enum gw_status status = read_rows(law, file, path, error);
    fclose(file);
    return status;
}

/* ---- words ---- */

/* Parses all of `text` as a number; 0: it is none. */
static int is_number(const char *text, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && !*end && isfinite(*number);
}

static int is_factor(struct law *law, const char *text)
{
    char factor[64], rest;
    return sscanf(text, "%63s of %" SCNu32 "%c", factor, &law->rank, &rest) ==
               2 &&
           is_number(factor, &law->value) && law->value > 0 &&
           law->value <= FACTOR_MAX;
}

static enum gw_status parse_law(struct law *law,
                                const char *word,
                                const char *beside,
                                struct gw_error *error)
{
    if (strcasecmp(word, "none") == 0) {
        law->kind = LAW_NONE;
    } else if (strcasecmp(word, "exponential") == 0) {
        law->kind = LAW_EXPONENTIAL;
    } else if (strncasecmp(word, "factor ", 7) == 0 &&
               is_factor(law, word + 7)) {
        law->kind = LAW_FACTOR;
    } else if (strncasecmp(word, "pareto ", 7) == 0 &&
               is_number(word + 7, &law->value) && law->value > 1) {
        law->kind = LAW_PARETO;
    } else if (strncasecmp(word, "trace ", 6) == 0) {
        law->kind = LAW_TRACE;
        return read_trace(law, word + 6, beside, error);
    } else {
        return gw_fail(error, GW_EUSAGE,
                       "\"%s\" is no law of stragglers; there are " WORDS
                       " with F > 0 (up to %g) and A > 1, joined by commas",
                       word, FACTOR_MAX);
    }
    return GW_OK;
}

static enum gw_status parse_laws(struct gw_straggle *straggle,
                                 char *words,
                                 const char *beside,
                                 struct gw_error *error)
{
    enum gw_status status = GW_OK;
    char *rest = words;
    while (rest && status == GW_OK) {
        char *word = strsep(&rest, ",");
        size_t bytes;
        word += strspn(word, " \t");
        bytes = strlen(word);
        while (bytes > 0 && isspace((unsigned char)word[bytes - 1]))
            word[--bytes] = 0;
        status =
            parse_law(&straggle->law[straggle->laws++], word, beside, error);
    }
    return status;
}

enum gw_status gw_straggle_parse(const char *text,
                                 const char *beside,
                                 struct gw_straggle **straggle_p,
                                 struct gw_error *error)
{
    size_t laws = 1;
    for (const char *at = text; *at; at++)
        laws += *at == ',';
    struct gw_straggle *straggle =
        calloc(1, sizeof *straggle + laws * sizeof *straggle->law);
    char *words = strdup(text);
    enum gw_status status =
        straggle && words
            ? parse_laws(straggle, words, beside, error)
            : gw_fail(error, GW_ENOMEM, "no memory for laws of stragglers");
    free(words);
    if (status != GW_OK) {
        gw_straggle_free(straggle);
        return status;
    }
    *straggle_p = straggle;
    return GW_OK;
}

enum gw_status gw_straggle_fits(const struct gw_straggle *straggle,
                                uint32_t workers,
                                struct gw_error *error)
{
    for (size_t i = 0; i < straggle->laws; i++) {
        const struct law *law = &straggle->law[i];
        if (law->kind == LAW_FACTOR && law->rank >= workers)
            return gw_fail(error, GW_EUSAGE,
                           "a straggler of rank %" PRIu32
                           ", but the job has workers 0 to %" PRIu32,
                           law->rank, workers - 1);
        if (law->kind == LAW_TRACE && law->columns < workers)
            return gw_fail(error, GW_EUSAGE,
                           "a trace of %zu workers, but the job has %" PRIu32,
                           law->columns, workers);
    }
    return GW_OK;
}

/* ---- draws ---- */

/* Uniform in (0, 1). */
static double
uniform(uint64_t seed, uint32_t rank, uint64_t computation, size_t law)
{
    uint32_t bits[4];
    gw_random4(seed, GW_RANDOM_STRAGGLE, rank, computation << 8 | law, bits);
    uint64_t wide = (uint64_t)bits[0] << 20 | bits[1] >> 12;
    return ((double)wide + 0.5) / 4503599627370496.0; /* 2^52 */
}

double gw_straggle_factor(const struct gw_straggle *straggle,
                          uint64_t seed,
                          uint32_t rank,
                          uint64_t computation)
{
    double factor = 1;
    for (size_t i = 0; i < straggle->laws; i++) {
        const struct law *law = &straggle->law[i];
        double u = uniform(seed, rank, computation, i);
        if (law->kind == LAW_FACTOR && law->rank == rank)
            factor *= law->value;
        if (law->kind == LAW_EXPONENTIAL)
            factor *= -log(u);
        if (law->kind == LAW_PARETO)
            factor *= (law->value - 1) / law->value * pow(u, -1 / law->value);
        if (law->kind == LAW_TRACE)
            factor *=
                law->number[computation % law->rows * law->columns + rank];
    }
    return factor < PRODUCT_MAX ? factor : PRODUCT_MAX;
}

void gw_straggle_digest(const struct gw_straggle *straggle,
                        struct gw_digest *sum)
{
    for (size_t i = 0; i < straggle->laws; i++) {
        const struct law *law = &straggle->law[i];
        char text[128];
        int n = snprintf(text, sizeof text, "%d %a %u %zu %zu;", (int)law->kind,
                         law->value, law->rank, law->rows, law->columns);
        gw_digest_add(sum, text, (size_t)n);
        gw_digest_add(sum, law->number,
                      law->rows * law->columns * sizeof *law->number);
    }
}

void gw_straggle_free(struct gw_straggle *straggle)
{
    if (!straggle)
        return;
    for (size_t i = 0; i < straggle->laws; i++)
        free(straggle->law[i].number);
    free(straggle);
}
