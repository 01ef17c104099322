/*
 * What tests may ask of the emulated CUDA in a module or in themselves. What is
 * queued runs late: when something waits for it, in an order among streams that
 * only events restrict.
 */
#ifndef GW_TESTS_CUDA_EMULATION_H
#define GW_TESTS_CUDA_EMULATION_H

#include <stddef.h>
#include <stdint.h>

/* In which order the threads of a block run between two barriers, and the
   blocks of a grid. */
enum emulated_order {
    EMULATED_FORWARD,
    EMULATED_REVERSE,
    EMULATED_RANDOM,
};

/* When an operation runs. */
enum emulated_pace {
    EMULATED_LATE,      /* when what is waited for cannot do without it */
    EMULATED_EARLY,     /* at once, if its stream can */
    EMULATED_SOMETIMES, /* drawn */
};

struct emulated_settings {
    uint64_t seed;
    enum emulated_order order;
    enum emulated_pace pace;
    size_t memory_bytes; /* of the device */
    size_t others_bytes; /* of it, that others take after the workspace */
    uint64_t fail_at;    /* the operation that fails, counted from 1; 0: none */
    int fail_with;       /* as cudaError_t */
    int no_fused_epilogue; /* of products: GetHeuristic knows none */
    int no_masks;          /* of them it knows none that masks, at least */
    int keeps_nan;         /* ReLU of products, what is none */
    int notes_zero;        /* and as let through what is 0 */
    int no_pinning;        /* cudaHostRegister is not supported */
    int no_staging;        /* other memory is read when a copy runs */
    int no_ipc;            /* memory of other processes cannot be reached */
    char nvlink[64];       /* pairs of devices, "02,13", that it links, */
    char apart[64];        /* that do not reach each other; others: PCIe */
    int wrong_peers;       /* others' memory opens, but zeros are read there */
    unsigned peer_us;      /* that a copy from there takes more */
    int no_dma_buf;        /* nor by devices of the network */
    int no_graphs;         /* streams cannot be recorded, */
    int broken_graphs;     /* or what is becomes void */
    int orderly;           /* nothing may be freed that others have open */
    unsigned fastest;      /* of EMULATED_ALGORITHMS of a product */
};

/* In which cublasLt can compute a product; the first is not for short sums, the
   last ones have other bits. */
#define EMULATED_ALGORITHMS 4

/* Since the module was loaded; `live` ones are there now. */
struct emulated_counts {
    uint64_t operations; /* queued: kernels, copies, products */
    uint64_t allocations, host_allocations;
    uint64_t graphs;     /* launched */
    uint64_t waits;      /* calls that waited for the device */
    uint64_t heuristics; /* asked of cublasLt */
    uint64_t questions;  /* what some memory is */
    size_t live_allocations, live_host_allocations, live_pinned;
    size_t live_seen; /* allocations of other processes */
    size_t live_streams, live_events, live_handles;
    size_t live_bytes, most_bytes; /* of device memory */
};

struct emulated_cuda {
    /* What GW_FAKE_CUDA says: "seed=3 order=reverse pace=late memory=1000000
       fail_at=7 fail_with=700 fused=0 masks=0 nan=1 zero=1 pinning=0 staging=0
       ipc=0 peers=0 peer_us=20000 nvlink=02,13 apart=03 dmabuf=0 graphs=0
       orderly=1 fastest=2 others=1000", each may be missing; and devices=4,
       bus=193: how many and where, old=02: which of them are of compute
       capability 6.0, helper=1: a thread of its own, and most=FILE: where the
       largest live_bytes are told. */
    void (*defaults)(struct emulated_settings *settings);
    /* Forgets what is queued and a failure that has happened, and counts
       operations from 1 again. */
    void (*set)(const struct emulated_settings *settings);
    void (*counts)(struct emulated_counts *counts);
};

/* A module exports one under this name. */
#define EMULATED_SYMBOL "emulated_cuda"
extern const struct emulated_cuda emulated_cuda;

#endif
