#include "config.h"

#include "tests/run/api_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct gradweir_key api_keys[KEYS] = {
    {sizeof *api_keys, "whole", GRADWEIR_F32, 2, {4, 5}, 0},
    {sizeof *api_keys, "brain", GRADWEIR_BF16, 1, {ELEMS}, 0},
    {sizeof *api_keys, "half", GRADWEIR_F16, 1, {ELEMS}, 0}};

const struct gradweir_declaration api_declaration = {
    .struct_size = sizeof api_declaration, .keys = api_keys, .n_keys = KEYS};

gradweir_job *job;

void api_die(const char *what, int status)
{
    fprintf(stderr, "api: %s: %d %s\n", what, status,
            job ? gradweir_error(job) : "");
    gradweir_close(job);
    exit(1);
}

/* ---- types: multiples of 1/8, which all three have ---- */

float api_target(size_t i)
{
    return (float)(i % 13) / 8 - 0.5f;
}

void api_narrow(int type, const float *from, void *to)
{
    for (size_t i = 0; i < ELEMS; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        if (type == GRADWEIR_F32)
            memcpy((float *)to + i, &from[i], sizeof bits);
        else if (type == GRADWEIR_BF16)
            ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
        else /* 0, or a normal number of few bits */
            ((uint16_t *)to)[i] =
                from[i] == 0 ? 0
                             : (uint16_t)((bits >> 16 & 0x8000) |
                                          ((bits >> 13 & 0x3ffff) - 0x1c000));
    }
}

void api_widen(int type, const void *from, float *to)
{
    for (size_t i = 0; i < ELEMS; i++) {
        uint16_t half = ((const uint16_t *)from)[i];
        uint32_t bits = (uint32_t)half << 16;
        if (type == GRADWEIR_F32)
            memcpy(&to[i], (const float *)from + i, sizeof to[i]);
        else if (type == GRADWEIR_BF16)
            memcpy(&to[i], &bits, sizeof bits);
        else
            to[i] =
                (float)(ldexp(1024 * (half >> 10 & 31 ? 1 : 0) + (half & 1023),
                              (half >> 10 & 31 ? half >> 10 & 31 : 1) - 25) *
                        (half & 0x8000 ? -1 : 1));
    }
}

/* ---- a job ---- */

void api_open(const char *coordinator)
{
    const struct gradweir_options options = {.struct_size = sizeof options,
                                             .coordinator = coordinator,
                                             .rank = GRADWEIR_ANY_RANK};
    char why[512];
    if (gradweir_open(&options, &job, why, sizeof why) != GRADWEIR_OK) {
        fprintf(stderr, "api: %s\n", why);
        exit(1);
    }
}

void api_put_first(void)
{
    static const float zero[ELEMS];
    for (size_t key = 0; key < KEYS && gradweir_makes_weights(job); key++)
        CHECK(gradweir_put(job, key, zero));
}

void api_declare(const struct gradweir_declaration *declaration)
{
    CHECK(gradweir_join(job, -1));
    CHECK(gradweir_declare(job, declaration, -1));
    api_put_first();
    CHECK(gradweir_start(job, -1));
}

void api_start(void)
{
    api_open(NULL);
    api_declare(&api_declaration);
}

/* The gradient w - target, rounded to the key's type, from an array of the
   program's or, every other step, from the library's. In a step of the
   program's own: the weights after it. A push may be told that the step is not
   to be finished, as each call within a step. */
static int
push(size_t key, const struct gradweir_step *now, const float *w, double *sum)
{
    uint64_t step = now->number;
    float g[ELEMS];
    char narrowed[ELEMS * sizeof(float)];
    for (size_t i = 0; i < ELEMS; i++) {
        g[i] = (float)(floor(64 * (double)(w[i] - api_target(i)) + 0.5) / 64);
        *sum += pow((double)(w[i] - api_target(i)), 2) / 2;
        if (now->own)
            g[i] = w[i] - 0.25f * g[i];
    }
    if (api_keys[key].type == GRADWEIR_F32 && step % 2) {
        memcpy(gradweir_gradients(job, key), g, sizeof g);
        return gradweir_push(job, key, NULL);
    }
    api_narrow(api_keys[key].type, g, narrowed);
    return gradweir_push(job, key, narrowed);
}

/* Key 2 has no gradient in each third step. */
int api_step(struct gradweir_step *next)
{
    struct gradweir_result result = {.struct_size = sizeof result};
    char narrowed[ELEMS * sizeof(float)];
    float w[ELEMS];
    int status = gradweir_begin(job, next, -1);
    if (status != GRADWEIR_OK)
        return status;
    for (size_t key = 0; key < KEYS && status == GRADWEIR_OK; key++) {
        status = gradweir_wait(job, key, 1, -1);
        if (status != GRADWEIR_OK)
            break;
        CHECK(gradweir_take(job, key, narrowed));
        api_widen(api_keys[key].type, narrowed, w);
        if (key == 2 && next->number % 3 == 2)
            status = gradweir_skip(job, key, 1, 0, -1);
        else
            status = push(key, next, w, &result.loss);
    }
    if (status == GRADWEIR_OK || status == GRADWEIR_EEND)
        status = gradweir_end(job, &result, -1);
    return status;
}

void api_train(int steps)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    int status = GRADWEIR_OK;
    for (int i = 0; i < steps && status == GRADWEIR_OK; i++)
        status = api_step(&next);
    if (status != GRADWEIR_OK && status != GRADWEIR_EEND)
        api_die("step", status);
}

double api_end(void)
{
    double most = 0;
    CHECK(gradweir_finish(job, -1));
    for (size_t key = 0; key < KEYS; key++) {
        char narrowed[ELEMS * sizeof(float)];
        float w[ELEMS];
        CHECK(gradweir_take(job, key, narrowed));
        api_widen(api_keys[key].type, narrowed, w);
        for (size_t i = 0; i < ELEMS; i++)
            most = fmax(most, fabs((double)(w[i] - api_target(i))));
    }
    gradweir_close(job);
    job = NULL;
    return most;
}

void api_finish(void)
{
    printf("off by %.4f\n", api_end());
}
