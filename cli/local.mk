bin_PROGRAMS += gradweir
gradweir_SOURCES = \
	%D%/amount.c \
	%D%/amount.h \
	%D%/available.c \
	%D%/available.h \
	%D%/check.c \
	%D%/check.h \
	%D%/child.c \
	%D%/child.h \
	%D%/child_run.c \
	%D%/child_run.h \
	%D%/cli.c \
	%D%/cli.h \
	%D%/cmd_config.c \
	%D%/cmd_coordinator.c \
	%D%/cmd_ctl.c \
	%D%/cmd_eval.c \
	%D%/cmd_export.c \
	%D%/cmd_program.c \
	%D%/cmd_run.c \
	%D%/cmd_server.c \
	%D%/cmd_status.c \
	%D%/cmd_train.c \
	%D%/cmd_worker.c \
	%D%/dry_run.c \
	%D%/dry_run.h \
	%D%/inspect.c \
	%D%/inspect.h \
	%D%/jobs.c \
	%D%/jobs.h \
	%D%/join.c \
	%D%/join.h \
	%D%/json.c \
	%D%/json.h \
	%D%/launch.c \
	%D%/launch.h \
	%D%/launch_again.c %D%/launch_away.c \
	%D%/launch_child.c \
	%D%/launch_coordinator.c \
	%D%/launch_member.c \
	%D%/launch_program.c \
	%D%/launch_state.h \
	%D%/lines.c \
	%D%/lines.h \
	%D%/local.c \
	%D%/local.h \
	%D%/log_file.c \
	%D%/log_file.h \
	%D%/main.c \
	%D%/needs.c \
	%D%/needs.h \
	%D%/options.c \
	%D%/options.h \
	%D%/options_help.c \
	%D%/order.c \
	%D%/order.h \
	%D%/parent.c \
	%D%/parent.h \
	%D%/printer.c \
	%D%/printer.h \
	%D%/process.c \
	%D%/process.h \
	%D%/record.c \
	%D%/record.h \
	%D%/relay.c \
	%D%/relay.h \
	%D%/room.c \
	%D%/room.h \
	%D%/secret.c \
	%D%/secret.h \
	%D%/show.c \
	%D%/show.h \
	%D%/show_device.c \
	%D%/show_job.c \
	%D%/signals.c \
	%D%/signals.h \
	%D%/start.c \
	%D%/start.h \
	%D%/steady.c \
	%D%/steady.h \
	%D%/typed.c \
	%D%/typed.h \
	%D%/version.c \
	%D%/watch.c \
	%D%/watch.h
include %D%/bench/local.mk
include %D%/doctor/local.mk
include %D%/study/local.mk
include %D%/plan/local.mk
include %D%/lab/local.mk
include %D%/host/local.mk
gradweir_LDADD = $(LDADD) $(HWLOC_LIBS)
EXTRA_DIST += %D%/configure.m4 %D%/README.md

bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = %D%/gradweir.bash

# The manual's lists of options and keys are the program's own.
if RUNS_HERE
man_MANS = docs/gradweir.1
endif
CLEANFILES += docs/gradweir.1
EXTRA_DIST += docs/gradweir.1.in docs/man.awk
docs/gradweir.1: docs/gradweir.1.in docs/man.awk gradweir$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) docs && $(AWK) -v version='$(PACKAGE_VERSION)' \
	  -v keys='$(GW_EMULATOR) ./gradweir$(EXEEXT) config --keys' \
	  -v options='$(GW_EMULATOR) ./gradweir$(EXEEXT) help --options' -f $(srcdir)/docs/man.awk \
	  $(srcdir)/docs/gradweir.1.in >$@.tmp && mv $@.tmp $@
