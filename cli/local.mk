bin_PROGRAMS += gradweir
gradweir_SOURCES = \
	%D%/main.c
