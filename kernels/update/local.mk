libkernels_a_SOURCES += \
	%D%/bf16.c \
	%D%/bf16.h \
	%D%/blend.c \
	%D%/blend.h \
	%D%/blend_isa.c \
	%D%/blend_isa.h \
	%D%/finite.h \
	%D%/isa.h \
	%D%/reduce.c \
	%D%/reduce.h \
	%D%/slots.h \
	%D%/update.c \
	%D%/update.h \
	%D%/update_isa.c \
	%D%/update_isa.h
EXTRA_DIST += %D%/README.md
