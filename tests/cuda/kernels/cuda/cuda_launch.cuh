/*
 * Replaces kernels/cuda/cuda_launch.cuh in the emulated module's include path:
 * a kernel is queued, with copies of its arguments, and its blocks run when
 * something waits for them.
 */
#ifndef GW_TESTS_CUDA_LAUNCH_CUH
#define GW_TESTS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

#include <tuple>
#include <type_traits>

#include "tests/cuda/launch.h"

template <typename... P> struct emulated_call {
    void (*kernel)(P...);
    std::tuple<P...> arguments;

    static void thread(const void *call)
    {
        auto self = static_cast<const emulated_call *>(call);
        std::apply(self->kernel, self->arguments);
    }
};

/* The pointers of an argument: itself, or an array `pointers` in it. */
template <typename T, typename = void> struct emulated_pointers {
    static constexpr unsigned count = 1;

    static void list(const T &value, const void **to)
    {
        if constexpr (std::is_pointer_v<T>)
            *to = value;
        else
            *to = nullptr;
    }
};

template <typename T>
struct emulated_pointers<T, std::void_t<decltype(T::pointers)>> {
    static constexpr unsigned count = std::extent_v<decltype(T::pointers)>;

    static void list(const T &value, const void **to)
    {
        for (unsigned i = 0; i < count; i++)
            to[i] = value.pointers[i];
    }
};

template <typename... P, typename... A>
static inline cudaError_t emulated_launch(const char *text,
                                          const char *file,
                                          int line,
                                          cudaStream_t stream,
                                          dim3 grid,
                                          dim3 block,
                                          void (*kernel)(P...),
                                          A... arguments)
{
    emulated_call<P...> call = {kernel, {static_cast<P>(arguments)...}};
    const void *pointers[(emulated_pointers<P>::count + ... + 1)];
    const void **end = pointers;
    ((emulated_pointers<P>::list(arguments, end),
      end += emulated_pointers<P>::count),
     ...);
    struct emulated_launch launch = {};
    launch.text = text, launch.file = file, launch.line = line;
    launch.grid[0] = grid.x, launch.grid[1] = grid.y, launch.grid[2] = grid.z;
    launch.block[0] = block.x, launch.block[1] = block.y;
    launch.block[2] = block.z;
    launch.thread = emulated_call<P...>::thread;
    launch.call = &call, launch.call_bytes = sizeof call;
    launch.pointers = pointers;
    launch.pointer_count = (unsigned)(end - pointers);
    static_assert((std::is_trivially_copyable_v<P> && ...), "kernel arguments");
    static_assert(sizeof(call) <= 4096, "kernel arguments");
    return emulated_queue_launch(&launch, stream);
}

#define gw_cuda_launch(...)                                                    \
    emulated_launch(#__VA_ARGS__, __FILE__, __LINE__, __VA_ARGS__)

#endif
