#include "config.h"

#include "tests/sim/apart.h"

#include <string.h>

#include "kernels/cpu/cpu.h"

static struct gw_backend_ops ops;
static uint64_t takes;

/* All workers are in one process. */
static int show(struct gw_device *device,
                const void *memory,
                uint8_t words[GW_MEMORY_WORDS])
{
    (void)device;
    memcpy(words, &memory, sizeof memory);
    return 1;
}

static const void *see(struct gw_device *device,
                       const uint8_t words[GW_MEMORY_WORDS],
                       struct gw_error *error)
{
    const void *memory;
    (void)device, (void)error;
    memcpy(&memory, words, sizeof memory);
    return memory;
}

static void
take(struct gw_device *device, void *to, const void *seen, size_t bytes)
{
    (void)device;
    memcpy(to, seen, bytes);
    takes++;
}

const struct gw_backend_ops *apart_device(void)
{
    ops = gw_cpu_ops;
    ops.name = "apart";
    ops.on_host = 0;
    ops.export_memory = show;
    ops.import_memory = see;
    ops.copy_import = take;
    return &ops;
}

uint64_t apart_takes(void)
{
    return takes;
}
