libworker_a_SOURCES += \
	%D%/clip.c \
	%D%/clip.h \
	%D%/inner.c \
	%D%/inner.h \
	%D%/lender.c \
	%D%/lender.h \
	%D%/local.c \
	%D%/mirror.c \
	%D%/mirror.h \
	%D%/pace.c \
	%D%/pace.h
EXTRA_DIST += %D%/README.md
