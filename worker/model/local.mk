libworker_a_SOURCES += \
	%D%/model.c \
	%D%/model.h \
	%D%/model_layers.c \
	%D%/model_layers.h \
	%D%/model_pass.c
EXTRA_DIST += %D%/README.md
