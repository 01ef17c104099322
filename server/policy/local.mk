libserver_a_SOURCES += \
	%D%/decision.c \
	%D%/decision.h \
	%D%/decision_count.c \
	%D%/decision_cut.c \
	%D%/decision_quiesce.c \
	%D%/decision_score.c \
	%D%/decision_split.c \
	%D%/decision_state.h \
	%D%/decision_step.c \
	%D%/decision_stream.c \
	%D%/decision_switch.c \
	%D%/delay.c \
	%D%/delay.h \
	%D%/policy.c \
	%D%/policy.h \
	%D%/regime.c \
	%D%/regime.h \
	%D%/splits.c \
	%D%/splits.h
EXTRA_DIST += %D%/README.md
