#include <config.h>

#include "proto/trace.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define JSON_BYTES 512 /* of one event */
#define NAME_BYTES 96  /* of a name in it, escaped */

struct slot {
    _Atomic(const char *) name;
    _Atomic uint64_t begin_us, end_us, a, b;
};

struct gw_trace {
    size_t slots;           /* one more than can be read: it is being written */
    _Atomic uint64_t count; /* of spans that are whole, lost ones included */
    struct slot slot[];
};

enum gw_status
gw_trace_create(size_t spans, struct gw_trace **trace_p, struct gw_error *error)
{
    if (spans == 0)
        return gw_fail(error, GW_EINVAL, "a trace needs room for a span");
    size_t most = (SIZE_MAX - sizeof(struct gw_trace)) / sizeof(struct slot);
    struct gw_trace *trace = NULL;
    if (spans < most)
        trace = calloc(1, sizeof *trace + (spans + 1) * sizeof *trace->slot);
    if (!trace)
        return gw_fail(error, GW_ENOMEM, "no memory for a trace of %zu spans",
                       spans);
    trace->slots = spans + 1;
    *trace_p = trace;
    return GW_OK;
}

void gw_trace_destroy(struct gw_trace *trace)
{
    free(trace);
}

/*
 * Readers see a span as whole by the count alone: slot i may be overwritten as
 * soon as the count is i + slots. Every store below releases the count that
 * was stored before it, so a reader that meets a new value in a slot also finds
 * the count that says so.
 */
void gw_trace_add(struct gw_trace *trace, const struct gw_span *span)
{
    if (!trace)
        return;
    uint64_t count = atomic_load_explicit(&trace->count, memory_order_relaxed);
    struct slot *slot = &trace->slot[count % trace->slots];
    atomic_store_explicit(&slot->name, span->name, memory_order_release);
    atomic_store_explicit(&slot->begin_us, span->begin_us,
                          memory_order_release);
    atomic_store_explicit(&slot->end_us, span->end_us, memory_order_release);
    atomic_store_explicit(&slot->a, span->a, memory_order_release);
    atomic_store_explicit(&slot->b, span->b, memory_order_release);
    atomic_store_explicit(&trace->count, count + 1, memory_order_release);
}

uint64_t gw_trace_count(const struct gw_trace *trace)
{
    return atomic_load_explicit(&trace->count, memory_order_acquire);
}

/* Span number `index`; 0 if it was overwritten before or meanwhile. */
static int
read_slot(const struct gw_trace *trace, uint64_t index, struct gw_span *span)
{
    const struct slot *slot = &trace->slot[index % trace->slots];
    span->name = atomic_load_explicit(&slot->name, memory_order_acquire);
    span->begin_us =
        atomic_load_explicit(&slot->begin_us, memory_order_acquire);
    span->end_us = atomic_load_explicit(&slot->end_us, memory_order_acquire);
    span->a = atomic_load_explicit(&slot->a, memory_order_acquire);
    span->b = atomic_load_explicit(&slot->b, memory_order_acquire);
    return gw_trace_count(trace) < index + trace->slots;
}

/* The first of the latest `n` spans that are there; *end_p: behind the last. */
static uint64_t
first_of(const struct gw_trace *trace, uint64_t n, uint64_t *end_p)
{
    uint64_t end = gw_trace_count(trace);
    *end_p = end;
    if (n > trace->slots - 1)
        n = trace->slots - 1;
    return end > n ? end - n : 0;
}

size_t
gw_trace_read(const struct gw_trace *trace, struct gw_span *spans, size_t n)
{
    uint64_t end;
    size_t got = 0;
    for (uint64_t i = first_of(trace, n, &end); i < end; i++)
        got += (size_t)read_slot(trace, i, &spans[got]);
    return got;
}

/* The part of the file that is being written. */
struct out {
    enum gw_status (*sink)(void *context, const char *text, size_t bytes);
    void *context;
    enum gw_status status; /* of the sink; nothing more is written after one */
    int events;            /* how many so far: commas go between them */
};

static void __attribute__((format(printf, 2, 3)))
put(struct out *out, const char *format, ...)
{
    char text[JSON_BYTES];
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert(bytes >= 0 && (size_t)bytes < sizeof text);
    if (!out->status)
        out->status = out->sink(out->context, text, (size_t)bytes);
}

/* Names as JSON wants them, cut to fit. */
static const char *escape(const char *name, char text[NAME_BYTES])
{
    size_t used = 0;
    for (; *name && used + 7 < NAME_BYTES; name++) {
        unsigned char c = (unsigned char)*name;
        if (c == '"' || c == '\\')
            text[used++] = '\\';
        if (c < ' ')
            used +=
                (size_t)snprintf(text + used, NAME_BYTES - used, "\\u%04x", c);
        else
            text[used++] = (char)c;
    }
    text[used] = '\0';
    return text;
}

static void put_track_name(struct out *out,
                           const struct gw_trace_track *track,
                           const char *kind,
                           const char *name)
{
    char escaped[NAME_BYTES];
    put(out,
        "%s{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32
        ",\"args\":{\"name\":\"%s\"}}",
        out->events++ ? ",\n" : "", kind, track->process_id, track->thread_id,
        escape(name, escaped));
}

static void put_span(struct out *out,
                     const struct gw_trace_track *track,
                     const struct gw_span *span)
{
    char escaped[NAME_BYTES];
    uint64_t took =
        span->end_us > span->begin_us ? span->end_us - span->begin_us : 0;
    put(out,
        "%s{\"name\":\"%s\",\"ph\":\"X\",\"ts\":%" PRIu64 ",\"dur\":%" PRIu64
        ",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"args\":{\"a\":%" PRIu64
        ",\"b\":%" PRIu64 "}}",
        out->events++ ? ",\n" : "", escape(span->name, escaped), span->begin_us,
        took, track->process_id, track->thread_id, span->a, span->b);
}

enum gw_status gw_trace_write(const struct gw_trace_track *tracks,
                              size_t n,
                              enum gw_status (*sink)(void *context,
                                                     const char *text,
                                                     size_t bytes),
                              void *context)
{
    struct out out = {.sink = sink, .context = context};
    put(&out, "[\n");
    for (size_t t = 0; t < n && !out.status; t++) {
        const struct gw_trace *trace = tracks[t].trace;
        put_track_name(&out, &tracks[t], "process_name", tracks[t].process);
        put_track_name(&out, &tracks[t], "thread_name", tracks[t].thread);
        uint64_t end;
        for (uint64_t i = first_of(trace, UINT64_MAX, &end);
             i < end && !out.status; i++) {
            struct gw_span span;
            if (read_slot(trace, i, &span))
                put_span(&out, &tracks[t], &span);
        }
    }
    put(&out, "\n]\n");
    return out.status;
}
