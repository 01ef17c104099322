gradweir_SOURCES += \
	%D%/pin.c \
	%D%/pin.h \
	%D%/pin_host.h \
	%D%/pin_member.c \
	%D%/pin_member.h \
	%D%/pin_print.c \
	%D%/pin_print.h
if HAVE_HWLOC
gradweir_SOURCES += %D%/pin_hwloc.c %D%/pin_hwloc.h
else
gradweir_SOURCES += %D%/pin_absent.c
endif
EXTRA_DIST += %D%/README.md
