/*
 * server/checkpoint/begin: what a checkpoint counts, in the units of the job
 * that goes on from it, and what is said of it; also where an older program
 * made it.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/checkpoint/begin.h"
#include "server/checkpoint/store.h"

#define RANKS_MAX 4
#define CLOCK     30

static char dir[] = "/tmp/gw-begin-XXXXXX";
static char notes[4096];

static const char base[] =
    "model = { layers = (4, 2); };\n"
    "train = { batch = 20; epochs = 5; eval_every = \"1 epoch\"; };\n"
    "cluster = { workers = 2; };\n";

static void note(void *owner, const char *text)
{
    (void)owner;
    strcat(strcat(notes, text), "\n");
}

static void set(struct gw_config *config, const char *assignment)
{
    struct gw_error error = {.text = ""};
    if (gw_config_set(config, assignment, &error) != GW_OK)
        fail_msg("%s", error.text);
}

/* The files that a checkpoint has. */
struct kept {
    const char *job; /* its text; NULL: base */
    struct gw_course course;
    uint64_t clocks[RANKS_MAX];
    const char *policy;
    uint32_t evaluations;
};

static void keep(struct gw_disk *disk, const struct kept *kept)
{
    static struct gw_key key = {.name = "w", .dtype = GW_DTYPE_F32};
    struct gw_manifest_rank ranks[RANKS_MAX] = {{.split = 0}};
    for (int i = 0; i < RANKS_MAX; i++)
        ranks[i].data_cursor = kept->clocks[i] ? kept->clocks[i] : CLOCK;
    struct gw_manifest manifest = {
        .state = {.clock = CLOCK,
                  .applied = CLOCK,
                  .pushes = 2 * CLOCK,
                  .evaluations = kept->evaluations},
        .course = kept->course,
        .keys_hash = gw_keys_hash(&key, 1),
        .keys = &key,
        .n_keys = 1,
        .optimizer = "momentum",
        .job = (char *)(uintptr_t)(kept->job ? kept->job : base),
        .ranks = ranks,
        .n_ranks = 2};
    struct gw_error error = {.text = ""};
    strcpy(manifest.policy, kept->policy ? kept->policy : "sync");
    char *text = gw_manifest_print(&manifest);
    assert_non_null(text);
    const struct gw_file_part part = {text, strlen(text)};
    struct gw_manifest_file file = {.name = GW_MANIFEST_NAME};
    struct gw_disk entered;
    if (gw_store_enter(disk, dir, GW_ACCESS_PRIVATE, &entered, &error) !=
            GW_OK ||
        gw_store_write(&entered, CLOCK, &part, 1, NULL, &file, &error) != GW_OK)
        fail_msg("%s", error.text);
    gw_store_leave(&entered);
    free(text);
}

struct world {
    struct gw_disk disk;
    struct gw_config config;
    struct gw_begin begin;
};

/* The job goes on with some keys changed. */
static void
go_on(struct world *world, const struct kept *kept, const char *const *sets)
{
    struct gw_error error = {.text = ""};
    world->disk = (struct gw_disk){.ops = &gw_disk_posix_ops};
    keep(&world->disk, kept);
    gw_config_default(&world->config);
    assert_int_equal(gw_config_parse(&world->config, "job", base, &error),
                     GW_OK);
    for (; *sets; sets++)
        set(&world->config, *sets);
    world->begin = (struct gw_begin){.disk = &world->disk,
                                     .dir = dir,
                                     .resume = dir,
                                     .config = &world->config,
                                     .note = note};
    if (gw_begin_find(&world->begin, &error) != GW_OK)
        fail_msg("%s", error.text);
    notes[0] = '\0';
}

static struct gw_course
course_of(const struct world *world, uint64_t batch, uint64_t samples)
{
    return gw_course_go_on(&world->begin.cut, batch, samples);
}

#define SETS(...)                                                              \
    (const char *const[])                                                      \
    {                                                                          \
        __VA_ARGS__, NULL                                                      \
    }

/* An older program wrote down no place: it took steps of one size. */
static void an_old_checkpoint_is_placed_by_its_job(void **state)
{
    (void)state;
    static struct world world;
    go_on(&world, &(struct kept){0}, SETS("train.batch=5"));
    struct gw_course course = course_of(&world, 10, 400);
    assert_int_equal(course.clock, CLOCK);
    assert_int_equal(course.epoch, 3);
    assert_int_equal(course.sample, 0);
    gw_begin_note_steps(&world.begin, 110, &course);
    assert_non_null(strstr(notes, "a step takes 10 samples, before the "
                                  "checkpoint it took 40: "));
    gw_begin_free(&world.begin);
    /* unchanged it is what it was, from step 0 on, and nothing is said */
    go_on(&world, &(struct kept){0}, SETS("train.epochs=9"));
    course = course_of(&world, 40, 400);
    assert_int_equal(course.clock, 0);
    gw_begin_note_steps(&world.begin, 90, &course);
    assert_string_equal(notes, "");
    gw_begin_free(&world.begin);
    /* a job that cannot be read tells nothing: its steps were today's */
    go_on(&world, &(struct kept){.job = "what = 1;"}, SETS("train.batch=5"));
    assert_null(world.begin.then);
    course = course_of(&world, 10, 400);
    assert_int_equal(course.clock, 0);
    gw_begin_free(&world.begin);
}

