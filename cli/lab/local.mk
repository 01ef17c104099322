gradweir_SOURCES += \
	%D%/network.c \
	%D%/network.h \
	%D%/placement.c \
	%D%/placement.h \
	%D%/program.c \
	%D%/program.h \
	%D%/simulate.c \
	%D%/simulate.h \
	%D%/straggle.c \
	%D%/straggle.h \
	%D%/world.c \
	%D%/world.h
EXTRA_DIST += %D%/README.md
