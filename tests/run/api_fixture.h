/*
 * A small model of the library's user, for the modes of `api`: 60 numbers, in
 * three keys of three types, that are fitted to a target.
 */
#ifndef GW_TESTS_API_FIXTURE_H
#define GW_TESTS_API_FIXTURE_H

#include "include/gradweir.h"

enum {
    KEYS = 3,
    ELEMS = 20 /* of each key */
};

extern const struct gradweir_key api_keys[KEYS];
extern const struct gradweir_declaration api_declaration;
extern gradweir_job *job; /* NULL: none is open */

/* Says why on standard error, with the job's line, and exits with 1. */
void api_die(const char *what, int status) __attribute__((noreturn));

#define CHECK(call)                                                            \
    do {                                                                       \
        int checked = (call);                                                  \
        if (checked != GRADWEIR_OK)                                            \
            api_die(#call, checked);                                           \
    } while (0)

/* The number that element i of each key shall come to. */
float api_target(size_t i);

/* Between fp32 and a key's type, ELEMS numbers. */
void api_narrow(int type, const float *from, void *to);
void api_widen(int type, const void *from, float *to);

/* coordinator: NULL, the environment's. */
void api_open(const char *coordinator);
/* Puts zeros, if the job has no weights yet. */
void api_put_first(void);
/* From an open job to its first step. */
void api_declare(const struct gradweir_declaration *declaration);
/* Both, with the job of the environment and the keys above. */
void api_start(void);
/* One step towards the target; a status of gradweir_begin, or of the step. */
int api_step(struct gradweir_step *next);
/* Steps, fewer where the job ends before. */
void api_train(int steps);
/* Finishes and closes the job; the largest distance to the target. */
double api_end(void);
/* The same, and prints it. */
void api_finish(void);

/* ---- modes ---- */

void api_groups(void); /* two with rates of their own, and one of values */
void api_blind(void);  /* the same, which waits for no weights */
void api_odd(void);    /* the same, and rank 1 has another rate in a step */
void api_fork(void);
void api_many(void);    /* jobs that nobody answers */
void api_refused(void); /* jobs that are turned away */
/* whole jobs, each with a coordinator and a server of `program` */
void api_whole(const char *program, const char *config, int jobs);

#endif
