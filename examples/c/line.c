/*
 * A model of its own in C: fits y = a x + b to noisy points, each rank with
 * points of its own; servers keep a and b, and the optimizer.
 *
 *   cc -o line line.c $(pkg-config --cflags --libs gradweir)
 *   gradweir run --workers 2 --set optimizer.lr=0.2 -- ./line
 */
#include <stdio.h>
#include <stdlib.h>

#include <gradweir.h>

enum {
    STEPS = 200,
    POINTS = 32 /* this rank's, in each step */
};

static gradweir_job *job;

/* Non-zero: go on. 0: the step, or the job, is not to be finished. A failure
   ends this program with the library's line. */
static int goes_on(int status)
{
    if (status == GRADWEIR_OK || status == GRADWEIR_EEND)
        return status == GRADWEIR_OK;
    fprintf(stderr, "line: %s\n", gradweir_error(job));
    gradweir_close(job);
    exit(1);
}

/* A pseudo-random number in [-1, 1): Knuth's MMIX generator. */
static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / (double)(1ull << 52) - 1;
}

/* Mean loss of (a x + b - y)^2 / 2, and the mean of its gradient. */
static double compute(const float w[2], uint64_t *state, float gradient[2])
{
    double loss = 0, da = 0, db = 0;
    for (int i = 0; i < POINTS; i++) {
        double x = draw(state), y = 3 * x - 1 + 0.1 * draw(state);
        double miss = (double)w[0] * x + (double)w[1] - y;
        da += miss * x / POINTS;
        db += miss / POINTS;
        loss += miss * miss / 2 / POINTS;
    }
    gradient[0] = (float)da;
    gradient[1] = (float)db;
    return loss;
}

/* One step, from its weights to its gradients. */
static void step(float w[2], uint64_t *state)
{
    struct gradweir_result result = {.struct_size = sizeof result,
                                     .samples = POINTS};
    float gradient[2];
    if (goes_on(gradweir_wait(job, 0, 2, -1))) {
        for (size_t key = 0; key < 2; key++)
            goes_on(gradweir_take(job, key, &w[key]));
        result.loss = compute(w, state, gradient);
        for (size_t key = 0; key < 2; key++)
            goes_on(gradweir_push(job, key, &gradient[key]));
    }
    goes_on(gradweir_end(job, &result, -1));
}

int main(void)
{
    const struct gradweir_options options = {.struct_size = sizeof options,
                                             .rank = GRADWEIR_ANY_RANK};
    const struct gradweir_key keys[] = {
        {.struct_size = sizeof keys[0], .name = "slope"},
        {.struct_size = sizeof keys[0], .name = "offset"}};
    const struct gradweir_declaration declaration = {
        .struct_size = sizeof declaration, .keys = keys, .n_keys = 2};
    struct gradweir_step next = {.struct_size = sizeof next};
    float w[2] = {0, 0};
    char why[512];
    if (gradweir_open(&options, &job, why, sizeof why) != GRADWEIR_OK) {
        fprintf(stderr, "line: %s\n", why);
        return 1;
    }
    goes_on(gradweir_join(job, -1));
    goes_on(gradweir_declare(job, &declaration, -1));
    for (size_t key = 0; key < 2 && gradweir_makes_weights(job); key++)
        goes_on(gradweir_put(job, key, &w[key]));
    goes_on(gradweir_start(job, -1));
    uint64_t state = gradweir_rank(job) + 1;
    for (int i = 0; i < STEPS && goes_on(gradweir_begin(job, &next, -1)); i++)
        step(w, &state);
    goes_on(gradweir_finish(job, -1));
    for (size_t key = 0; key < 2; key++)
        goes_on(gradweir_take(job, key, &w[key]));
    if (gradweir_rank(job) == 0)
        printf("y = %.3f x %+.3f\n", (double)w[0], (double)w[1]);
    gradweir_close(job);
}
