gradweir_SOURCES += \
	%D%/calibrate.c \
	%D%/calibrate.h \
	%D%/calibrate_device.c \
	%D%/calibrate_machine.c \
	%D%/cmd_plan.c \
	%D%/estimate.c \
	%D%/estimate.h \
	%D%/forecast.c \
	%D%/forecast.h \
	%D%/plan.c \
	%D%/plan.h \
	%D%/plan_device.c \
	%D%/plan_job.c \
	%D%/plan_print.c \
	%D%/plan_state.h \
	%D%/plan_write.c
EXTRA_DIST += %D%/README.md
