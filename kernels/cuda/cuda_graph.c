/*
 * Operations of several launches. The host takes some microseconds for each,
 * which is as long as a small kernel runs; a CUDA graph of them takes it once.
 * What an operation is told alone decides what it queues, so the first call of
 * its kind is queued, for plans to be made and tried, and recorded behind that;
 * each that is told the same launches the record.
 */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

/* It pays from so many launches on. */
#define LEAST 3

struct gw_cuda_graph {
    struct gw_cuda_graph *next;
    struct gw_cuda_call call;
    uint64_t used;                /* the latest call */
    struct CUgraphExec_st *ready; /* NULL: it does not pay, or, */
    const char *why;              /* unless NULL, it cannot be made */
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
    cudaGraphUpload(ready, stream); /* what it takes, at once */
    return cudaSuccess;
}

/* Queues nothing: what the call would queue becomes a graph. What cannot be
   recorded says so in many ways, and none of them is the device's failure. */
static void record(struct gw_device *device, struct gw_cuda_graph *graph)
{
    cudaGraph_t recorded = NULL;
    /* other threads, which have devices of their own, go on meanwhile */
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

/* Where there are many, and it has not come for long. */
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
    gw_cuda_check(device, "cudaStreamSynchronize",
                  cudaStreamSynchronize(device->compute)); /* it may run */
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

/* The list begins with the latest. */
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
