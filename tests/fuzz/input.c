#include "config.h"

#include "tests/fuzz/input.h"

uint64_t take(struct input *input, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && input->left > 0; i++, input->left--)
        value |= (uint64_t)*input->at++ << (8 * i);
    return value;
}

uint64_t about(struct input *input, uint64_t near)
{
    uint64_t how = take(input, 1);
    if (how < 160)
        return near;
    return how < 224 ? near + how - 192 : take(input, 8);
}
