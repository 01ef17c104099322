/*
 * The module for GPUs on the emulated CUDA: memory that processes of a host
 * show each other. Two owners are processes of their own, which do as they are
 * asked; this process sees what they have.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "kernels/kernels.h"
#include "tests/table/emulated.h"

#define OWNERS 2
#define ARRAYS 3
#define ELEMS  ((size_t)1500)
#define SHIFT  ((size_t)6) /* elements, of a view that begins inside */

static const struct gw_backend_ops *ops;

/* ---- owners ---- */

struct question {
    enum {
        MAKE,
        FILL, /* element i with value + i, and waits until it is so */
        SHOW, /* from an element on */
        FREE,
        END,
    } what;
    size_t array, from;
    float value;
};

struct answer {
    int ok;
    uint8_t words[GW_MEMORY_WORDS];
};

static struct owner {
    pid_t pid;
    int socket;
} owners[OWNERS];

static struct gw_device *open_device(void)
{
    struct gw_device_options options = {.threads = 1};
    struct gw_device *device;
    struct gw_error error;
    if (ops->open(&options, &device, &error) != GW_OK)
        fail_msg("%s", error.text);
    return device;
}

static int fill(struct gw_device *device, float *memory, float value)
{
    float host[ELEMS];
    for (size_t i = 0; i < ELEMS; i++)
        host[i] = value + (float)i;
    ops->upload(device, memory, host, sizeof host);
    return ops->sync(device, NULL) == GW_OK;
}

static void
obey(struct gw_device *device, const struct question *q, struct answer *answer)
{
    static float *memory[ARRAYS];
    float **at = &memory[q->array];
    switch (q->what) {
    case MAKE:
        *at = ops->alloc(device, ELEMS * sizeof **at);
        answer->ok = *at && ops->sync(device, NULL) == GW_OK;
        return;
    case FILL:
        answer->ok = fill(device, *at, q->value);
        return;
    case SHOW:
        answer->ok = ops->show(device, *at + q->from, answer->words);
        return;
    case FREE:
        ops->free(device, *at);
        answer->ok = 1;
        return;
    case END:
        ops->close(device);
        answer->ok = 1;
    }
}

/* Until it is told, or nobody asks any more. */
static _Noreturn void own(int socket)
{
    struct gw_device_options options = {.threads = 1};
    struct gw_device *device;
    struct question question = {.what = MAKE};
    struct answer answer;
    if (ops->open(&options, &device, NULL) != GW_OK)
        _exit(2);
    while (question.what != END) {
        if (recv(socket, &question, sizeof question, 0) != sizeof question)
            _exit(3);
        memset(&answer, 0, sizeof answer);
        obey(device, &question, &answer);
        if (send(socket, &answer, sizeof answer, MSG_NOSIGNAL) < 0)
            _exit(4);
    }
    _exit(0);
}

static int start_owner(struct owner *owner)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
        return -1;
    owner->pid = fork();
    if (owner->pid == 0) {
        close(ends[0]);
        own(ends[1]);
    }
    close(ends[1]);
    owner->socket = ends[0];
    return owner->pid < 0 ? -1 : 0;
}

static struct answer ask(struct owner *owner, struct question question)
{
    struct answer answer;
    assert_int_equal(
        send(owner->socket, &question, sizeof question, MSG_NOSIGNAL),
        sizeof question);
    assert_int_equal(recv(owner->socket, &answer, sizeof answer, 0),
                     sizeof answer);
    assert_true(answer.ok);
    return answer;
}

/* An array with value + i in it. */
static void make(struct owner *owner, size_t array, float value)
{
    ask(owner, (struct question){MAKE, array, 0, 0});
    ask(owner, (struct question){FILL, array, 0, value});
}

static void drop(struct owner *owner, size_t array)
{
    ask(owner, (struct question){FREE, array, 0, 0});
}

static struct answer show(struct owner *owner, size_t array, size_t from)
{
    return ask(owner, (struct question){SHOW, array, from, 0});
}

/* ---- who sees ---- */

static void set_way(const struct emulated_way *way, int no_ipc)
{
    struct emulated_settings settings;
    emulated_control()->defaults(&settings);
    settings.order = way->order;
    settings.pace = way->pace;
    settings.no_ipc = no_ipc;
    emulated_control()->set(&settings);
}

static size_t seen_now(void)
{
    struct emulated_counts counts;
    emulated_control()->counts(&counts);
    return counts.live_seen;
}

