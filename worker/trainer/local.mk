libworker_a_SOURCES += \
	%D%/clip.c \
	%D%/clip.h \
	%D%/environment.c \
	%D%/environment.h \
	%D%/inner.c \
	%D%/inner.h \
	%D%/join.c \
	%D%/join.h \
	%D%/device_share.c \
	%D%/device_share.h \
	%D%/local.c \
	%D%/local.h \
	%D%/mirror.c \
	%D%/mirror.h \
	%D%/pace.c \
	%D%/pace.h \
	%D%/plan.c \
	%D%/plan.h \
	%D%/rank.c \
	%D%/rank.h \
	%D%/rank_declare.c \
	%D%/rank_pull.c \
	%D%/rank_save.c \
	%D%/rank_score.c \
	%D%/rank_state.h \
	%D%/rank_step.c \
	%D%/rank_terms.c \
	%D%/rank_phase.c \
	%D%/report.c \
	%D%/tensor.c \
	%D%/tensor.h \
	%D%/trial.c \
	%D%/trial.h
EXTRA_DIST += %D%/README.md
