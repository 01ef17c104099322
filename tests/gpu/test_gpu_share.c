/*
 * Memory shared between processes on a real GPU: another process owns it, on
 * the same GPU and on each other one of the machine, and this one reads, adds
 * and copies it. The owner runs this program again: CUDA does not survive a
 * fork. Skipped, with the reason, without a GPU.
 *
 *   test_gpu_share           the tests
 *   test_gpu_share own I     exports memory of GPU I, or computes there, as
 *                            lines on its input say
 *
 * $GW_CASES is a pattern that selects cases.
 */
#include "config.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/gpu.h"

#define ELEMS ((size_t)3 << 20)
#define FIRST ((size_t)64) /* first exported element */
#define SHOWN (ELEMS - FIRST)
#define HEX   ((size_t)2 * GW_MEMORY_WORDS)

extern char **environ;

/* Whole numbers, so that sums have no rounding. */
static float number_at(size_t i, unsigned round)
{
    return (float)((i * 2654435761u + round * 40503u) >> 9 & 1023);
}

static float *numbers(size_t first, size_t n, unsigned round)
{
    float *host = malloc(n * sizeof *host);
    for (size_t i = 0; i < n; i++)
        host[i] = number_at(first + i, round);
    return host;
}

/* ---- the owner: a line for a line ---- */

static int fill(const struct gw_backend_ops *on,
                struct gw_device *at,
                float *to,
                unsigned round)
{
    float *host = numbers(0, ELEMS, round);
    on->upload(at, to, host, ELEMS * sizeof *host);
    int filled = on->sync(at, NULL) == GW_OK;
    free(host);
    return filled;
}

static void say_words(const uint8_t words[GW_MEMORY_WORDS])
{
    for (size_t i = 0; i < GW_MEMORY_WORDS; i++)
        printf("%02x", words[i]);
    putchar('\n');
    fflush(stdout);
}

/* A step of each kind of layer in each precision, on a device of its own, which
   loads all code that steps use. */
static void compute_all(void)
{
    static const struct layer kinds[] = {
        {.dense = {256, 512, 512, 1, 1}},
        {.conv = {32, 16, 12, 12, 32, 5, 5, 1, 0, 1, 1}},
    };
    int (*const open[])(void **) = {open_fp32, open_tf32, open_bf16, open_fp16};
    for (size_t p = 0; p < COUNT(open); p++) {
        open[p](NULL);
        for (size_t i = 0; i < COUNT(kinds); i++)
            compute_once(&kinds[i]);
        cuda->close(device);
    }
}

/* "compute", or the number of a round. */
static int do_as_told(const struct gw_backend_ops *on,
                      struct gw_device *at,
                      float *memory,
                      const char *line)
{
    if (strncmp(line, "compute", 7) != 0)
        return fill(on, at, memory, (unsigned)atoi(line));
    cuda = on;
    compute_all();
    return 1;
}

/* Exports memory, does the command of each line, and answers it. */
static int obey(const struct gw_backend_ops *on, struct gw_device *at)
{
    uint8_t words[GW_MEMORY_WORDS];
    char line[32];
    float *memory = on->alloc(at, ELEMS * sizeof *memory);
    if (!memory || !fill(on, at, memory, 0) ||
        !on->export_memory(at, memory + FIRST, words)) {
        puts("no memory that can be shown");
        return 1;
    }
    say_words(words);
    while (fgets(line, sizeof line, stdin)) {
        puts(do_as_told(on, at, memory, line) ? "done" : "no");
        fflush(stdout);
    }
    on->free(at, memory);
    return 0;
}

static int own(const char *ordinal)
{
    const struct gw_device_options options = {
        .threads = 1, .ordinal = (unsigned)atoi(ordinal)};
    struct gw_error error;
    struct gw_device *at;
    const struct gw_backend_ops *on = gw_backend_find("cuda", &error);
    if (!on || on->open(&options, &at, &error) != GW_OK) {
        printf("no %s\n", error.text);
        return 1;
    }
    int code = obey(on, at);
    on->close(at);
    return code;
}

/* ---- importer ---- */

struct owner {
    pid_t pid;
    FILE *to, *from;
    char said[2 * HEX];
};

/* Reads the owner's next line, without its end. */
static void listen_to(struct owner *o)
{
    o->said[0] = '\0';
    if (fgets(o->said, sizeof o->said, o->from))
        o->said[strcspn(o->said, "\n")] = '\0';
}

