noinst_LIBRARIES += libkernels.a
libkernels_a_SOURCES = \
	%D%/backend.c \
	%D%/bf16.c \
	%D%/bf16.h \
	%D%/blend.c \
	%D%/blend.h \
	%D%/blend_isa.c \
	%D%/blend_isa.h \
	%D%/cpu.h \
	%D%/cpu_blas.c \
	%D%/cpu_blas.h \
	%D%/cpu_conv.c \
	%D%/cpu_dense.c \
	%D%/cpu_dense_sums.c \
	%D%/cpu_device.c \
	%D%/cpu_dropout.c \
	%D%/cpu_four.h \
	%D%/cpu_loss.c \
	%D%/cpu_parts.c \
	%D%/cpu_pool.c \
	%D%/cpu_relu.c \
	%D%/cpu_sums.c \
	%D%/cpu_sums.h \
	%D%/cpu_sums_isa.h \
	%D%/cuda_sizes.c \
	%D%/cuda_sizes.h \
	%D%/driver.c \
	%D%/driver.h \
	%D%/finite.h \
	%D%/isa.h \
	%D%/islands.c \
	%D%/islands.h \
	%D%/kernels.h \
	%D%/measure.c \
	%D%/measure.h \
	%D%/module.c \
	%D%/module.h \
	%D%/none.c \
	%D%/reduce.c \
	%D%/reduce.h \
	%D%/update.c \
	%D%/update.h \
	%D%/update_isa.c \
	%D%/update_isa.h
if HAVE_OPENBLAS
libkernels_a_SOURCES += %D%/cpu_openblas.c
else
libkernels_a_SOURCES += %D%/cpu_anyblas.c
endif
%D%/module.$(OBJEXT): AM_CPPFLAGS += -DGW_MODULE_DIR='"$(pkglibdir)"'
EXTRA_DIST += %D%/configure.m4 %D%/README.md

# The module for GPUs, which the program loads: no library of CUDA's is its own.
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
	%D%/cuda_gemm.c \
	%D%/cuda_graph.c \
	%D%/cuda_half.cuh \
	%D%/cuda_index.cuh \
	%D%/cuda_launch.cuh \
	%D%/cuda_module.c \
	%D%/cuda_queue.c \
	%D%/cuda_report.c \
	%D%/cuda_share.c \
	%D%/cuda_sizes.c \
	%D%/cuda_sizes.h \
	%D%/cuda_try.c \
	%D%/cuda_tune.c \
	%D%/kernels.h \
	%D%/module.h \
	proto/philox.h \
	proto/random.h \
	proto/status.c \
	proto/status.h
if HAVE_CUDA
cudamoduledir = $(pkglibdir)
cudamodule_PROGRAMS = %D%/gradweir-cuda.so
%C%_gradweir_cuda_so_SOURCES = $(GW_CUDA_HOST) $(GW_CUDA_KERNELS)
%C%_gradweir_cuda_so_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_gradweir_cuda_so_CFLAGS = $(AM_CFLAGS) -fPIC -fvisibility=hidden
%C%_gradweir_cuda_so_LDFLAGS = -shared -Wl,--exclude-libs,ALL $(CUDA_LDFLAGS)
%C%_gradweir_cuda_so_LDADD = $(CUDA_LIBS)

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
