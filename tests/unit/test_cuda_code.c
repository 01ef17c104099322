/*
 * The code in the module for GPUs, read from the file as nvcc writes it: code
 * for each GPU that configure was told, and PTX of the last one for newer GPUs.
 * Layout of each of its parts, one per .cu file:
 *
 *   magic 4, version 2, bytes of this 2, bytes that follow 8, then entries:
 *   kind 2 (1: PTX, 2: code), version 2, bytes of this 4, bytes that follow 8,
 *   12 others, capability 4, others
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MAGIC      UINT32_C(0xba55ed50)
#define HEAD_BYTES 16
#define ARCH_AT    28
#define PTX        1
#define CODE       2

static char file_name[4096];
static uint8_t *file;
static size_t file_bytes;

static uint64_t number_at(size_t at, size_t bytes)
{
    uint64_t number = 0;
    if (at + bytes > file_bytes)
        fail_msg("%s ends in the middle of a part", file_name);
    memcpy(&number, file + at, bytes);
    return number;
}

/* 1 if the part at [at, end) has an entry of that kind for that GPU. */
static int has(size_t at, size_t end, unsigned kind, unsigned arch)
{
    while (at < end) {
        if (number_at(at, 2) == kind && number_at(at + ARCH_AT, 4) == arch)
            return 1;
        uint64_t bytes = number_at(at + 4, 4) + number_at(at + 8, 8);
        assert_true(bytes > ARCH_AT);
        at += bytes;
    }
    return 0;
}

static void check_part(size_t at, size_t end)
{
    char archs[] = GW_CUDA_ARCHS, *rest = NULL;
    unsigned arch = 0;
    for (char *word = strtok_r(archs, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        arch = (unsigned)atoi(word);
        if (!has(at, end, CODE, arch))
            fail_msg("a part of %s has no code for sm_%u", file_name, arch);
    }
    if (!has(at, end, PTX, arch))
        fail_msg("a part of %s has no PTX of compute_%u", file_name, arch);
}

static void every_gpu_has_its_code(void **state)
{
    unsigned parts = 0;
    (void)state;
    for (size_t at = 0; at + HEAD_BYTES <= file_bytes; at += 8) {
        if (number_at(at, 4) != MAGIC || number_at(at + 6, 2) != HEAD_BYTES)
            continue;
        size_t first = at + HEAD_BYTES;
        check_part(first, first + number_at(at + 8, 8));
        parts++;
    }
    print_message("# %u parts, each for %s\n", parts, GW_CUDA_ARCHS);
    assert_true(parts > 0);
}

static int read_file(void)
{
    const char *dir = getenv("GW_BUILDDIR");
    snprintf(file_name, sizeof file_name, "%s/kernels/gradweir-cuda.so",
             dir ? dir : ".");
    FILE *from = fopen(file_name, "rb");
    if (!from)
        return 0;
    fseek(from, 0, SEEK_END);
    file_bytes = (size_t)ftell(from);
    rewind(from);
    file = malloc(file_bytes);
    int got = file && fread(file, 1, file_bytes, from) == file_bytes;
    fclose(from);
    return got;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gpu_has_its_code),
    };
    if (!read_file()) {
        printf("1..0 # SKIP %s is not here: configure says why\n", file_name);
        return 0;
    }
    return cmocka_run_group_tests_name("code for GPUs", tests, NULL, NULL);
}