static const struct gw_course within = {
    .clock = 10, .epoch = 2, .sample = 40, .batch = 40, .samples = 400};

static void the_place_is_kept_over_several_jobs(void **state)
{
    (void)state;
    static struct world world;
    go_on(&world, &(struct kept){.course = within}, SETS("train.batch=50"));
    struct gw_course course = course_of(&world, 100, 400);
    /* 20 steps of 40 from sample 40 of epoch 2: sample 40 of epoch 4 */
    assert_int_equal(course.clock, CLOCK);
    assert_int_equal(course.epoch, 4);
    assert_int_equal(course.sample, 40);
    course = course_of(&world, 40, 400);
    assert_true(gw_course_is_same(&course, &within));
    course = course_of(&world, 40, 500);
    gw_begin_note_steps(&world.begin, 110, &course);
    assert_non_null(strstr(notes, "the training set has 500 samples, before "
                                  "the checkpoint it had 400: the job goes on "
                                  "with sample 40 of epoch 4, which is in "
                                  "another order now"));
    gw_begin_free(&world.begin);
}

/* Schedules follow pushes over workers. */
static void pushes_are_of_as_many_workers_as_there_are(void **state)
{
    (void)state;
    static struct world world;
    go_on(&world, &(struct kept){0}, SETS("cluster.workers=3"));
    assert_int_equal(gw_begin_pushes(&world.begin), 3 * CLOCK);
    gw_begin_free(&world.begin);
    go_on(&world, &(struct kept){0}, SETS("cluster.workers=2"));
    assert_int_equal(gw_begin_pushes(&world.begin), 2 * CLOCK);
    gw_begin_free(&world.begin);
}

/* Three evaluations of "1 epoch" by step 30, counted as another interval's. */
static void evaluations_are_those_of_the_interval(void **state)
{
    (void)state;
    static const struct {
        const char *every;
        uint32_t made, wanted;
    } cases[] = {
        {"train.eval_every=1 epoch", 3, 3},
        {"train.eval_every=1 epoch", 4, 4},
        {"train.eval_every=1 epoch", 2, 2},
        {"train.eval_every=5", 3, 6},
        {"train.eval_every=5", 2, 5},
        {"train.eval_every=3 epochs", 3, 1},
        {"train.eval_every=7 epochs", 3, 1},
        {"train.eval_every=5", 0, 0},
    };
    static struct world world;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        go_on(&world, &(struct kept){.evaluations = cases[i].made},
              SETS(cases[i].every));
        const struct gw_course course = course_of(&world, 40, 400);
        assert_int_equal(gw_begin_evaluations(&world.begin, &course),
                         cases[i].wanted);
        gw_begin_free(&world.begin);
    }
}

/* A score is of a test set. */
static void a_best_score_of_another_test_set_is_named(void **state)
{
    (void)state;
    static struct world world;
    go_on(&world, &(struct kept){.evaluations = 3}, SETS("data.test=x,y"));
    const struct gw_course course = course_of(&world, 40, 400);
    gw_begin_note_steps(&world.begin, 50, &course);
    assert_non_null(strstr(notes, "data.test names other files"));
    gw_begin_free(&world.begin);
    go_on(&world, &(struct kept){.evaluations = 0}, SETS("data.test=x,y"));
    gw_begin_note_steps(&world.begin, 50, &course);
    assert_string_equal(notes, "");
    gw_begin_free(&world.begin);
}

/* Workers that wait for nobody go on where each was, if their steps are what
   they were. */
static void ranks_go_on_apart_only_by_the_same_steps(void **state)
{
    (void)state;
    static const struct kept kept = {.clocks = {35, 25}, .policy = "async"};
    static struct world world;
    go_on(&world, &kept, SETS("cluster.policy=async"));
    struct gw_course course = course_of(&world, 40, 400);
    assert_true(gw_begin_goes_apart(&world.begin, &course));
    gw_begin_note_steps(&world.begin, 50, &course);
    assert_string_equal(notes, "");
    gw_begin_free(&world.begin);
    go_on(&world, &kept, SETS("cluster.policy=async", "train.batch=10"));
    course = course_of(&world, 20, 400);
    assert_false(gw_begin_goes_apart(&world.begin, &course));
    gw_begin_note_steps(&world.begin, 50, &course);
    assert_non_null(strstr(notes, "workers had come to steps 25 to 35, and "
                                  "all go on at step 30: "));
    gw_begin_free(&world.begin);
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    struct gw_disk disk = {.ops = &gw_disk_posix_ops}, entered;
    struct gw_error error;
    if (gw_store_enter(&disk, dir, GW_ACCESS_PRIVATE, &entered, &error) !=
        GW_OK)
        return -1;
    gw_store_remove(&entered, CLOCK);
    gw_store_leave(&entered);
    return remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_old_checkpoint_is_placed_by_its_job),
        cmocka_unit_test(the_place_is_kept_over_several_jobs),
        cmocka_unit_test(pushes_are_of_as_many_workers_as_there_are),
        cmocka_unit_test(evaluations_are_those_of_the_interval),
        cmocka_unit_test(a_best_score_of_another_test_set_is_named),
        cmocka_unit_test(ranks_go_on_apart_only_by_the_same_steps),
    };
    return cmocka_run_group_tests_name("begin", tests, make_dir, remove_dir);
}
