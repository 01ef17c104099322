libkernels_a_SOURCES += \
	%D%/cuda_sizes.c \
	%D%/cuda_sizes.h
EXTRA_DIST += %D%/README.md

# The module for GPUs: the program itself is not linked with any library of CUDA.
GW_CUDA_KERNELS = \
	%D%/cuda_conv.cu \
	%D%/cuda_dropout.cu \
	%D%/cuda_loss.cu \
	%D%/cuda_narrow.cu \
	%D%/cuda_parts.cu \
	%D%/cuda_pool.cu \
	%D%/cuda_relu.cu \
	%D%/cuda_sum.cu
GW_CUDA_HOST = \
	%D%/cuda.h \
	%D%/cuda_block.c \
	%D%/cuda_conv.c \
	%D%/cuda_dense.c \
	%D%/cuda_device.c \
	%D%/cuda_error.c \
	%D%/cuda_gemm.c \
	%D%/cuda_graph.c \
	%D%/cuda_half.cuh \
	%D%/cuda_index.cuh \
	%D%/cuda_launch.cuh \
	%D%/cuda_module.c \
	%D%/cuda_probe.c \
	%D%/cuda_queue.c \
	%D%/cuda_report.c \
	%D%/cuda_share.c \
	%D%/cuda_sizes.c \
	%D%/cuda_sizes.h \
	%D%/cuda_try.c \
	%D%/cuda_tune.c \
	kernels/kernels.h \
	kernels/module.h \
	kernels/operations.h \
	kernels/size.h \
	proto/philox.h \
	proto/random.h \
	proto/status.c \
	proto/status.h
if HAVE_CUDA
SUFFIXES = .cu
.cu.o:
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(NVCC) $(DEFS) $(DEFAULT_INCLUDES) \
	  $(GW_NVCCFLAGS) $(NVCCFLAGS) -MD -MP -MT $@ -MF $@.d -c -o $@ $<
-include %D%/cuda_conv.o.d
-include %D%/cuda_dropout.o.d
-include %D%/cuda_loss.o.d
-include %D%/cuda_narrow.o.d
-include %D%/cuda_parts.o.d
-include %D%/cuda_pool.o.d
-include %D%/cuda_relu.o.d
-include %D%/cuda_sum.o.d
CLEANFILES += $(GW_CUDA_KERNELS:.cu=.o.d)
endif
