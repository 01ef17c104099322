/*
 * Streams and events: a stream is a queue, an event a place in one. Nothing
 * orders two streams but an event that one of them waits for.
 */
#include "config.h"

#include "tests/cuda/inside.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct operation {
    struct operation *next;
    const char *what;
    void (*run)(const void *argument); /* NULL: waits for a place, or nothing */
    struct CUstream_st *awaited;
    uint64_t place;
    _Alignas(16) char argument[];
};

/* Kept for a while when it is destroyed: an event may know it. */
struct CUstream_st {
    struct CUstream_st *next;
    struct operation *first, **last;
    uint64_t queued, done;
    uint64_t cost; /* of what is queued, in microseconds that are made up */
    int destroyed;
};

struct CUevent_st {
    struct CUevent_st *next;
    struct CUstream_st *stream; /* NULL: not recorded yet */
    uint64_t place, cost;
    int timed;
};

static struct CUstream_st default_stream = {.last = &default_stream.first};
static struct CUstream_st *streams = &default_stream;
static struct CUevent_st *events;

/* ---- one operation ---- */

static const char *running;
static struct sigaction before_fault[NSIG];

/* Says who it was, and lets the fault happen again, to die of it: nobody can go
   on from inside an operation. */
static void on_fault(int number)
{
    char where[256];
    emulated_where(where, sizeof where);
    const char *parts[] = {"emulated CUDA: ", *where ? where : running,
                           number == SIGILL
                               ? ": misaligned, or outside of an array\n"
                               : ": touches memory that is not its own\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0)
            break;
    signal(number, SIG_DFL);
}

static const int faults[] = {SIGSEGV, SIGBUS, SIGILL};

static void watch_faults(void)
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigaction(faults[i], &action, &before_fault[faults[i]]);
}

static void ignore_faults(void)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigaction(faults[i], &before_fault[faults[i]], NULL);
}

static int can_run(const struct CUstream_st *stream)
{
    const struct operation *first = stream->first;
    return first && (!first->awaited || first->awaited->done >= first->place);
}

static void run_first(struct CUstream_st *stream)
{
    struct operation *operation = stream->first;
    stream->first = operation->next;
    if (!stream->first)
        stream->last = &stream->first;
    if (operation->run && !emulated_failure) {
        emulated_count.operations++;
        running = operation->what;
        if (emulated_count.operations == emulated_now.fail_at)
            emulated_failure = (cudaError_t)emulated_now.fail_with;
        else
            operation->run(operation->argument);
    }
    stream->done++;
    free(operation);
}

/* ---- which ---- */

/* The stream whose first operation `stream` cannot do without. */
static struct CUstream_st *needed_by(struct CUstream_st *stream)
{
    while (!can_run(stream))
        stream = stream->first->awaited;
    return stream;
}

static struct CUstream_st *any(void)
{
    uint32_t n = 0, nth;
    for (struct CUstream_st *s = streams; s; s = s->next)
        n += (uint32_t)can_run(s);
    if (n == 0)
        return NULL;
    nth = emulated_draw(n);
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (can_run(s) && nth-- == 0)
            return s;
    return NULL;
}

static void reach(struct CUstream_st *stream, uint64_t place)
{
    emulated_open_memory();
    watch_faults();
    while (stream->done < place) {
        int late =
            emulated_now.pace == EMULATED_LATE ||
            (emulated_now.pace == EMULATED_SOMETIMES && emulated_draw(2));
        run_first(late ? needed_by(stream) : any());
    }
    ignore_faults();
    emulated_check_memory(running ? running : "before anything ran");
    emulated_close_memory();
}

/* Some of what could run, maybe. */
static void go_on(uint32_t most)
{
    emulated_open_memory();
    watch_faults();
    for (uint32_t n = emulated_draw(most + 1); n > 0; n--) {
        struct CUstream_st *stream = any();
        if (!stream)
            break;
        run_first(stream);
    }
    ignore_faults();
    emulated_close_memory();
}

/* ---- queues ---- */

static struct CUstream_st *known(struct CUstream_st *stream)
{
    if (!stream)
        return &default_stream;
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s == stream && !s->destroyed)
            return s;
    emulated_wrong("a stream that does not exist");
}

static struct CUevent_st *known_event(struct CUevent_st *event)
{
    for (struct CUevent_st *e = events; e; e = e->next)
        if (e == event)
            return e;
    emulated_wrong("an event that does not exist");
}

static struct operation *push(struct CUstream_st *stream, size_t bytes)
{
    struct operation *operation = calloc(1, sizeof *operation + bytes);
    if (!operation)
        emulated_wrong("no memory for an operation");
    *stream->last = operation;
    stream->last = &operation->next;
    stream->queued++;
    return operation;
}

void emulated_spend(cudaStream_t stream, uint64_t cost)
{
    known(stream)->cost += cost;
}

