libtransport_a_SOURCES += \
	%D%/ask.c \
	%D%/ask.h \
	%D%/away.c \
	%D%/away.h \
	%D%/channel.c \
	%D%/channel.h \
	%D%/member.c \
	%D%/member.h \
	%D%/member_dial.c \
	%D%/member_peer.c \
	%D%/member_peer_route.c \
	%D%/member_proof.c \
	%D%/member_route.c \
	%D%/member_state.h \
	%D%/place.c \
	%D%/place.h \
	%D%/remote.c \
	%D%/remote.h \
	%D%/saved.c \
	%D%/saved.h \
	%D%/secret_fd.c \
	%D%/secret_fd.h
EXTRA_DIST += %D%/README.md
