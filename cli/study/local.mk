gradweir_SOURCES += \
	%D%/cmd_study.c \
	%D%/study.c \
	%D%/study.h \
	%D%/study_draw.c \
	%D%/study_file.c \
	%D%/study_grid.h \
	%D%/study_job.c \
	%D%/study_job.h \
	%D%/study_plot.c \
	%D%/study_plot.h \
	%D%/study_report.c \
	%D%/study_report.h \
	%D%/study_result.c \
	%D%/study_result.h \
	%D%/study_run.c \
	%D%/study_run.h \
	%D%/study_sheet.h \
	%D%/study_table.c \
	%D%/study_timeline.c \
	%D%/study_write.c \
	%D%/study_write.h
EXTRA_DIST += %D%/README.md