cudaError_t emulated_queue(cudaStream_t stream,
                           const char *what,
                           void (*run)(const void *argument),
                           const void *argument,
                           size_t bytes)
{
    stream = known(stream);
    struct operation *operation = push(stream, bytes);
    operation->what = what;
    operation->run = run;
    memcpy(operation->argument, argument, bytes);
    if (emulated_now.pace == EMULATED_EARLY)
        go_on(UINT32_MAX - 1);
    else if (emulated_now.pace == EMULATED_SOMETIMES && emulated_draw(4) == 0)
        go_on(3);
    return cudaSuccess;
}

void emulated_drain(cudaStream_t stream)
{
    stream = known(stream);
    reach(stream, stream->queued);
}

void emulated_drain_all(void)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        reach(s, s->queued);
}

void emulated_forget(void)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        while (s->first) {
            struct operation *operation = s->first;
            s->first = operation->next;
            s->done++;
            free(operation);
        }
    for (struct CUstream_st *s = streams; s; s = s->next)
        s->last = &s->first;
}

static int is_idle(void)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s->first)
            return 0;
    return 1;
}

/* ---- streams ---- */

static int is_recorded(const struct CUstream_st *stream)
{
    for (struct CUevent_st *e = events; e; e = e->next)
        if (e->stream == stream)
            return 1;
    return 0;
}

static void forget_streams(void)
{
    struct CUstream_st **at = &streams, *stream;
    while (is_idle() && (stream = *at)) {
        if (stream->destroyed && !is_recorded(stream)) {
            *at = stream->next;
            free(stream);
        } else {
            at = &stream->next;
        }
    }
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    cudaError_t error = emulated_enter_device();
    if (error != cudaSuccess)
        return emulated_leave(error);
    if (flags != cudaStreamNonBlocking)
        emulated_wrong("a stream that the default stream waits for");
    struct CUstream_st *made = calloc(1, sizeof *made);
    if (!made)
        emulated_wrong("no memory for a stream");
    made->last = &made->first;
    made->next = streams;
    *stream = streams = made;
    emulated_count.live_streams++;
    return emulated_leave(cudaSuccess);
}

/* What is queued in it is still done, some time. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t error = emulated_enter_device();
    if (!stream)
        return emulated_leave(cudaErrorInvalidResourceHandle);
    known(stream)->destroyed = 1;
    emulated_count.live_streams--;
    forget_streams();
    return emulated_leave(error);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    emulated_enter();
    emulated_count.waits++;
    emulated_drain(stream);
    return emulated_leave(emulated_failure);
}

cudaError_t cudaDeviceSynchronize(void)
{
    emulated_enter();
    emulated_count.waits++;
    emulated_drain_all();
    return emulated_leave(emulated_failure);
}

cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    cudaError_t error = emulated_enter_device();
    event = known_event(event);
    stream = known(stream);
    if (error != cudaSuccess || flags != cudaEventWaitDefault)
        return emulated_leave(error ? error : cudaErrorInvalidValue);
    if (event->stream && event->stream != stream) {
        struct operation *operation = push(stream, 0);
        operation->awaited = event->stream;
        operation->place = event->place;
    }
    return emulated_leave(cudaSuccess);
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    cudaError_t error = emulated_enter_device();
    if (error != cudaSuccess ||
        (flags & ~(unsigned)(cudaEventDisableTiming | cudaEventBlockingSync)))
        return emulated_leave(error ? error : cudaErrorInvalidValue);
    struct CUevent_st *made = calloc(1, sizeof *made);
    if (!made)
        emulated_wrong("no memory for an event");
    made->timed = !(flags & cudaEventDisableTiming);
    made->next = events;
    *event = events = made;
    emulated_count.live_events++;
    return emulated_leave(cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    cudaError_t error = emulated_enter_device();
    if (!event)
        return emulated_leave(cudaErrorInvalidResourceHandle);
    known_event(event);
    struct CUevent_st **at = &events;
    while (*at != event)
        at = &(*at)->next;
    *at = event->next;
    free(event);
    emulated_count.live_events--;
    forget_streams();
    return emulated_leave(error);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t error = emulated_enter_device();
    if (error != cudaSuccess)
        return emulated_leave(error);
    event = known_event(event);
    event->stream = known(stream);
    push(event->stream, 0);
    event->place = event->stream->queued;
    event->cost = event->stream->cost;
    return emulated_leave(cudaSuccess);
}

/* Of two of one stream: what lies between them costs what it says. */
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    emulated_enter();
    start = known_event(start);
    end = known_event(end);
    if (!start->timed || !end->timed || !start->stream ||
        start->stream != end->stream)
        return emulated_leave(cudaErrorInvalidResourceHandle);
    if (emulated_failure)
        return emulated_leave(emulated_failure);
    if (end->stream->done < end->place)
        return emulated_leave(cudaErrorNotReady);
    *ms = (float)(end->cost - start->cost) / 1e3f;
    return emulated_leave(cudaSuccess);
}

/* An event that was never recorded has happened. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    emulated_enter();
    event = known_event(event);
    go_on(3);
    if (emulated_failure)
        return emulated_leave(emulated_failure);
    int done = !event->stream || event->stream->done >= event->place;
    return emulated_leave(done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    emulated_enter();
    event = known_event(event);
    emulated_count.waits++;
    if (event->stream)
        reach(event->stream, event->place);
    return emulated_leave(emulated_failure);
}
