bin_PROGRAMS += gradweir
gradweir_SOURCES = \
	%D%/amount.c \
	%D%/amount.h \
	%D%/ask.c \
	%D%/ask.h \
	%D%/aside.c \
	%D%/aside.h \
	%D%/available.c \
	%D%/available.h \
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
	%D%/check.c \
	%D%/check.h \
	%D%/child.c \
	%D%/child.h \
	%D%/cli.c \
	%D%/cli.h \
	%D%/cmd_bench.c \
	%D%/cmd_config.c \
	%D%/cmd_coordinator.c \
	%D%/cmd_ctl.c \
	%D%/cmd_doctor.c \
	%D%/cmd_eval.c \
	%D%/cmd_export.c \
	%D%/cmd_plan.c \
	%D%/cmd_server.c \
	%D%/cmd_status.c \
	%D%/cmd_study.c \
	%D%/cmd_train.c \
	%D%/cmd_worker.c \
	%D%/doctor.c \
	%D%/doctor.h \
	%D%/doctor_device.c \
	%D%/doctor_knock.c \
	%D%/doctor_limits.c \
	%D%/doctor_model.c \
	%D%/doctor_network.c \
	%D%/doctor_owner.c \
	%D%/doctor_peer.c \
	%D%/doctor_pin.c \
	%D%/doctor_serve.c \
	%D%/doctor_wire.c \
	%D%/doctor_wire.h \
	%D%/dry_run.c \
	%D%/dry_run.h \
	%D%/estimate.c \
	%D%/estimate.h \
	%D%/forecast.c \
	%D%/forecast.h \
	%D%/gauge.c \
	%D%/gauge_device.c \
	%D%/gauge.h \
	%D%/gauge_machine.c \
	%D%/host.c \
	%D%/host.h \
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
	%D%/leash.c \
	%D%/leash.h \
	%D%/local.c \
	%D%/local.h \
	%D%/log_file.c \
	%D%/log_file.h \
	%D%/main.c \
	%D%/needs.c \
	%D%/needs.h \
	%D%/network.c \
	%D%/network.h \
	%D%/pin.c \
	%D%/pin.h \
	%D%/pin_host.h \
	%D%/pin_member.c \
	%D%/pin_member.h \
	%D%/pin_print.c \
	%D%/pin_print.h \
	%D%/placement.c \
	%D%/placement.h \
	%D%/order.c \
	%D%/order.h \
	%D%/paths.c \
	%D%/paths.h \
	%D%/place.c \
	%D%/place.h \
	%D%/plan.c \
	%D%/plan.h \
	%D%/plan_device.c \
	%D%/plan_print.c \
	%D%/plan_state.h \
	%D%/plan_write.c \
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
	%D%/steady.c \
	%D%/steady.h \
	%D%/show.c \
	%D%/show.h \
	%D%/show_device.c \
	%D%/show_job.c \
	%D%/signals.c \
	%D%/signals.h \
	%D%/simulate.c \
	%D%/simulate.h \
	%D%/start.c \
	%D%/start.h \
	%D%/straggle.c \
	%D%/straggle.h \
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
	%D%/study_write.h \
	%D%/version.c \
	%D%/watch.c \
	%D%/watch.h \
	%D%/world.c \
	%D%/world.h
gradweir_LDADD = $(LDADD) $(HWLOC_LIBS)
if HAVE_HWLOC
gradweir_SOURCES += %D%/pin_hwloc.c %D%/pin_hwloc.h
else
gradweir_SOURCES += %D%/pin_absent.c
endif
EXTRA_DIST += %D%/configure.m4 %D%/README.md

bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = %D%/gradweir.bash

# The manual's list of keys is what the program says.
if RUNS_HERE
man_MANS = docs/gradweir.1
endif
CLEANFILES += docs/gradweir.1
EXTRA_DIST += docs/gradweir.1.in docs/man.awk
docs/gradweir.1: docs/gradweir.1.in docs/man.awk gradweir$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) docs && $(AWK) -v version='$(PACKAGE_VERSION)' \
	  -v keys='$(GW_EMULATOR) ./gradweir$(EXEEXT) config --keys' -f $(srcdir)/docs/man.awk \
	  $(srcdir)/docs/gradweir.1.in >$@.tmp && mv $@.tmp $@