static void start_owner(struct owner *o, unsigned ordinal)
{
    char number[16], self[] = "/proc/self/exe", word[] = "own";
    char *const arguments[] = {self, word, number, NULL};
    int in[2], out[2];
    posix_spawn_file_actions_t actions;
    snprintf(number, sizeof number, "%u", ordinal);
    assert_true(pipe(in) == 0 && pipe(out) == 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    /* or the owner would keep its own input open */
    posix_spawn_file_actions_addclose(&actions, in[1]);
    assert_int_equal(
        posix_spawn(&o->pid, self, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]), close(out[1]);
    o->to = fdopen(in[1], "w");
    o->from = fdopen(out[0], "r");
    assert_true(o->to && o->from);
    listen_to(o);
}

static void tell(struct owner *o, const char *what)
{
    fprintf(o->to, "%s\n", what);
    fflush(o->to);
    listen_to(o);
    assert_string_equal(o->said, "done");
}

/* Returns its exit code. */
static int end_owner(struct owner *o)
{
    int status;
    fclose(o->to);
    fclose(o->from);
    assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const float *see(const struct owner *o)
{
    struct gw_error error;
    uint8_t words[GW_MEMORY_WORDS];
    if (strlen(o->said) != HEX)
        fail_msg("the owner says \"%s\"", o->said);
    for (size_t i = 0; i < GW_MEMORY_WORDS; i++) {
        unsigned byte;
        assert_int_equal(sscanf(o->said + 2 * i, "%2x", &byte), 1);
        words[i] = (uint8_t)byte;
    }
    const float *seen = ops->import_memory(device, words, &error);
    if (!seen)
        fail_msg("%s", error.text);
    return seen;
}

/* Compares the first `n` elements bit by bit. */
static void assert_has(const float *memory, const float *should, size_t n)
{
    float *is = to_host(memory, n);
    assert_memory_equal(is, should, n * sizeof *is);
    free(is);
}

/* Reads and copies the memory after `round`, and adds it twice around our own.
 */
static void look_at(const float *seen, unsigned round)
{
    float *should = numbers(FIRST, SHOWN, round);
    float *own = numbers(0, SHOWN, 77), *here = to_device(own, SHOWN);
    float *to = poisoned(SHOWN);
    const float *const parts[] = {seen, here, NULL, seen};
    uint8_t *bad = ops->alloc(device, COUNT(parts)), found[COUNT(parts)];
    assert_has(seen, should, SHOWN);
    ops->copy_import(device, to, seen, SHOWN * sizeof *to);
    assert_has(to, should, SHOWN);
    ops->add_parts(device, parts, COUNT(parts), SHOWN, here, bad);
    for (size_t i = 0; i < SHOWN; i++)
        own[i] += 2 * should[i];
    assert_has(here, own, SHOWN);
    ops->download(device, found, bad, sizeof found);
    finish();
    for (size_t i = 0; i < COUNT(parts); i++)
        assert_int_equal(found[i], 0);
    ops->free(device, here), ops->free(device, to), ops->free(device, bad);
    free(should), free(own);
}

/* Several rounds, so that stale data cannot pass for current data. */
static void look_at_owner(struct owner *o, unsigned ordinal)
{
    const float *seen = see(o);
    print_message("# what GPU %u has is seen: %s\n", ordinal,
                  ops->path(device, seen));
    for (unsigned round = 0; round < 3; round++) {
        look_at(seen, round);
        if (round < 2)
            tell(o, round == 0 ? "1" : "2");
    }
    ops->release_import(device, seen);
    finish();
}

static void what_another_process_shows_is_seen(void **state)
{
    struct owner o;
    (void)state;
    start_owner(&o, 0);
    look_at_owner(&o, 0);
    assert_int_equal(end_owner(&o), 0);
}

static void what_other_gpus_have_is_seen(void **state)
{
    struct owner o;
    (void)state;
    unsigned ordinal = 1;
    for (;; ordinal++) {
        start_owner(&o, ordinal);
        if (strstr(o.said, "counts from 0"))
            break;
        look_at_owner(&o, ordinal);
        assert_int_equal(end_owner(&o), 0);
    }
    end_owner(&o);
    if (ordinal == 1) {
        print_message("# one GPU is here\n");
        skip();
    }
}

/* Free bytes of the device. */
static uint64_t memory_left(void)
{
    uint64_t total, left;
    finish();
    ops->memory(device, &total, &left);
    return left;
}

/* The numbers from which the largest batch is predicted (worker/need.h).
   Another user of the device can increase them, so the test is repeated. */
static void a_process_takes_what_is_counted(void **state)
{
    const uint64_t counted = ops->takes.process + ops->takes.code +
                             ops->takes.open + ELEMS * sizeof(float) +
                             ops->takes.page;
    struct owner o;
    uint64_t took = counted + 1;
    (void)state;
    for (int i = 0; i < 3 && took > counted; i++) {
        uint64_t before = memory_left();
        start_owner(&o, 0);
        tell(&o, "compute");
        uint64_t after = memory_left();
        took = before > after ? before - after : 0;
        assert_int_equal(end_owner(&o), 0);
        print_message("# a process takes %.0f MiB, counted as %.0f\n",
                      (double)took / (1 << 20), (double)counted / (1 << 20));
    }
    assert_true(took <= counted);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        CASE(a_process_takes_what_is_counted, open_fp32),
        CASE(what_another_process_shows_is_seen, open_fp32),
        CASE(what_other_gpus_have_is_seen, open_fp32),
    };
    if (argc == 3 && strcmp(argv[1], "own") == 0)
        return own(argv[2]);
    signal(SIGPIPE, SIG_IGN); /* the owner may have exited */
    return find_gpu(argc, argv)
               ? cmocka_run_group_tests_name("gpu share", cases, NULL, NULL)
               : 0;
}
