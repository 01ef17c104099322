/*
 * Fuzz targets: one file fuzz_NAME.c each, which defines the function below.
 * libFuzzer drives it with --enable-fuzz, replay.c with any compiler; its seeds
 * are in corpus/NAME. A target aborts where a promise of the tested code is
 * broken, and never where an input is merely refused.
 */
#ifndef GW_TESTS_FUZZ_H
#define GW_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Aborts with the promise's text. */
#define FUZZ_PROMISE(promise) fuzz_promise((promise) != 0, #promise)
void fuzz_promise(int kept, const char *text);

/*
 * Opens a data set from one input and reads all of it. With two files, the
 * input begins with the length of the first in two bytes, little-endian.
 */
struct gw_data_reader;
void fuzz_dataset(const struct gw_data_reader *reader,
                  size_t files,
                  const uint8_t *data,
                  size_t n);

#endif
