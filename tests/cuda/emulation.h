/*
 * Interface of the emulated CUDA to tests, in a module or linked in. Queued
 * operations run late: when something waits for them. Only events restrict the
 * order between streams.
 */
#ifndef GW_TESTS_CUDA_EMULATION_H
#define GW_TESTS_CUDA_EMULATION_H

#include <stddef.h>
#include <stdint.h>

/* Order of a block's threads between two barriers, and of a grid's blocks. */
enum emulated_order {
    EMULATED_FORWARD,
    EMULATED_REVERSE,
    EMULATED_RANDOM,
};

/* Time at which an operation runs. */
enum emulated_pace {
    EMULATED_LATE,      /* when a wait needs it */
    EMULATED_EARLY,     /* at once, if its stream can run */
    EMULATED_SOMETIMES, /* random */
};

struct emulated_settings {
    uint64_t seed;
    enum emulated_order order;
    enum emulated_pace pace;
    size_t memory_bytes;   /* memory of the device */
    size_t others_bytes;   /* that others take after the workspace */
    uint64_t fail_at;      /* the operation that fails, from 1; 0: none */
    int fail_with;         /* with this cudaError_t */
    int no_fused_epilogue; /* GetHeuristic finds no product with an epilogue */
    int no_masks;          /* or at least none with a mask */
    int keeps_nan;         /* ReLU of products keeps NaN */
    int notes_zero;        /* and sets the mask's bit for 0 */
    int no_pinning;        /* cudaHostRegister is not supported */
    int no_staging;        /* pageable memory is read when a copy runs */
    int no_ipc;            /* memory cannot be imported */
    char nvlink[64];       /* pairs of devices with NVLink, "02,13", */
    char apart[64];        /* pairs without any path; others: PCIe */
    int wrong_peers;       /* imported memory opens, but reads as zeros */
    unsigned peer_us;      /* additional time of a copy from there */
    int no_dma_buf;        /* network devices cannot map memory */
    int no_graphs;         /* streams cannot be captured, */
    int broken_graphs;     /* or captured graphs become invalid */
    int orderly;           /* freeing memory that is imported elsewhere is an
                              error */
    unsigned fastest;      /* index of the fastest algorithm */
};

/* Algorithms of a product; the first does not support short sums, the last ones
   give other bits. */
#define EMULATED_ALGORITHMS 4

/* Totals since the module was loaded; `live` ones are current. */
struct emulated_counts {
    uint64_t operations; /* run: kernels, copies, products */
    uint64_t allocations, host_allocations;
    uint64_t graphs;     /* launched */
    uint64_t waits;      /* calls that waited for the device */
    uint64_t heuristics; /* calls of GetHeuristic */
    uint64_t questions;  /* calls of cudaPointerGetAttributes */
    size_t live_allocations, live_host_allocations, live_pinned;
    size_t live_seen; /* imported allocations */
    size_t live_streams, live_events, live_handles;
    size_t live_bytes, most_bytes; /* device memory */
};

struct emulated_cuda {
    /* Settings from GW_FAKE_CUDA: "seed=3 order=reverse pace=late
       memory=1000000 fail_at=7 fail_with=700 fused=0 masks=0 nan=1 zero=1
       pinning=0 staging=0 ipc=0 peers=0 peer_us=20000 nvlink=02,13 apart=03
       dmabuf=0 graphs=0 orderly=1 fastest=2 others=1000", all optional; also
       devices=4, bus=193: number and first PCI bus; old=02: devices of compute
       capability 6.0; helper=1: CUDA starts a thread of its own; most=FILE:
       file for the largest live_bytes. */
    void (*defaults)(struct emulated_settings *settings);
    /* Drops queued operations and a failure, and counts operations from 1
       again. */
    void (*set)(const struct emulated_settings *settings);
    void (*counts)(struct emulated_counts *counts);
};

/* Name of the struct that a module exports. */
#define EMULATED_SYMBOL "emulated_cuda"
extern const struct emulated_cuda emulated_cuda;

#endif
