/*
 * What tests of memory that processes show each other share: two owners are
 * processes of their own, on GPUs 0 and 1 of the emulated CUDA, which do as
 * they are asked; this process sees what they have, on GPU 0.
 */
#ifndef GW_TESTS_OWNERS_H
#define GW_TESTS_OWNERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <cmocka.h>

#include "kernels/kernels.h"
#include "tests/table/emulated.h"

#define OWNERS 2
#define ARRAYS 3
#define ELEMS  ((size_t)1500)
#define SHIFT  ((size_t)6) /* elements, of a view that begins inside */

extern const struct gw_backend_ops *ops;

struct question {
    enum {
        MAKE,
        FILL, /* element i with value + i, and waits until it is so */
        SHOW, /* from an element on */
        FREE,
        END,
    } what;
    size_t array, from;
    float value;
};

struct answer {
    int ok;
    uint8_t words[GW_MEMORY_WORDS];
};

extern struct owner {
    pid_t pid; /* 0: it has ended */
    int socket;
} owners[OWNERS];

/* Before this process uses CUDA, and at the end. */
int start_owners(void **state);
int end_owners(void **state);

struct answer ask(struct owner *owner, struct question question);
/* An array with value + i in it. */
void make(struct owner *owner, size_t array, float value);
void drop(struct owner *owner, size_t array);
struct answer show(struct owner *owner, size_t array, size_t from);

/* Of this process. */
void set_way(const struct emulated_way *way, int no_ipc);
struct gw_device *open_device(void);
void close_device(struct gw_device *device);
int fill(struct gw_device *device, float *memory, float value);
size_t seen_now(void);
const float *see(struct gw_device *device, const struct answer *shown);
void cannot_see(struct gw_device *device,
                const uint8_t *words,
                const char *why);
/* sum = what `n` parts have, of `elems` from their beginnings. */
void assert_adds_up(struct gw_device *device,
                    const float *const *parts,
                    uint32_t n,
                    size_t elems,
                    float first,
                    float step);

#endif
