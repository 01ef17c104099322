/*
 * Interfaces between the parts of the emulated CUDA. A process has one emulated
 * device; one thread at a time is inside (emulated_enter).
 */
#ifndef GW_TESTS_CUDA_INSIDE_H
#define GW_TESTS_CUDA_INSIDE_H

#include <stddef.h>
#include <stdint.h>

#include <tests/cuda/include/cuda_runtime.h>

#include "tests/cuda/emulation.h"

/* ---- runtime.c ---- */

extern struct emulated_settings emulated_now;
extern struct emulated_counts emulated_count;
/* The failure of the device: all later calls return it. */
extern cudaError_t emulated_failure;

void emulated_enter(void);
/* Returns the error, and keeps it for cudaGetLastError. */
cudaError_t emulated_leave(cudaError_t error);
/* The same for a call that a failed device refuses: 0 if it may proceed. */
cudaError_t emulated_enter_device(void);
/* The device that this thread set by cudaSetDevice. */
int emulated_device(void);
/* 1 if two devices reach each other's memory. */
int emulated_reaches(int one, int other);
/* A random number below n. */
uint32_t emulated_draw(uint32_t n);
/* Prints a line and aborts: a use that CUDA leaves undefined, or that tests
   must not make. */
_Noreturn void emulated_wrong(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* ---- ipc.c ---- */

/* Connects the driver once: it has to know this device's memory. */
void emulated_load_driver(void);

/* ---- memory.c ---- */

enum emulated_kind {
    EMULATED_PAGEABLE,
    EMULATED_DEVICE,
    EMULATED_SEEN,      /* imported from another process, read-only */
    EMULATED_PINNED,    /* cudaHostAlloc */
    EMULATED_REGISTERED /* cudaHostRegister */
};

/* The kind of memory at [memory, memory + bytes); aborts if only a part is
   memory of ours. `who` names the operation in the message. */
enum emulated_kind
emulated_find(const char *who, const void *memory, size_t bytes);

struct emulated_allocation {
    struct emulated_allocation *next;
    enum emulated_kind kind;
    int device; /* its owner; unused for host memory */
    char *memory;
    size_t bytes;
    char *pages; /* without the guards; NULL if registered */
    size_t page_bytes;
    int file; /* backing file of exported memory, -1: none. For imported memory
                 it is the owner's, locked while it is open */
    cudaIpcMemHandle_t handle; /* handle of imported memory, */
    unsigned opened;           /* and number of imports */
};
/* The allocation of that kind that begins there, or NULL. */
struct emulated_allocation *emulated_allocation_at(enum emulated_kind kind,
                                                   const char *memory);
/* The allocation imported by that handle, or NULL. */
struct emulated_allocation *
emulated_allocation_of(const cudaIpcMemHandle_t *handle);
/* The device allocation whose pages contain the range, or NULL. */
struct emulated_allocation *emulated_allocation_with(uintptr_t at,
                                                     size_t bytes);
/* Moves its pages into the file, which it closes from now on. */
void emulated_move_to_file(struct emulated_allocation *a, int file);
/* Imports another process's memory from a file. */
struct emulated_allocation *emulated_map_file(const cudaIpcMemHandle_t *handle,
                                              size_t bytes,
                                              int file,
                                              int device);
void emulated_release(struct emulated_allocation *a);

/* Makes device memory accessible; only a running operation may access it. */
void emulated_open_memory(void);
void emulated_close_memory(void);
/* Aborts if bytes around an allocation have changed; needs open memory. */
void emulated_check_memory(const char *who);

/* ---- stream.c ---- */

/* Copies the argument; `what` must be a constant. */
cudaError_t emulated_queue(cudaStream_t stream,
                           const char *what,
                           void (*run)(const void *argument),
                           const void *argument,
                           size_t bytes);
/* Adds the cost of the next queued operation, for timing events. */
void emulated_spend(cudaStream_t stream, uint64_t cost);
/* Aborts if this thread captures a stream, which CUDA forbids here. */
void emulated_must_not_record(const char *who);
/* Waits for the operations of one stream, or of all. */
void emulated_drain(cudaStream_t stream);
void emulated_drain_all(void);
/* Drops all queued operations. */
void emulated_forget(void);

/* ---- fiber.c: runs code on a stack of its own ---- */

struct emulated_fiber;
/* Calls `main` again each time it is resumed after `main` ended. */
struct emulated_fiber *emulated_fiber_new(void (*main)(void));
void emulated_fiber_resume(struct emulated_fiber *fiber);
/* Switches from inside the fiber to its resumer. */
void emulated_fiber_yield(struct emulated_fiber *fiber);

/* ---- block.c ---- */

/* "gw_relu, block (0, 0, 0), thread 5" while a kernel runs, else "". */
void emulated_where(char *text, size_t bytes);

#endif
