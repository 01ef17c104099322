/*
 * Shared by the tests of compute backends: each case runs on every backend of
 * this build that works here, on a device of its own.
 */
#ifndef GW_TESTS_BACKEND_H
#define GW_TESTS_BACKEND_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/kernels.h"
#include "tests/table/reference.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Backend and device of the running case. */
extern const struct gw_backend_ops *ops;
extern struct gw_device *device;
extern enum gw_precision precision;

/*
 * Runs the cases on every backend, as "cpu NAME", and in each precision that it
 * has; an unavailable backend gets a line with the reason. Returns main's
 * result. $GW_CASES is a pattern that selects cases: "cuda *".
 */
int run_on_backends(const char *group,
                    const struct CMUnitTest *cases,
                    size_t n);

/* A number as the device rounds an operand. */
float rounded(float value);

/* Host memory, filled with normal numbers that depend on `array` and are exact
   in the device's precision. */
float *random_host(uint32_t array, size_t elems);

/* Waits for the device; fails the test if it has failed. */
void finish(void);

/* Copies of host memory on the device, and back (waits for the device). */
float *to_device(const float *host, size_t elems);
float *to_host(const float *memory, size_t elems);

float *random_device(uint32_t array, size_t elems);

/* Device memory full of NaN: results that use it, or elements that are not
   written, show it. */
float *poisoned(size_t elems);

/* memory[i] = expected[i] + beta base[i]; frees nothing. */
void assert_near(const float *memory,
                 const struct value *expected,
                 float beta,
                 const float *base,
                 size_t elems);

#endif
