/*
 * Streams and events: a stream is a queue, an event a place in one. Two streams
 * are ordered only by events that one of them waits for. While a stream is
 * captured, queued operations become a graph, whose launch queues them.
 */
#include "config.h"

#include "tests/cuda/inside.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct operation {
    struct operation *next;
    const char *what;
    void (*run)(const void *argument); /* NULL: a wait, or nothing */
    struct CUstream_st *awaited;
    uint64_t place;
    size_t argument_bytes;
    _Alignas(16) char argument[];
};

/* A destroyed stream is kept for a while: events may refer to it. */
struct CUstream_st {
    struct CUstream_st *next;
    struct operation *first, **last;
    uint64_t queued, done;
    uint64_t cost; /* sum over queued operations, in simulated us */
    int destroyed;
    struct CUgraph_st *recorded; /* NULL: not captured; else by */
    pthread_t recorder;
};

/* A captured graph, and its executable. */
struct CUgraph_st {
    struct operation *first, **last;
    uint64_t cost;
};
struct CUgraphExec_st {
    struct CUgraph_st *graph;
};

struct CUevent_st {
    struct CUevent_st *next;
    struct CUstream_st *stream; /* NULL: never recorded */
    uint64_t place, cost;
    int timed;
};

static struct CUstream_st default_stream = {.last = &default_stream.first};
static struct CUstream_st *streams = &default_stream;
static struct CUevent_st *events;

/* ---- one operation ---- */

static const char *running;
static struct sigaction before_fault[NSIG];

/* Prints who it was, and returns into the fault, to die of it: an operation
   cannot be resumed. */
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

/* ---- scheduling ---- */

/* The stream to run next so that `stream` can proceed. */
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

/* Runs a random number of operations that can run. */
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

static struct operation *append(struct operation ***last,
                                const struct operation *like)
{
    struct operation *operation =
        calloc(1, sizeof *operation + like->argument_bytes);
    if (!operation)
        emulated_wrong("no memory for an operation");
    *operation = *like;
    operation->next = NULL;
    **last = operation;
    *last = &operation->next;
    return operation;
}

static struct operation *push(struct CUstream_st *stream,
                              const struct operation *like)
{
    stream->queued++;
    return append(&stream->last, like);
}

void emulated_spend(cudaStream_t stream, uint64_t cost)
{
    stream = known(stream);
    if (stream->recorded)
        stream->recorded->cost += cost;
    else
        stream->cost += cost;
}

/* CUDA fails here, and the captured graph is invalid. */
static void must_not_be_recorded(const struct CUstream_st *stream,
                                 const char *who)
{
    if (stream->recorded)
        emulated_wrong("%s on a stream that is being recorded", who);
}

void emulated_must_not_record(const char *who)
{
    for (const struct CUstream_st *s = streams; s; s = s->next)
        if (s->recorded && pthread_equal(s->recorder, pthread_self()))
            emulated_wrong("%s by a thread that records a stream", who);
}

static void may_go_on(void)
{
    if (emulated_now.pace == EMULATED_EARLY)
        go_on(UINT32_MAX - 1);
    else if (emulated_now.pace == EMULATED_SOMETIMES && emulated_draw(4) == 0)
        go_on(3);
}

cudaError_t emulated_queue(cudaStream_t stream,
                           const char *what,
                           void (*run)(const void *argument),
                           const void *argument,
                           size_t bytes)
{
    const struct operation like = {
        .what = what, .run = run, .argument_bytes = bytes};
    stream = known(stream);
    if (stream->recorded && emulated_now.broken_graphs)
        return cudaErrorStreamCaptureInvalidated;
    struct operation *operation = stream->recorded
                                      ? append(&stream->recorded->last, &like)
                                      : push(stream, &like);
    memcpy(operation->argument, argument, bytes);
    if (!stream->recorded)
        may_go_on();
    return cudaSuccess;
}

