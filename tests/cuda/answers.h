/*
 * GW_FAKE_CUDA tells the emulated driver and runtime how to behave: words
 * "name=value" with spaces between them; a part passes over what is another's.
 */
#ifndef GW_TESTS_CUDA_ANSWERS_H
#define GW_TESTS_CUDA_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

/* What stands behind "name=", up to the next space, in text[64]; 0 if the
   variable does not say. */
int fake_word(const char *name, char *text);
/* The same as a number. */
long long fake_number(const char *name, long long otherwise);

/* The work of the driver's cuMemGetHandleForAddressRange, which the runtime of
   the same process puts there: a pointer to it, by this name. */
typedef int
fake_range(void *handle, uintptr_t at, size_t bytes, int type, uint64_t flags);
#define FAKE_RANGE_SYMBOL "fake_get_range"

#endif
