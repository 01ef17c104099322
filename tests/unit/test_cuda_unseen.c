/*
 * The module for GPUs on the emulated CUDA: memory of other processes that
 * cannot be imported, is gone, or is written to.
 */
#include "config.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/owners.h"

/* With p = 0 a copy. */
static const struct gw_dropout_site nothing = {.p = 0};

static void only_device_memory_is_exported(void **state)
{
    (void)state;
    set_way(&emulated_ways[0], 0);
    struct gw_device *d = open_device();
    uint8_t words[GW_MEMORY_WORDS], same[GW_MEMORY_WORDS];
    char here[64], *memory = ops->alloc(d, 64);
    void *host = ops->alloc_host(d, 64);
    assert_int_equal(ops->export_memory(d, here, words), 0);
    assert_int_equal(ops->export_memory(d, host, words), 0);
    assert_int_equal(ops->export_memory(d, NULL, words), 0);
    assert_int_equal(ops->export_memory(d, memory + 64, words), 0);
    assert_int_equal(ops->export_memory(d, memory + 60, words), 1);
    assert_int_equal(ops->export_memory(d, memory + 60, same), 1);
    assert_memory_equal(words, same, sizeof words);
    /* a process does not import its own memory */
    cannot_see(d, words, "GPU 0 does not reach");
    ops->free(d, memory);
    assert_int_equal(ops->export_memory(d, memory, words), 0);
    ops->free_host(d, host);
    close_device(d);
}

static void unreachable_memory_is_reported(void **state)
{
    (void)state;
    make(&owners[0], 0, 1);
    struct answer shown = show(&owners[0], 0, 0);
    for (size_t way = 0; way < EMULATED_WAYS; way++) {
        set_way(&emulated_ways[way], 1);
        struct gw_device *d = open_device();
        uint8_t none[GW_MEMORY_WORDS] = {0};
        cannot_see(d, shown.words, "peer access is not supported");
        cannot_see(d, none, "invalid argument");
        /* and the device still works */
        float *own = ops->alloc(d, ELEMS * sizeof *own);
        assert_true(fill(d, own, 5));
        assert_adds_up(d, (const float *const *)&own, 1, ELEMS, 5, 1);
        ops->free(d, own);
        close_device(d);
    }
    drop(&owners[0], 0);
}

static void freed_memory_is_gone(void **state)
{
    (void)state;
    float host[ELEMS];
    set_way(&emulated_ways[0], 0);
    struct gw_device *d = open_device();
    make(&owners[0], 0, 1);
    struct answer shown = show(&owners[0], 0, 0);
    const float *seen = see(d, &shown);
    drop(&owners[0], 0);
    ops->download(d, host, seen, sizeof host);
    assert_true(isnan(host[0]) && isnan(host[ELEMS - 1]));
    ops->release_import(d, seen);
    cannot_see(d, shown.words, "invalid resource handle");
    /* the memory was reused for another allocation */
    make(&owners[0], 0, 2);
    cannot_see(d, shown.words, "invalid resource handle");
    drop(&owners[0], 0);
    close_device(d);
}

static void failed_devices_import_nothing(void **state)
{
    (void)state;
    struct emulated_settings settings;
    make(&owners[0], 0, 1);
    struct answer shown = show(&owners[0], 0, 0);
    set_way(&emulated_ways[0], 0);
    struct gw_device *d = open_device();
    uint8_t words[GW_MEMORY_WORDS];
    float *own = ops->alloc(d, 64);
    const float *seen = see(d, &shown);
    assert_int_equal(ops->sync(d, NULL), GW_OK);
    emulated_control()->defaults(&settings);
    settings.fail_at = 1;
    emulated_control()->set(&settings);
    ops->dropout(d, &nothing, 1, 16, own, own);
    assert_int_equal(ops->sync(d, NULL), GW_EIO);
    cannot_see(d, shown.words, "GPU 0 failed in");
    assert_int_equal(ops->export_memory(d, own, words), 0);
    ops->release_import(d, seen);
    ops->free(d, own);
    close_device(d);
    drop(&owners[0], 0);
}

/* The thread sanitizer does not follow fibers into a child. */
__attribute__((weak)) void *__tsan_get_current_fiber(void);

/* The emulation detects writes to imported memory. */
static void imported_memory_is_read_only(void **state)
{
    int status, ends[2];
    char said[256] = "";
    (void)state;
    if (__tsan_get_current_fiber)
        skip();
    make(&owners[0], 0, 1);
    struct answer shown = show(&owners[0], 0, 0);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka has its own */
        dup2(ends[1], STDERR_FILENO);
        set_way(&emulated_ways[0], 0);
        struct gw_device *d = open_device();
        float *seen = (float *)(uintptr_t)see(d, &shown);
        ops->dropout(d, &nothing, 1, ELEMS, seen, seen);
        ops->sync(d, NULL);
        _exit(0);
    }
    close(ends[1]);
    FILE *file = fdopen(ends[0], "r");
    assert_non_null(file);
    assert_true(fread(said, 1, sizeof said - 1, file) > 0);
    fclose(file);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_non_null(strstr(said, "touches memory that is not its own"));
    drop(&owners[0], 0);
}

/* ---- ends ---- */

/* Its content is then undefined, but no reader crashes. */
static void owners_may_be_killed(void **state)
{
    (void)state;
    int status;
    float host[ELEMS];
    set_way(&emulated_ways[0], 0);
    struct gw_device *d = open_device();
    make(&owners[1], 0, 1), make(&owners[1], 1, 2);
    struct answer a = show(&owners[1], 0, 0), b = show(&owners[1], 1, 0);
    const float *seen = see(d, &a);
    kill(owners[1].pid, SIGKILL);
    assert_int_equal(waitpid(owners[1].pid, &status, 0), owners[1].pid);
    owners[1].pid = 0;
    ops->download(d, host, seen, sizeof host);
    assert_int_equal(ops->sync(d, NULL), GW_OK);
    cannot_see(d, b.words, "invalid resource handle");
    ops->release_import(d, seen);
    cannot_see(d, a.words, "invalid resource handle");
    close_device(d);
}

static void owners_end_well(void **state)
{
    (void)state;
    int status;
    ask(&owners[0], (struct question){END, 0, 0, 0});
    assert_int_equal(waitpid(owners[0].pid, &status, 0), owners[0].pid);
    owners[0].pid = 0;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_device_memory_is_exported),
        cmocka_unit_test(unreachable_memory_is_reported),
        cmocka_unit_test(freed_memory_is_gone),
        cmocka_unit_test(failed_devices_import_nothing),
        cmocka_unit_test(imported_memory_is_read_only),
        cmocka_unit_test(owners_may_be_killed),
        cmocka_unit_test(owners_end_well),
    };
    return cmocka_run_group_tests_name("memory of GPUs that is not seen", tests,
                                       start_owners, end_owners);
}
