gradweir_SOURCES += \
	%D%/cmd_plan.c \
	%D%/estimate.c \
	%D%/estimate.h \
	%D%/forecast.c \
	%D%/forecast.h \
	%D%/gauge.c \
	%D%/gauge_device.c \
	%D%/gauge.h \
	%D%/gauge_machine.c \
	%D%/plan.c \
	%D%/plan.h \
	%D%/plan_device.c \
	%D%/plan_print.c \
	%D%/plan_state.h \
	%D%/plan_write.c
EXTRA_DIST += %D%/README.md
