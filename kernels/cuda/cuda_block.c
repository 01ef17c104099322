/* Short lists of memory blocks: find the block that contains an address. */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <stdlib.h>

int gw_cuda_add_block(struct gw_cuda_block **list,
                      const void *memory,
                      size_t bytes)
{
    struct gw_cuda_block *block = malloc(sizeof *block);
    if (!block)
        return 0;
    *block = (struct gw_cuda_block){*list, memory, bytes};
    *list = block;
    return 1;
}

void gw_cuda_drop_block(struct gw_cuda_block **list, const void *memory)
{
    struct gw_cuda_block **at = list, *block;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    block = *at;
    if (block)
        *at = block->next;
    free(block);
}

void gw_cuda_drop_blocks(struct gw_cuda_block **list)
{
    while (*list)
        gw_cuda_drop_block(list, (*list)->memory);
}

const struct gw_cuda_block *gw_cuda_find_block(const struct gw_cuda_block *list,
                                               const void *memory,
                                               size_t bytes)
{
    const char *at = memory;
    while (list &&
           (at < list->memory || at + bytes > list->memory + list->bytes))
        list = list->next;
    return list;
}
