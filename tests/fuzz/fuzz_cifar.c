/* One file of CIFAR-10 records. */
#include "config.h"

#include "tests/fuzz/fuzz.h"

#include "worker/data/dataset_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_dataset(&gw_data_cifar10, 1, data, n);
    return 0;
}