static const float *see(struct gw_device *device, const struct answer *shown)
{
    struct gw_error error;
    const float *memory = ops->see(device, shown->words, &error);
    if (!memory)
        fail_msg("%s", error.text);
    return memory;
}

static void
cannot_see(struct gw_device *device, const uint8_t *words, const char *why)
{
    struct gw_error error = {.text = ""};
    assert_null(ops->see(device, words, &error));
    assert_non_null(strstr(error.text, why));
    assert_null(strchr(error.text, '\n'));
}

/* sum = what `n` parts have, of `elems` from their beginnings. */
static void assert_adds_up(struct gw_device *device,
                           const float *const *parts,
                           uint32_t n,
                           size_t elems,
                           float first,
                           float step)
{
    float host[ELEMS], *sum = ops->alloc(device, ELEMS * sizeof *sum);
    uint8_t *bad = ops->alloc(device, n);
    ops->add_parts(device, parts, n, elems, sum, bad);
    ops->download(device, host, sum, elems * sizeof *sum);
    for (size_t i = 0; i < elems; i++)
        if (host[i] != first + step * (float)i)
            fail_msg("element %zu: %g", i, (double)host[i]);
    ops->free(device, sum), ops->free(device, bad);
}

static void close_device(struct gw_device *device)
{
    ops->close(device);
    emulated_assert_nothing_left();
}

/* ---- what works ---- */

static void what_is_shown_is_seen(void **state)
{
    (void)state;
    for (size_t way = 0; way < EMULATED_WAYS; way++) {
        set_way(&emulated_ways[way], 0);
        struct gw_device *d = open_device();
        make(&owners[0], 0, 100), make(&owners[1], 2, 3000);
        struct answer a = show(&owners[0], 0, 0), b = show(&owners[1], 2, 0);
        float *own = ops->alloc(d, ELEMS * sizeof *own);
        assert_true(fill(d, own, 20000));
        const float *parts[] = {see(d, &a), own, NULL, see(d, &b)};
        assert_adds_up(d, parts, 4, ELEMS, 23100, 3);
        /* what its owner does later too */
        ask(&owners[0], (struct question){FILL, 0, 0, 500});
        assert_adds_up(d, parts, 4, ELEMS, 23500, 3);
        float host[ELEMS];
        ops->download(d, host, parts[3], sizeof host);
        assert_true(host[0] == 3000 && host[ELEMS - 1] == 2999 + ELEMS);
        assert_int_equal(seen_now(), 2);
        ops->unsee(d, parts[0]), ops->unsee(d, parts[3]);
        assert_int_equal(seen_now(), 0);
        drop(&owners[0], 0), drop(&owners[1], 2);
        ops->free(d, own);
        close_device(d);
    }
}

/* Beside what was queued before, which must not use where it goes, and there
   for what is queued from then on. */
static void what_is_seen_is_taken(void **state)
{
    (void)state;
    for (size_t way = 0; way < EMULATED_WAYS; way++) {
        set_way(&emulated_ways[way], 0);
        struct gw_device *d = open_device();
        make(&owners[0], 0, 40);
        struct answer a = show(&owners[0], 0, SHIFT);
        float *own = ops->alloc(d, ELEMS * sizeof *own);
        const float *seen = see(d, &a), *parts[] = {own, own};
        assert_true(fill(d, own, 20000));
        size_t elems = ELEMS - SHIFT;
        for (float round = 0; round < 2; round++) {
            ops->take(d, own, seen, elems * sizeof *own);
            assert_adds_up(d, parts, 2, elems, 2 * (40 + round * 60 + SHIFT),
                           2);
            ask(&owners[0], (struct question){FILL, 0, 0, 100});
        }
        float rest;
        ops->download(d, &rest, own + elems, sizeof rest);
        assert_true(rest == 20000 + (float)elems);
        ops->unsee(d, seen);
        drop(&owners[0], 0);
        ops->free(d, own);
        close_device(d);
    }
}

