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

/* Each call that fails ends this program with the library's line. */
static void check(int status)
{
    if (status == GRADWEIR_OK)
        return;
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
static double step(float a, float b, uint64_t *state, float *da, float *db)
{
    double loss = 0;
    *da = *db = 0;
    for (int i = 0; i < POINTS; i++) {
        double x = draw(state), y = 3 * x - 1 + 0.1 * draw(state);
        double miss = (double)a * x + (double)b - y;
        *da += (float)(miss * x / POINTS);
        *db += (float)(miss / POINTS);
        loss += miss * miss / 2 / POINTS;
    }
    return loss;
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
    struct gradweir_result result = {.struct_size = sizeof result};
    char why[512];
    if (gradweir_open(&options, &job, why, sizeof why) != GRADWEIR_OK) {
        fprintf(stderr, "line: %s\n", why);
        return 1;
    }
    float a = 0, b = 0, da, db;
    check(gradweir_join(job, -1));
    check(gradweir_declare(job, &declaration, -1));
    if (gradweir_makes_weights(job)) {
        check(gradweir_put(job, 0, &a));
        check(gradweir_put(job, 1, &b));
    }
    check(gradweir_start(job, -1));
    uint64_t state = gradweir_rank(job) + 1;
    int status = GRADWEIR_OK;
    for (int i = 0; i < STEPS && status == GRADWEIR_OK; i++) {
        status = gradweir_begin(job, &next, -1);
        if (status != GRADWEIR_OK || gradweir_wait(job, 0, 2, -1))
            break;
        check(gradweir_take(job, 0, &a));
        check(gradweir_take(job, 1, &b));
        result.loss = step(a, b, &state, &da, &db);
        gradweir_push(job, 0, &da);
        gradweir_push(job, 1, &db);
        check(gradweir_end(job, &result, -1));
    }
    check(gradweir_finish(job, -1));
    gradweir_take(job, 0, &a);
    gradweir_take(job, 1, &b);
    if (gradweir_rank(job) == 0)
        printf("y = %.3f x %+.3f\n", (double)a, (double)b);
    gradweir_close(job);
    return 0;
}
