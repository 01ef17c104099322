bin_PROGRAMS += gradweir
gradweir_SOURCES = \
	%D%/cli.c \
	%D%/cli.h \
	%D%/cmd_config.c \
	%D%/main.c \
	%D%/version.c

bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = %D%/gradweir.bash

# The manual's list of keys is what the program says.
man_MANS = docs/gradweir.1
CLEANFILES += docs/gradweir.1
EXTRA_DIST += docs/gradweir.1.in docs/man.awk
docs/gradweir.1: docs/gradweir.1.in docs/man.awk gradweir$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) docs && $(AWK) -v version='$(PACKAGE_VERSION)' \
	  -v keys='./gradweir$(EXEEXT) config --keys' -f $(srcdir)/docs/man.awk \
	  $(srcdir)/docs/gradweir.1.in >$@.tmp && mv $@.tmp $@
