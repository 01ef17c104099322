#include "config.h"

#include "tests/unit/owners.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

const struct gw_backend_ops *ops;
struct owner owners[OWNERS];

/* ---- owners ---- */

struct gw_device *open_device(void)
{
    struct gw_device_options options = {.threads = 1};
    struct gw_device *device;
    struct gw_error error;
    if (ops->open(&options, &device, &error) != GW_OK)
        fail_msg("%s", error.text);
    return device;
}

int fill(struct gw_device *device, float *memory, float value)
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
        answer->ok = ops->export_memory(device, *at + q->from, answer->words);
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
static _Noreturn void own(int socket, unsigned ordinal)
{
    struct gw_device_options options = {.threads = 1, .ordinal = ordinal};
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
        own(ends[1], (unsigned)(owner - owners));
    }
    close(ends[1]);
    owner->socket = ends[0];
    return owner->pid < 0 ? -1 : 0;
}

struct answer ask(struct owner *owner, struct question question)
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

void make(struct owner *owner, size_t array, float value)
{
    ask(owner, (struct question){MAKE, array, 0, 0});
    ask(owner, (struct question){FILL, array, 0, value});
}

void drop(struct owner *owner, size_t array)
{
    ask(owner, (struct question){FREE, array, 0, 0});
}

struct answer show(struct owner *owner, size_t array, size_t from)
{
    return ask(owner, (struct question){SHOW, array, from, 0});
}

/* ---- who sees ---- */

void set_way(const struct emulated_way *way, int no_ipc)
{
    struct emulated_settings settings;
    emulated_control()->defaults(&settings);
    settings.order = way->order;
    settings.pace = way->pace;
    settings.no_ipc = no_ipc;
    emulated_control()->set(&settings);
}

size_t seen_now(void)
{
    struct emulated_counts counts;
    emulated_control()->counts(&counts);
    return counts.live_seen;
}

const float *see(struct gw_device *device, const struct answer *shown)
{
    struct gw_error error;
    const float *memory = ops->import_memory(device, shown->words, &error);
    if (!memory)
        fail_msg("%s", error.text);
    return memory;
}

void cannot_see(struct gw_device *device, const uint8_t *words, const char *why)
{
    struct gw_error error = {.text = ""};
    assert_null(ops->import_memory(device, words, &error));
    assert_non_null(strstr(error.text, why));
    assert_null(strchr(error.text, '\n'));
}

void assert_adds_up(struct gw_device *device,
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

void close_device(struct gw_device *device)
{
    ops->close(device);
    emulated_assert_nothing_left();
}

int start_owners(void **state)
{
    char why[GW_WHY_BYTES];
    (void)state;
    setenv("GW_FAKE_CUDA", "devices=2", 1);
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

int end_owners(void **state)
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
