# libgradweir.so: these sources, and of the archives the objects that they reach.
# libserver.a is none of them: a program that trains has no servers in it.
noinst_PROGRAMS += libgradweir.so
libgradweir_so_SOURCES = \
	include/gradweir.h \
	%D%/declare.c \
	%D%/driver.c \
	%D%/driver.h \
	%D%/job.c \
	%D%/job.h \
	%D%/job_log.c \
	%D%/step.c
libgradweir_so_LDFLAGS = $(GW_SHARED_LDFLAGS) -Wl,-soname,$(GW_SONAME) \
	-Wl,--version-script=$(srcdir)/%D%/gradweir.map -Wl,--as-needed
libgradweir_so_LDADD = libworker.a libtransport.a libkernels.a libproto.a \
	$(GW_LIBS)
EXTRA_libgradweir_so_DEPENDENCIES = %D%/gradweir.map
EXTRA_DIST += %D%/README.md %D%/gradweir.map

# The number that changes when a program must be built again.
GW_SONAME = libgradweir.so.0
# beside the program, so that LD_LIBRARY_PATH=build is enough
noinst_DATA = $(GW_SONAME)
CLEANFILES += $(GW_SONAME)
$(GW_SONAME): libgradweir.so
	$(AM_V_GEN)ln -sf libgradweir.so $@

include_HEADERS = include/gradweir.h
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = gradweir.pc

GW_LIBRARY_FILE = libgradweir.so.$(PACKAGE_VERSION)
install-exec-local: libgradweir.so
	$(MKDIR_P) '$(DESTDIR)$(libdir)'
	$(INSTALL_PROGRAM) libgradweir.so '$(DESTDIR)$(libdir)/$(GW_LIBRARY_FILE)'
	ln -sf $(GW_LIBRARY_FILE) '$(DESTDIR)$(libdir)/$(GW_SONAME)'
	ln -sf $(GW_SONAME) '$(DESTDIR)$(libdir)/libgradweir.so'
uninstall-local:
	rm -f '$(DESTDIR)$(libdir)/$(GW_LIBRARY_FILE)' \
	  '$(DESTDIR)$(libdir)/$(GW_SONAME)' '$(DESTDIR)$(libdir)/libgradweir.so'

# The manual has the calls as the header has them.
man3_MANS = docs/gradweir.3
CLEANFILES += docs/gradweir.3
EXTRA_DIST += docs/gradweir.3.in docs/man_library.awk
docs/gradweir.3: docs/gradweir.3.in docs/man_library.awk docs/man.awk include/gradweir.h
	$(AM_V_GEN)$(MKDIR_P) docs && $(AWK) -v version='$(PACKAGE_VERSION)' \
	  -v header='$(srcdir)/include/gradweir.h' -f $(srcdir)/docs/man_library.awk \
	  -f $(srcdir)/docs/man.awk $(srcdir)/docs/gradweir.3.in >$@.tmp && mv $@.tmp $@
