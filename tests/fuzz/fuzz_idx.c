/* IDX images and labels, gzipped or not. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include "worker/data/dataset_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_dataset(&gw_data_idx, 2, data, n);
    return 0;
}
