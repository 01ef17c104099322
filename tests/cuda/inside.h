/*
 * What the parts of the emulated CUDA know of each other. One process has one
 * emulated device; one thread at a time is inside (emulated_enter).
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
/* The failure that has happened: nothing works any more. */
extern cudaError_t emulated_failure;

void emulated_enter(void);
/* Returns the error, and keeps it for cudaGetLastError. */
cudaError_t emulated_leave(cudaError_t error);
/* The same for a call that a failed device refuses: 0 when it may go on. */
cudaError_t emulated_enter_device(void);
/* Of this thread, as cudaSetDevice has set it. */
int emulated_device(void);
/* Whether two devices reach each other's memory. */
int emulated_reaches(int one, int other);
/* A number below n. */
uint32_t emulated_draw(uint32_t n);
/* What CUDA would leave undefined, or a test must not do: one line, abort. */
_Noreturn void emulated_wrong(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* ---- ipc.c ---- */

/* Once: it is told where this device's memory is. */
void emulated_load_driver(void);

/* ---- memory.c ---- */

enum emulated_kind {
    EMULATED_PAGEABLE,
    EMULATED_DEVICE,
    EMULATED_SEEN,      /* of the device of another process; is only read */
    EMULATED_PINNED,    /* cudaHostAlloc */
    EMULATED_REGISTERED /* cudaHostRegister */
};

/* Where [memory, memory + bytes) lies; complains if it lies there in part.
   `who` is the operation, for that line. */
enum emulated_kind
emulated_find(const char *who, const void *memory, size_t bytes);

struct emulated_allocation {
    struct emulated_allocation *next;
    enum emulated_kind kind;
    int device; /* that has it; of the host's, nothing */
    char *memory;
    size_t bytes;
    char *pages; /* without the guards; NULL if registered */
    size_t page_bytes;
    int file; /* that has the pages, for other processes; -1: none. Of what is
                 seen it is the other's, which is locked while it is open */
    cudaIpcMemHandle_t handle; /* by which it was seen, */
    unsigned opened;           /* and how often */
};
/* The one that begins there; NULL: none of that kind. */
struct emulated_allocation *emulated_allocation_at(enum emulated_kind kind,
                                                   const char *memory);
/* One that was seen by the handle; NULL: none. */
struct emulated_allocation *
emulated_allocation_of(const cudaIpcMemHandle_t *handle);
/* The device's, whose pages have such a range; NULL: none. */
struct emulated_allocation *emulated_allocation_with(uintptr_t at,
                                                     size_t bytes);
/* Its pages are in the file from now on, which it closes. */
void emulated_move_to_file(struct emulated_allocation *a, int file);
/* What another process has in a file. */
struct emulated_allocation *emulated_map_file(const cudaIpcMemHandle_t *handle,
                                              size_t bytes,
                                              int file,
                                              int device);
void emulated_release(struct emulated_allocation *a);

/* Nobody but an operation that runs may touch the device's memory. */
void emulated_open_memory(void);
void emulated_close_memory(void);
/* Complains about bytes beside allocations that have changed; while open. */
void emulated_check_memory(const char *who);

/* ---- stream.c ---- */

/* Copies the argument; `what` lives for ever. */
cudaError_t emulated_queue(cudaStream_t stream,
                           const char *what,
                           void (*run)(const void *argument),
                           const void *argument,
                           size_t bytes);
/* What is queued next costs so much, to those who measure it. */
void emulated_spend(cudaStream_t stream, uint64_t cost);
/* What the real one refuses to whoever records. */
void emulated_must_not_record(const char *who);
/* Waits: for all that is queued in it, or everywhere. */
void emulated_drain(cudaStream_t stream);
void emulated_drain_all(void);
/* What is queued is never done. */
void emulated_forget(void);

/* ---- fiber.c: what runs on a stack of its own ---- */

struct emulated_fiber;
/* Calls `main` again and again; each time it is resumed after `main` ended. */
struct emulated_fiber *emulated_fiber_new(void (*main)(void));
void emulated_fiber_resume(struct emulated_fiber *fiber);
/* From inside: back to who resumed it. */
void emulated_fiber_yield(struct emulated_fiber *fiber);

/* ---- block.c ---- */

/* "gw_relu, block (0, 0, 0), thread 5" while a kernel runs, else "". */
void emulated_where(char *text, size_t bytes);

#endif
