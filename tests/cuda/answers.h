/*
 * GW_FAKE_CUDA configures the emulated driver and runtime: "name=value" words,
 * separated by spaces; each part ignores the other's names.
 */
#ifndef GW_TESTS_CUDA_ANSWERS_H
#define GW_TESTS_CUDA_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

/* The value of "name=" in text[64]; 0 if the variable does not have it. */
int fake_word(const char *name, char *text);
/* The same as a number. */
long long fake_number(const char *name, long long otherwise);

/* Type and symbol name of a pointer in the driver: the runtime of the same
   process stores its cuMemGetHandleForAddressRange there. */
typedef int
fake_range(void *handle, uintptr_t at, size_t bytes, int type, uint64_t flags);
#define FAKE_RANGE_SYMBOL "fake_get_range"

#endif
