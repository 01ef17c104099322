noinst_LIBRARIES += libkernels.a
libkernels_a_SOURCES = \
	%D%/backend.c \
	%D%/blend.c \
	%D%/blend.h \
	%D%/blend_isa.c \
	%D%/blend_isa.h \
	%D%/cpu.h \
	%D%/cpu_blas.h \
	%D%/cpu_conv.c \
	%D%/cpu_conv_isa.c \
	%D%/cpu_conv_isa.h \
	%D%/cpu_conv_product.h \
	%D%/cpu_dense.c \
	%D%/cpu_device.c \
	%D%/cpu_dropout.c \
	%D%/cpu_four.h \
	%D%/cpu_loss.c \
	%D%/cpu_pool.c \
	%D%/cpu_relu.c \
	%D%/finite.h \
	%D%/isa.h \
	%D%/kernels.h \
	%D%/measure.c \
	%D%/measure.h \
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
EXTRA_DIST += %D%/configure.m4
