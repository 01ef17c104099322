noinst_LIBRARIES += libkernels.a
libkernels_a_SOURCES = \
	%D%/backend.c \
	%D%/driver.c \
	%D%/driver.h \
	%D%/islands.c \
	%D%/islands.h \
	%D%/kernels.h \
	%D%/measure.c \
	%D%/measure.h \
	%D%/module.c \
	%D%/module.h \
	%D%/none.c \
	%D%/operations.h \
	%D%/size.h
include %D%/cpu/local.mk
include %D%/cuda/local.mk
include %D%/update/local.mk
%D%/module.$(OBJEXT): AM_CPPFLAGS += -DGW_MODULE_DIR='"$(pkglibdir)"'
EXTRA_DIST += %D%/configure.m4 %D%/README.md

# The program looks for the module beside itself, in kernels/.
if HAVE_CUDA
cudamoduledir = $(pkglibdir)
cudamodule_PROGRAMS = %D%/gradweir-cuda.so
%C%_gradweir_cuda_so_SOURCES = $(GW_CUDA_HOST) $(GW_CUDA_KERNELS)
%C%_gradweir_cuda_so_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
%C%_gradweir_cuda_so_LDFLAGS = $(GW_SHARED_LDFLAGS) -Wl,--exclude-libs,ALL \
	$(CUDA_LDFLAGS)
%C%_gradweir_cuda_so_LDADD = $(CUDA_LIBS)
endif
