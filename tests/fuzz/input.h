/* An input that is a program, for fuzz targets: operands out of its bytes. */
#ifndef GW_TESTS_FUZZ_INPUT_H
#define GW_TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct input {
    const uint8_t *at;
    size_t left;
};

/* So many bytes, little-endian; zeros behind the end. */
uint64_t take(struct input *input, size_t bytes);

/* A number that is near `near`, or anything. */
uint64_t about(struct input *input, uint64_t near);

#endif
