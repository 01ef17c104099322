gradweir_SOURCES += \
	%D%/cmd_doctor.c \
	%D%/doctor.c \
	%D%/doctor.h \
	%D%/doctor_device.c \
	%D%/doctor_dial_back.c \
	%D%/doctor_limits.c \
	%D%/doctor_model.c \
	%D%/doctor_network.c \
	%D%/doctor_owner.c \
	%D%/doctor_peer.c \
	%D%/doctor_pin.c \
	%D%/doctor_serve.c \
	%D%/doctor_wire.c \
	%D%/doctor_wire.h
EXTRA_DIST += %D%/README.md
