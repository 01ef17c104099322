noinst_LIBRARIES += libproto.a
libproto_a_SOURCES = \
	%D%/access.h \
	%D%/config.c \
	%D%/config.h \
	%D%/config_check.c \
	%D%/config_external.c \
	%D%/config_paths.c \
	%D%/config_policy.c \
	%D%/config_print.c \
	%D%/config_program.c \
	%D%/config_scan.c \
	%D%/config_table.c \
	%D%/config_value.c \
	%D%/config_value.h \
	%D%/config_words.c \
	%D%/control.c \
	%D%/control.def \
	%D%/control.h \
	%D%/control_codec.h \
	%D%/control_pack.c \
	%D%/control_unpack.c \
	%D%/copy.c \
	%D%/copy.h \
	%D%/course.c \
	%D%/course.h \
	%D%/device.c \
	%D%/device.h \
	%D%/digest.c \
	%D%/digest.h \
	%D%/dispatch.c \
	%D%/dispatch.h \
	%D%/distance.c \
	%D%/distance.h \
	%D%/file_name.c \
	%D%/file_name.h \
	%D%/groups.c \
	%D%/groups.h \
	%D%/half.h \
	%D%/hash.c \
	%D%/hash.h \
	%D%/interfaces.c \
	%D%/interfaces.h \
	%D%/log.c \
	%D%/log.h \
	%D%/login.c \
	%D%/login.h \
	%D%/map.c \
	%D%/map.h \
	%D%/colocated.c \
	%D%/colocated.h \
	%D%/metrics.c \
	%D%/metrics.h \
	%D%/philox.h \
	%D%/policy.c \
	%D%/policy.h \
	%D%/rounds.c \
	%D%/rounds.h \
	%D%/random.c \
	%D%/random.h \
	%D%/safetensors.c \
	%D%/safetensors.h \
	%D%/schedule.c \
	%D%/schedule.h \
	%D%/secret.c \
	%D%/secret.h \
	%D%/split.c \
	%D%/split.h \
	%D%/staleness.c \
	%D%/staleness.h \
	%D%/status.c \
	%D%/status.h \
	%D%/terms.c \
	%D%/terms.h \
	%D%/text.c \
	%D%/text.h \
	%D%/wire.c \
	%D%/wire.h
nodist_libproto_a_SOURCES = \
	proto/control.pb-c.c \
	proto/control.pb-c.h
EXTRA_DIST += %D%/configure.m4 %D%/README.md %D%/control.proto

# Made in the build tree and never installed: its ABI is protobuf-c's. The
# objects want it also where `make` is given goals, which passes BUILT_SOURCES
# over.
BUILT_SOURCES += proto/control.pb-c.h
$(libproto_a_OBJECTS): proto/control.pb-c.h
CLEANFILES += proto/control.pb-c.c proto/control.pb-c.h
proto/control.pb-c.c: proto/control.pb-c.h
	@:
proto/control.pb-c.h: %D%/control.proto
	$(AM_V_GEN)$(MKDIR_P) proto && $(PROTOC_C) --c_out=proto -I$(srcdir)/proto $(srcdir)/proto/control.proto