/* Two views of one allocation, and the same one twice. */
static void allocations_are_opened_once(void **state)
{
    (void)state;
    for (size_t way = 0; way < EMULATED_WAYS; way++) {
        set_way(&emulated_ways[way], 0);
        struct gw_device *d = open_device();
        make(&owners[0], 0, 0), make(&owners[0], 1, 7);
        struct answer whole = show(&owners[0], 0, 0);
        struct answer part = show(&owners[0], 0, SHIFT);
        struct answer other = show(&owners[0], 1, 0);
        const float *a = see(d, &whole), *b = see(d, &part);
        assert_ptr_equal(b, a + SHIFT);
        assert_ptr_equal(see(d, &part), b);
        assert_int_equal(seen_now(), 1);
        const float *c = see(d, &other);
        assert_int_equal(seen_now(), 2);
        ops->unsee(d, b), ops->unsee(d, a);
        assert_int_equal(seen_now(), 2);
        assert_adds_up(d, (const float *[]){b, c}, 2, ELEMS - SHIFT, SHIFT + 7,
                       2);
        ops->unsee(d, b);
        assert_int_equal(seen_now(), 1);
        ops->unsee(d, c);
        assert_int_equal(seen_now(), 0);
        drop(&owners[0], 0), drop(&owners[0], 1);
        close_device(d);
    }
}

/* Who does not see any more waits for what it has queued; a device that is
   closed sees nothing. */
static void queued_work_still_sees(void **state)
{
    (void)state;
    for (size_t way = 0; way < EMULATED_WAYS; way++) {
        set_way(&emulated_ways[way], 0);
        struct gw_device *d = open_device();
        make(&owners[0], 0, 40);
        struct answer a = show(&owners[0], 0, 0), b = show(&owners[0], 0, 1);
        const float *seen = see(d, &a);
        float host[ELEMS], *sum = ops->alloc(d, sizeof host);
        uint8_t *bad = ops->alloc(d, 1);
        ops->add_parts(d, &seen, 1, ELEMS, sum, bad);
        ops->unsee(d, seen);
        assert_int_equal(seen_now(), 0);
        ops->download(d, host, sum, sizeof host);
        assert_true(host[0] == 40 && host[ELEMS - 1] == 39 + ELEMS);
        ops->free(d, sum), ops->free(d, bad);
        see(d, &a), see(d, &b);
        close_device(d);
        drop(&owners[0], 0);
    }
}

/* Two devices of one process, as members of a simulation have them. */
static void devices_see_for_themselves(void **state)
{
    (void)state;
    set_way(&emulated_ways[0], 0);
    struct gw_device *one = open_device(), *two = open_device();
    make(&owners[0], 0, 40);
    struct answer shown = show(&owners[0], 0, 0);
    const float *a = see(one, &shown), *b = see(two, &shown);
    assert_adds_up(one, &a, 1, ELEMS, 40, 1);
    ops->unsee(one, a);
    assert_adds_up(two, &b, 1, ELEMS, 40, 1);
    ops->unsee(two, b);
    ops->close(one);
    drop(&owners[0], 0);
    close_device(two);
}

/* What a device of the network finds there is what kernels have left, and
   nothing that belongs to somebody else. */
static void devices_of_the_network_take_pages(void **state)
{
    struct gw_pages pages;
    (void)state;
    for (size_t way = 0; way < EMULATED_WAYS; way++) {
        set_way(&emulated_ways[way], 0);
        struct gw_device *d = open_device();
        float *memory = ops->alloc(d, ELEMS * sizeof *memory);
        assert_true(fill(d, memory, 70));
        ops->pages(d, memory + 1, (ELEMS - 1) * sizeof *memory, &pages);
        size_t first = (size_t)((char *)memory - (char *)pages.base);
        assert_true(pages.fd >= 0 && pages.bytes % 4096 == 0);
        assert_true(first + ELEMS * sizeof *memory <= pages.bytes);
        char *seen =
            mmap(NULL, pages.bytes, PROT_READ, MAP_SHARED, pages.fd, 0);
        assert_true(seen != MAP_FAILED);
        assert_memory_equal(seen + first, &(float){70}, sizeof(float));
        assert_true(fill(d, memory, 800));
        assert_memory_equal(seen + first, &(float){800}, sizeof(float));
        munmap(seen, pages.bytes);
        close(pages.fd);
        ops->free(d, memory);
        close_device(d);
    }
}

static void without_a_dma_buf_pages_are_addresses(void **state)
{
    struct emulated_settings settings;
    struct gw_pages pages;
    (void)state;
    set_way(&emulated_ways[0], 0);
    emulated_control()->defaults(&settings);
    settings.no_dma_buf = 1;
    emulated_control()->set(&settings);
    struct gw_device *d = open_device();
    float *memory = ops->alloc(d, ELEMS * sizeof *memory);
    ops->pages(d, memory, ELEMS * sizeof *memory, &pages);
    assert_int_equal(pages.fd, -1);
    assert_true((char *)pages.base <= (char *)memory);
    assert_true((char *)pages.base + pages.bytes >= (char *)(memory + ELEMS));
    assert_int_equal(ops->sync(d, NULL), GW_OK); /* it works all the same */
    ops->free(d, memory);
    close_device(d);
}

