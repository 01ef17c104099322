gradweir_SOURCES += \
	%D%/bench.h \
	%D%/bench_bare.c \
	%D%/bench_contest.c \
	%D%/bench_process.c \
	%D%/bench_rows.c \
	%D%/bench_sum.c \
	%D%/bench_sum.h \
	%D%/bench_summer.c \
	%D%/bench_training.c \
	%D%/bench_transport.c \
	%D%/bench_update.c \
	%D%/bench_values.c \
	%D%/cmd_bench.c
EXTRA_DIST += %D%/README.md
