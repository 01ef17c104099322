/* Modes of `api`: two groups with rates of their own, and one of values. */
#include "config.h"

#include "tests/run/api_fixture.h"

#include <math.h>
#include <stdio.h>

enum {
    GROUP_STEPS = 12,
    ODD_STEP = 7
};

static int is_odd;   /* rank 1 has another rate in a step */
static int is_blind; /* waits for no weights */

static struct gradweir_terms terms_at(uint32_t group, uint64_t step)
{
    return (struct gradweir_terms){.struct_size = sizeof(struct gradweir_terms),
                                   .lr =
                                       0.1 / (double)(1 + step / 3 + 2 * group),
                                   .weight_decay = step < 6 ? 0.1 : 0,
                                   .beta1 = 0.9,
                                   .beta2 = step < 4 ? 0.99 : 0.9,
                                   .eps = 1e-6};
}

static void declare_groups(void)
{
    static const struct gradweir_group rules[] = {
        {sizeof *rules, GRADWEIR_RULE_OPTIMIZER},
        {sizeof *rules, GRADWEIR_RULE_OPTIMIZER},
        {sizeof *rules, GRADWEIR_RULE_MEAN}};
    struct gradweir_key grouped[KEYS];
    const struct gradweir_declaration own = {.struct_size = sizeof own,
                                             .keys = grouped,
                                             .n_keys = KEYS,
                                             .groups = rules,
                                             .n_groups = 3,
                                             .optimizer = "adamw"};
    for (uint32_t key = 0; key < KEYS; key++) {
        grouped[key] = api_keys[key];
        grouped[key].type = GRADWEIR_F32;
        grouped[key].group = key;
    }
    api_open(NULL);
    api_declare(&own);
}

/* The mean over both ranks of a gradient that does not depend on weights. */
static float slope(size_t i, uint32_t rank)
{
    return api_target(i) + (float)rank / 4;
}

static void step_groups(uint64_t step)
{
    uint32_t rank = gradweir_rank(job);
    float g[ELEMS];
    for (uint32_t group = 0; group < 2; group++) {
        struct gradweir_terms terms = terms_at(group, step);
        if (is_odd && rank == 1 && step == ODD_STEP)
            terms.lr = 3;
        CHECK(gradweir_terms(job, group, &terms));
    }
    if (!is_blind)
        CHECK(gradweir_wait(job, 0, KEYS, -1));
    for (size_t key = 0; key < KEYS; key++) {
        for (size_t i = 0; i < ELEMS; i++)
            g[i] =
                key < 2 ? slope(i, rank) : (float)(step + i) + 4 * (float)rank;
        CHECK(gradweir_push(job, key, g));
    }
    CHECK(gradweir_end(job, NULL, -1));
}

/* AdamW by hand. */
static double stepped(uint32_t group, size_t i)
{
    double w = 0, m = 0, v = 0, g = 0;
    for (uint32_t rank = 0; rank < 2; rank++)
        g += (double)slope(i, rank) / 2;
    for (uint64_t step = 0; step < GROUP_STEPS; step++) {
        const struct gradweir_terms terms = terms_at(group, step);
        double t = (double)step + 1;
        m = terms.beta1 * m + (1 - terms.beta1) * g;
        v = terms.beta2 * v + (1 - terms.beta2) * g * g;
        w -= terms.lr * (terms.weight_decay * w +
                         m / (1 - pow(terms.beta1, t)) /
                             (sqrt(v / (1 - pow(terms.beta2, t))) + terms.eps));
    }
    return w;
}

void api_groups(void)
{
    struct gradweir_step next = {.struct_size = sizeof next};
    double far = 0;
    declare_groups();
    for (uint64_t step = 0; step < GROUP_STEPS; step++) {
        CHECK(gradweir_begin(job, &next, -1));
        step_groups(step);
    }
    CHECK(gradweir_finish(job, -1));
    for (size_t key = 0; key < KEYS; key++) {
        float w[ELEMS];
        CHECK(gradweir_take(job, key, w));
        for (size_t i = 0; i < ELEMS; i++)
            far = fmax(far, fabs((double)w[i] -
                                 (key < 2 ? stepped((uint32_t)key, i)
                                          : GROUP_STEPS - 1 + (double)i + 2)));
    }
    gradweir_close(job);
    printf("groups are %s\n", far < 1e-6 ? "right" : "wrong");
}

void api_blind(void)
{
    is_blind = 1;
    api_groups();
}

void api_odd(void)
{
    is_odd = 1;
    api_groups();
}