/* ---- what does not ---- */

static void only_memory_of_the_device_is_shown(void **state)
{
    (void)state;
    set_way(&emulated_ways[0], 0);
    struct gw_device *d = open_device();
    uint8_t words[GW_MEMORY_WORDS], same[GW_MEMORY_WORDS];
    char here[64], *memory = ops->alloc(d, 64);
    void *host = ops->alloc_host(d, 64);
    assert_int_equal(ops->show(d, here, words), 0);
    assert_int_equal(ops->show(d, host, words), 0);
    assert_int_equal(ops->show(d, NULL, words), 0);
    assert_int_equal(ops->show(d, memory + 64, words), 0);
    assert_int_equal(ops->show(d, memory + 60, words), 1);
    assert_int_equal(ops->show(d, memory + 60, same), 1);
    assert_memory_equal(words, same, sizeof words);
    /* one's own is had otherwise */
    cannot_see(d, words, "GPU 0 does not reach");
    ops->free(d, memory);
    assert_int_equal(ops->show(d, memory, words), 0);
    ops->free_host(d, host);
    close_device(d);
}

static void what_cannot_be_reached_is_said(void **state)
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
        /* and the device works on */
        float *own = ops->alloc(d, ELEMS * sizeof *own);
        assert_true(fill(d, own, 5));
        assert_adds_up(d, (const float *const *)&own, 1, ELEMS, 5, 1);
        ops->free(d, own);
        close_device(d);
    }
    drop(&owners[0], 0);
}

static void what_is_freed_is_gone(void **state)
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
    ops->unsee(d, seen);
    cannot_see(d, shown.words, "invalid resource handle");
    /* what has taken its place is something else */
    make(&owners[0], 0, 2);
    cannot_see(d, shown.words, "invalid resource handle");
    drop(&owners[0], 0);
    close_device(d);
}

static void failed_devices_see_nothing(void **state)
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
    ops->relu_forward(d, 16, own, own);
    assert_int_equal(ops->sync(d, NULL), GW_EIO);
    cannot_see(d, shown.words, "GPU 0 failed in");
    assert_int_equal(ops->show(d, own, words), 0);
    ops->unsee(d, seen);
    ops->free(d, own);
    close_device(d);
    drop(&owners[0], 0);
}

/* The thread sanitizer does not follow fibers into a child. */
__attribute__((weak)) void *__tsan_get_current_fiber(void);

/* The emulation finds who writes to what others have. */
static void what_is_seen_is_only_read(void **state)
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
        ops->relu_forward(d, ELEMS, seen, seen);
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

/* What it had is undefined, and nobody dies of it. */
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
    ops->unsee(d, seen);
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

/* They begin before this process has used CUDA. */
static int start(void **state)
{
    char why[GW_WHY_BYTES];
    (void)state;
    ops = emulated_backend(why, sizeof why);
    if (!ops) {
        print_error("%s\n", why);
        return -1;
    }
    for (size_t i = 0; i < OWNERS; i++)
        if (start_owner(&owners[i]) != 0)
            return -1;
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < OWNERS; i++) {
        close(owners[i].socket);
        if (owners[i].pid > 0) {
            kill(owners[i].pid, SIGKILL);
            waitpid(owners[i].pid, NULL, 0);
        }
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_shown_is_seen),
        cmocka_unit_test(what_is_seen_is_taken),
        cmocka_unit_test(allocations_are_opened_once),
        cmocka_unit_test(queued_work_still_sees),
        cmocka_unit_test(devices_see_for_themselves),
        cmocka_unit_test(devices_of_the_network_take_pages),
        cmocka_unit_test(without_a_dma_buf_pages_are_addresses),
        cmocka_unit_test(only_memory_of_the_device_is_shown),
        cmocka_unit_test(what_cannot_be_reached_is_said),
        cmocka_unit_test(what_is_freed_is_gone),
        cmocka_unit_test(failed_devices_see_nothing),
        cmocka_unit_test(what_is_seen_is_only_read),
        cmocka_unit_test(owners_may_be_killed),
        cmocka_unit_test(owners_end_well),
    };
    return cmocka_run_group_tests_name("shared memory of GPUs", tests, start,
                                       end);
}