void emulated_drain(cudaStream_t stream)
{
    stream = known(stream);
    must_not_be_recorded(stream, "waiting");
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

/* Queued operations still run at some time. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t error = emulated_enter_device();
    if (!stream)
        return emulated_leave(cudaErrorInvalidResourceHandle);
    must_not_be_recorded(known(stream), "cudaStreamDestroy");
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
        const struct operation wait = {.awaited = event->stream,
                                       .place = event->place};
        must_not_be_recorded(stream, "cudaStreamWaitEvent");
        push(stream, &wait);
    }
    return emulated_leave(cudaSuccess);
}

/* ---- graphs ---- */

static struct CUgraph_st *graph_new(void)
{
    struct CUgraph_st *graph = calloc(1, sizeof *graph);
    if (!graph)
        emulated_wrong("no memory for a graph");
    graph->last = &graph->first;
    emulated_count.live_handles++;
    return graph;
}

static void graph_free(struct CUgraph_st *graph)
{
    while (graph->first) {
        struct operation *operation = graph->first;
        graph->first = operation->next;
        free(operation);
    }
    free(graph);
    emulated_count.live_handles--;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   enum cudaStreamCaptureMode mode)
{
    cudaError_t error = emulated_enter_device();
    if (error == cudaSuccess && emulated_now.no_graphs)
        error = cudaErrorNotSupported;
    if (error != cudaSuccess || mode != cudaStreamCaptureModeThreadLocal)
        return emulated_leave(error ? error : cudaErrorInvalidValue);
    stream = known(stream);
    must_not_be_recorded(stream, "cudaStreamBeginCapture");
    stream->recorded = graph_new();
    stream->recorder = pthread_self();
    return emulated_leave(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    emulated_enter();
    stream = known(stream);
    if (!stream->recorded)
        emulated_wrong("cudaStreamEndCapture of what is not recorded");
    *graph = stream->recorded;
    stream->recorded = NULL;
    if (emulated_now.broken_graphs) {
        graph_free(*graph);
        *graph = NULL;
        return emulated_leave(cudaErrorStreamCaptureInvalidated);
    }
    return emulated_leave(emulated_failure);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    emulated_enter();
    graph_free(graph);
    return emulated_leave(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ready,
                                 cudaGraph_t graph,
                                 unsigned long long flags)
{
    cudaError_t error = emulated_enter_device();
    if (error != cudaSuccess || flags != 0)
        return emulated_leave(error ? error : cudaErrorInvalidValue);
    struct CUgraphExec_st *made = calloc(1, sizeof *made);
    if (!made)
        emulated_wrong("no memory for a graph");
    made->graph = graph_new();
    made->graph->cost = graph->cost;
    for (const struct operation *o = graph->first; o; o = o->next)
        memcpy(append(&made->graph->last, o)->argument, o->argument,
               o->argument_bytes);
    *ready = made;
    return emulated_leave(cudaSuccess);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t ready, cudaStream_t stream)
{
    cudaError_t error = emulated_enter_device();
    must_not_be_recorded(known(stream), "cudaGraphUpload");
    (void)ready;
    return emulated_leave(error);
}

/* Must not be running or queued: CUDA keeps it that long. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready)
{
    emulated_enter();
    graph_free(ready->graph);
    free(ready);
    return emulated_leave(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream)
{
    cudaError_t error = emulated_enter_device();
    stream = known(stream);
    must_not_be_recorded(stream, "cudaGraphLaunch");
    if (error != cudaSuccess)
        return emulated_leave(error);
    for (const struct operation *o = ready->graph->first; o; o = o->next)
        memcpy(push(stream, o)->argument, o->argument, o->argument_bytes);
    stream->cost += ready->graph->cost;
    emulated_count.graphs++;
    may_go_on();
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
    must_not_be_recorded(event->stream, "cudaEventRecord");
    push(event->stream, &(const struct operation){.run = NULL});
    event->place = event->stream->queued;
    event->cost = event->stream->cost;
    return emulated_leave(cudaSuccess);
}

/* Two events of one stream: the sum of costs between them. */
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

/* An event that was never recorded is complete. */
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
