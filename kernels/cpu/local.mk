libkernels_a_SOURCES += \
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
	%D%/cpu_sums_isa.h
if HAVE_OPENBLAS
libkernels_a_SOURCES += %D%/cpu_openblas.c
else
libkernels_a_SOURCES += %D%/cpu_anyblas.c
endif
EXTRA_DIST += %D%/README.md
