/*
 * CUDA graphs of operations with several launches. A launch costs the host some
 * microseconds, as much as a small kernel runs; a graph costs that once. The
 * arguments alone determine the launches of an operation, so the first call
 * with some arguments is queued, which makes and tries its plans, and is then
 * recorded; later calls with the same arguments launch the graph.
 */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

/* A graph pays from so many launches on. */
#define LEAST 3

struct gw_cuda_graph {
    struct gw_cuda_graph *next;
    struct gw_cuda_call call;
    uint64_t used;                /* number of the latest call */
    struct CUgraphExec_st *ready; /* NULL: too few launches, or */
    const char *why;              /* if not NULL, it cannot be made */
};

static struct gw_cuda_graph *graph_of(const struct gw_device *device,
                                      const struct gw_cuda_call *call)
{
    struct gw_cuda_graph *graph = device->graphs;
    while (graph && memcmp(&graph->call, call, sizeof *call) != 0)
        graph = graph->next;
    return graph;
}

static cudaError_t make_ready(struct gw_cuda_graph *graph,
                              cudaGraph_t recorded,
                              struct CUstream_st *stream)
{
    cudaGraphExec_t ready = NULL;
    cudaError_t result = cudaGraphInstantiate(&ready, recorded, 0);
    if (result != cudaSuccess)
        return result;
    graph->ready = ready;
    cudaGraphUpload(ready, stream); /* allocates now, not at the first launch */
    return cudaSuccess;
}

/* Records the launches of the call into a graph, and queues nothing. A call
   that cannot be recorded fails in many ways, none of which is a failure of the
   device. */
static void record(struct gw_device *device, struct gw_cuda_graph *graph)
{
    cudaGraph_t recorded = NULL;
    /* other threads have devices of their own and continue meanwhile */
    cudaError_t result = cudaStreamBeginCapture(
        device->compute, cudaStreamCaptureModeThreadLocal);
    if (result == cudaSuccess) {
        graph->call.queue(device, &graph->call);
        result = cudaStreamEndCapture(device->compute, &recorded);
    }
    if (result == cudaSuccess && !device->failed)
        result = make_ready(graph, recorded, device->compute);
    if (!graph->ready)
        graph->why = result != cudaSuccess
                         ? cudaGetErrorString(result)
                         : "it queues what cannot be recorded";
    if (recorded)
        cudaGraphDestroy(recorded);
    device->failed = 0;
    cudaGetLastError();
}

static void free_graph(struct gw_cuda_graph *graph)
{
    if (graph->ready)
        cudaGraphExecDestroy(graph->ready);
    free(graph);
}

/* Evicts the least recently used graph; see GW_CUDA_KEPT. */
static void drop_idle(struct gw_device *device)
{
    struct gw_cuda_graph **oldest = &device->graphs;
    if (device->graphs_n < GW_CUDA_KEPT)
        return;
    for (struct gw_cuda_graph **at = oldest; *at; at = &(*at)->next)
        if ((*at)->used < (*oldest)->used)
            oldest = at;
    struct gw_cuda_graph *graph = *oldest;
    if (device->graph_calls - graph->used <= GW_CUDA_IDLE)
        return;
    *oldest = graph->next;
    device->graphs_n--;
    gw_cuda_check(
        device, "cudaStreamSynchronize",
        cudaStreamSynchronize(device->compute)); /* it may be running */
    free_graph(graph);
}

static void add_graph(struct gw_device *device,
                      const struct gw_cuda_call *call,
                      uint64_t launches)
{
    struct gw_cuda_graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return;
    memcpy(&graph->call, call, sizeof *call);
    graph->used = device->graph_calls;
    drop_idle(device);
    if (launches >= LEAST)
        record(device, graph);
    graph->next = device->graphs;
    device->graphs = graph;
    device->graphs_n++;
}

void gw_cuda_run(struct gw_device *device, const struct gw_cuda_call *call)
{
    if (!gw_cuda_enter(device))
        return;
    struct gw_cuda_graph *graph = graph_of(device, call);
    device->graph_calls++;
    if (graph)
        graph->used = device->graph_calls;
    if (graph && graph->ready) {
        gw_cuda_check(device, call->op,
                      cudaGraphLaunch(graph->ready, device->compute));
        return;
    }
    uint64_t before = device->launches;
    call->queue(device, call);
    if (!graph && !device->failed && !device->tuning.on)
        add_graph(device, call, device->launches - before);
}

void gw_cuda_drop_graphs(struct gw_device *device)
{
    while (device->graphs) {
        struct gw_cuda_graph *graph = device->graphs;
        device->graphs = graph->next;
        free_graph(graph);
    }
}

/* The list begins with the latest graph. */
void gw_cuda_count_graphs(const struct gw_device *device,
                          struct gw_cuda_count *count)
{
    for (const struct gw_cuda_graph *g = device->graphs; g; g = g->next) {
        count->all += g->ready || g->why;
        count->taken += g->ready != NULL;
        if (g->why)
            count->why = g->why;
    }
}
