# A test is a program that prints TAP and runs in a process of its own. Unit
# and table tests are cmocka programs; the source is the program's name plus .c.
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/tap.sh
AM_TESTS_ENVIRONMENT = \
	CMOCKA_MESSAGE_OUTPUT=TAP; export CMOCKA_MESSAGE_OUTPUT; \
	GW_SRCDIR='$(abs_top_srcdir)'; export GW_SRCDIR; \
	GW_BUILDDIR='$(abs_top_builddir)'; export GW_BUILDDIR; \
	GW_CC='$(CC)'; export GW_CC; GW_CXX='$(CXX)'; export GW_CXX; \
	GW_EMULATOR='$(GW_EMULATOR)'; export GW_EMULATOR; \
	GW_CPPFLAGS='$(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS)'; \
	export GW_CPPFLAGS; GW_CFLAGS='$(GW_CFLAGS)'; export GW_CFLAGS; \
	unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE;
EXTRA_DIST += %D%/configure.m4 %D%/english.awk %D%/index.awk %D%/index.sh \
	%D%/INDEX.md %D%/slowest.sh %D%/tap.sh .clang-format

dist_check_SCRIPTS += \
	%D%/check_style.sh \
	%D%/fuzz/minute.sh \
	%D%/rdma/check.sh \
	%D%/run/arm.sh \
	%D%/run/bench.sh \
	%D%/run/checkpoint.sh \
	%D%/run/cli.sh \
	%D%/run/ctl.sh \
	%D%/run/cuda.sh \
	%D%/run/disk.sh \
	%D%/run/doctor.sh \
	%D%/run/docs.sh \
	%D%/run/examples_c.sh \
	%D%/run/examples_python.sh \
	%D%/run/python.sh \
	%D%/run/files.sh \
	%D%/run/gpu.sh \
	%D%/run/junk.sh \
	%D%/run/kill.sh \
	%D%/run/api.sh \
	%D%/run/library.sh \
	%D%/run/loaded.sh \
	%D%/run/memory.sh \
	%D%/run/network.sh \
	%D%/run/node.sh \
	%D%/run/paths.sh \
	%D%/run/pin.sh \
	%D%/run/plan.sh \
	%D%/run/plan_program.sh \
	%D%/run/policy.sh \
	%D%/run/quickstart.sh \
	%D%/run/rank.sh \
	%D%/run/chaos.sh \
	%D%/run/copies.sh \
	%D%/run/rejoin.sh \
	%D%/run/replace.sh \
	%D%/run/resume.sh \
	%D%/run/restart.sh \
	%D%/run/run.sh \
	%D%/run/second.sh \
	%D%/run/split.sh \
	%D%/run/start.sh \
	%D%/run/study.sh \
	%D%/run/terminal.sh \
	%D%/run/train.sh \
	%D%/run/turns.sh \
	%D%/run/wrong.sh
EXTRA_DIST += %D%/arm/build.sh %D%/run/lib.sh %D%/run/second.py \
	%D%/rdma/doctor.sh %D%/rdma/far.sh %D%/rdma/inside.sh %D%/rdma/machine.sh \
	%D%/rdma/rails.sh %D%/rdma/timely.sh %D%/rdma/two.sh

# what a test of whole programs needs beside the program
EXTRA_PROGRAMS = %D%/run/junk %D%/run/linear %D%/run/api
check_DATA = %D%/run/junk$(EXEEXT) %D%/run/linear$(EXEEXT) \
	%D%/run/api$(EXEEXT)

# as a program of a user's: with the shared library alone
%C%_run_api_SOURCES = %D%/run/api.c %D%/run/api_fixture.c \
	%D%/run/api_fixture.h %D%/run/api_groups.c %D%/run/api_opens.c \
	include/gradweir.h
%C%_run_api_LDADD = libgradweir.so -lm
%C%_run_api_LDFLAGS = -Wl,-rpath,'$(abs_top_builddir)'

if HAVE_CMOCKA
check_PROGRAMS += \
	%D%/run/test_malloc \
	%D%/sim/test_answers \
	%D%/sim/test_backup \
	%D%/sim/test_bf16 \
	%D%/sim/test_checkpoint \
	%D%/sim/test_copies \
	%D%/sim/test_copies_seeds \
	%D%/sim/test_leaves \
	%D%/sim/test_moves \
	%D%/sim/test_rejoin_copies \
	%D%/sim/test_rejoin_servers \
	%D%/sim/test_deaths \
	%D%/sim/test_rejoin \
	%D%/sim/test_rejoin_seeds \
	%D%/sim/test_replace \
	%D%/sim/test_vacant \
	%D%/sim/test_declare \
	%D%/sim/test_edges \
	%D%/sim/test_false_coordinator \
	%D%/sim/test_false_council \
	%D%/sim/test_keys \
	%D%/sim/test_false_leaders \
	%D%/sim/test_false_members \
	%D%/sim/test_groups \
	%D%/sim/test_hostile \
	%D%/sim/test_idle \
	%D%/sim/test_inner \
	%D%/sim/test_inner_files \
	%D%/sim/test_job \
	%D%/sim/test_late \
	%D%/sim/test_members \
	%D%/sim/test_origin \
	%D%/sim/test_orders \
	%D%/sim/test_own_steps \
	%D%/sim/test_policies \
	%D%/sim/test_pass \
	%D%/sim/test_pull \
	%D%/sim/test_rank \
	%D%/sim/test_rules \
	%D%/sim/test_skip \
	%D%/sim/test_policy_seeds \
	%D%/sim/test_save \
	%D%/sim/test_terms \
	%D%/sim/test_terms_policies \
	%D%/sim/test_scores \
	%D%/sim/test_seeds \
	%D%/sim/test_scale \
	%D%/sim/test_imports \
	%D%/sim/test_silence \
	%D%/sim/test_simulate \
	%D%/sim/test_slow \
	%D%/sim/test_split \
	%D%/sim/test_split_again \
	%D%/sim/test_stale \
	%D%/sim/test_stale_resume \
	%D%/sim/test_stop \
	%D%/sim/test_suspect \
	%D%/sim/test_switch \
	%D%/sim/test_switch_seeds \
	%D%/sim/test_workers \
	%D%/table/test_backend_layers \
	%D%/table/test_backend_shapes \
	%D%/table/test_backend_parts \
	%D%/table/test_backends \
	%D%/table/test_loop \
	%D%/table/test_member \
	%D%/table/test_member_login \
	%D%/table/test_member_renew \
	%D%/table/test_transport \
	%D%/table/test_transport_windows \
	%D%/unit/test_away \
	%D%/unit/test_begin \
	%D%/unit/test_bench \
	%D%/unit/test_bf16 \
	%D%/unit/test_blend \
	%D%/unit/test_blend_reference \
	%D%/unit/test_child \
	%D%/unit/test_child_run \
	%D%/unit/test_config \
	%D%/unit/test_config_check \
	%D%/unit/test_config_job \
	%D%/unit/test_config_paths \
	%D%/unit/test_config_policy \
	%D%/unit/test_config_set \
	%D%/unit/test_config_words \
	%D%/unit/test_control \
	%D%/unit/test_control_refused \
	%D%/unit/test_control_secrets \
	%D%/unit/test_copy \
	%D%/unit/test_course \
	%D%/unit/test_cpu_dense \
	%D%/unit/test_cpu_sums \
	%D%/unit/test_dataset \
	%D%/unit/test_device \
	%D%/unit/test_dataset_batch \
	%D%/unit/test_dataset_hostile \
	%D%/unit/test_dataset_kinds \
	%D%/unit/test_cuda_code \
	%D%/unit/test_decision \
	%D%/unit/test_decision_follow \
	%D%/unit/test_decision_policy \
	%D%/unit/test_decision_recall \
	%D%/unit/test_digest \
	%D%/unit/test_disk \
	%D%/unit/test_dispatch \
	%D%/unit/test_distance \
	%D%/unit/test_doctor \
	%D%/unit/test_nonfinite \
	%D%/unit/test_terms \
	%D%/unit/test_per_push \
	%D%/unit/test_estimate \
	%D%/unit/test_environment \
	%D%/unit/test_exchange \
	%D%/unit/test_feed \
	%D%/unit/test_group_shapes \
	%D%/unit/test_interfaces \
	%D%/unit/test_islands \
	%D%/unit/test_kernel_bits \
	%D%/unit/test_lines \
	%D%/unit/test_log \
	%D%/unit/test_login \
	%D%/unit/test_manifest \
	%D%/unit/test_map \
	%D%/unit/test_colocated \
	%D%/unit/test_measure \
	%D%/unit/test_membership \
	%D%/unit/test_membership_damage \
	%D%/unit/test_memory \
	%D%/unit/test_metrics \
	%D%/unit/test_mlp_rounds \
	%D%/unit/test_mlp_rules \
	%D%/unit/test_mirror \
	%D%/unit/test_model \
	%D%/unit/test_model_hooks \
	%D%/unit/test_model_layers \
	%D%/unit/test_model_reference \
	%D%/unit/test_needs \
	%D%/unit/test_needs_gpu \
	%D%/unit/test_network \
	%D%/unit/test_options \
	%D%/unit/test_output \
	%D%/unit/test_pin \
	%D%/unit/test_pin_absent \
	%D%/unit/test_pin_members \
	%D%/unit/test_placement \
	%D%/unit/test_plan \
	%D%/unit/test_policy \
	%D%/unit/test_poller \
	%D%/unit/test_random \
	%D%/unit/test_rdma_absent \
	%D%/unit/test_rdma_choose \
	%D%/unit/test_rdma_flight \
	%D%/unit/test_remote \
	%D%/unit/test_saved \
	%D%/unit/test_record \
	%D%/unit/test_reduce \
	%D%/unit/test_rounds \
	%D%/unit/test_safetensors \
	%D%/unit/test_server_parts \
	%D%/unit/test_prefault \
	%D%/unit/test_shard \
	%D%/unit/test_shm_ends \
	%D%/unit/test_shm_hostile \
	%D%/unit/test_shm_meet \
	%D%/unit/test_shm_order \
	%D%/unit/test_shm_processes \
	%D%/unit/test_shm_wakes \
	%D%/unit/test_sim_host \
	%D%/unit/test_sim_worlds \
	%D%/unit/test_split \
	%D%/unit/test_split_leader \
	%D%/unit/test_staleness \
	%D%/unit/test_status \
	%D%/unit/test_steady \
	%D%/unit/test_straggle \
	%D%/unit/test_study \
	%D%/unit/test_tcp_addresses \
	%D%/unit/test_tcp_flight \
	%D%/unit/test_tcp_frames \
	%D%/unit/test_tcp_hostile \
	%D%/unit/test_tcp_local \
	%D%/unit/test_tensor \
	%D%/unit/test_turn \
	%D%/unit/test_turn_share \
	%D%/unit/test_transport_parts \
	%D%/unit/test_update \
	%D%/unit/test_watch \
	%D%/unit/test_wire
LDADD += $(CMOCKA_LIBS)

# those that need a real RDMA device: tests/rdma/check.sh runs them
if HAVE_RDMA
check_PROGRAMS += %D%/unit/test_rdma_library
# the library's loader finds this program's own functions
%C%_unit_test_rdma_library_LDFLAGS = -rdynamic
GW_RDMA_TESTS = %D%/rdma/test_hostile_rdma %D%/rdma/test_rdma \
	%D%/rdma/test_stranger_rdma
EXTRA_PROGRAMS += $(GW_RDMA_TESTS)
check_DATA += $(GW_RDMA_TESTS)
GW_ATTACK = %D%/rdma/attack.c %D%/rdma/attack.h \
	%D%/rdma/hostile.c %D%/rdma/hostile.h $(GW_VICTIM)
%C%_rdma_test_hostile_rdma_SOURCES = %D%/rdma/test_hostile_rdma.c $(GW_ATTACK)
%C%_rdma_test_stranger_rdma_SOURCES = \
	%D%/rdma/test_stranger_rdma.c $(GW_ATTACK)
%C%_rdma_test_hostile_rdma_LDADD = $(LDADD) $(RDMA_LIBS)
%C%_rdma_test_stranger_rdma_LDADD = $(LDADD) $(RDMA_LIBS)
%C%_rdma_test_rdma_SOURCES = %D%/rdma/test_rdma.c $(GW_COUPLE)
# the transport finds this program's own ibv_destroy_qp
%C%_rdma_test_rdma_LDFLAGS = -rdynamic
# what makes soft-RoCE take emulated GPUs' memory
EXTRA_PROGRAMS += %D%/rdma/dma_buf.so
check_DATA += %D%/rdma/dma_buf.so
%C%_rdma_dma_buf_so_SOURCES = %D%/rdma/dma_buf.c
%C%_rdma_dma_buf_so_LDFLAGS = -shared
%C%_rdma_dma_buf_so_LDADD = $(RDMA_LIBS)
endif

# those that need a GPU: tests/gpu/check.sh runs them
GW_GPU_TESTS = %D%/gpu/test_gpu_layers %D%/gpu/test_gpu_memory \
	%D%/gpu/test_gpu_share
EXTRA_PROGRAMS += $(GW_GPU_TESTS)
GW_GPU = %D%/gpu/gpu.c %D%/gpu/gpu.h $(GW_BACKEND)
%C%_gpu_test_gpu_layers_SOURCES = %D%/gpu/test_gpu_layers.c $(GW_GPU)
%C%_gpu_test_gpu_memory_SOURCES = %D%/gpu/test_gpu_memory.c $(GW_GPU)
%C%_gpu_test_gpu_share_SOURCES = %D%/gpu/test_gpu_share.c $(GW_GPU)

# The module for GPUs as it is built for CUDA, with an emulated CUDA in it. In
# one directory with a driver that pretends: as LD_LIBRARY_PATH and as
# GRADWEIR_MODULES that gives any program a GPU.
GW_EMULATION = \
	%D%/cuda/answers.c \
	%D%/cuda/answers.h \
	%D%/cuda/block.c \
	%D%/cuda/emulation.h \
	%D%/cuda/fiber.c \
	%D%/cuda/inside.h \
	%D%/cuda/ipc.c \
	%D%/cuda/launch.h \
	%D%/cuda/lt.c \
	%D%/cuda/memory.c \
	%D%/cuda/narrow.h \
	%D%/cuda/product.c \
	%D%/cuda/product.h \
	%D%/cuda/runtime.c \
	%D%/cuda/stream.c
GW_EMULATED_INCLUDES = \
	%D%/cuda/include/cublasLt.h \
	%D%/cuda/include/cuda_bf16.h \
	%D%/cuda/include/cuda_fp16.h \
	%D%/cuda/include/cuda_kernel.cuh \
	%D%/cuda/include/cuda_runtime.h \
	%D%/cuda/include/cuda_runtime_api.h \
	%D%/cuda/kernels/cuda/cuda_launch.cuh
EXTRA_DIST += $(GW_EMULATED_INCLUDES) $(GW_CUDA_KERNELS) \
	%D%/cuda/try/divide.cu %D%/cuda/try/try.cu
if HAVE_EMULATED_CUDA
GW_EMULATED_CUDA = %D%/cuda/gradweir-cuda.so %D%/cuda/libcuda.so.1
EXTRA_PROGRAMS += $(GW_EMULATED_CUDA)
# and what a real one has to show, which tests/run/gpu.sh tries there
check_DATA += $(GW_EMULATED_CUDA) $(GW_GPU_BENCHES)
GW_EMULATED_KERNELS = $(GW_CUDA_KERNELS:.cu=.emulated)
%C%_cuda_gradweir_cuda_so_SOURCES = $(GW_CUDA_HOST) $(GW_EMULATION)
%C%_cuda_gradweir_cuda_so_CPPFLAGS = -I$(srcdir)/%D%/cuda/include \
	$(AM_CPPFLAGS)
%C%_cuda_gradweir_cuda_so_LDFLAGS = -shared
%C%_cuda_gradweir_cuda_so_LDADD = $(GW_EMULATED_KERNELS) -lpthread -lm
%C%_cuda_libcuda_so_1_SOURCES = \
	%D%/cuda/answers.c %D%/cuda/answers.h %D%/cuda/driver.c
%C%_cuda_libcuda_so_1_LDFLAGS = -shared -Wl,-soname,libcuda.so.1
%C%_cuda_libcuda_so_1_LDADD =
.cu.emulated:
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(CXX) $(GW_EMULATED_CXXFLAGS) \
	  -I$(srcdir)/tests/cuda/include -I$(srcdir)/tests/cuda $(DEFS) \
	  $(DEFAULT_INCLUDES) $(CXXFLAGS) -x c++ -c -o $@ $<
GW_TRIED = %D%/cuda/try/divide.emulated %D%/cuda/try/try.emulated
$(GW_EMULATED_KERNELS) $(GW_TRIED): $(GW_EMULATED_INCLUDES) \
	%D%/cuda/launch.h %D%/cuda/try/divide.h %D%/cuda/try/try.h \
	%D%/cuda/narrow.h kernels/cuda/cuda.h kernels/cuda/cuda_half.cuh \
	kernels/cuda/cuda_index.cuh kernels/cuda/cuda_sizes.h kernels/kernels.h \
	kernels/operations.h kernels/size.h proto/philox.h proto/random.h
CLEANFILES += $(GW_EMULATED_KERNELS) $(GW_TRIED)
if HAVE_CMOCKA
check_DATA += $(GW_GPU_TESTS)
check_PROGRAMS += %D%/unit/test_cuda_copies \
	%D%/unit/test_cuda_emulation \
	%D%/unit/test_cuda_epilogues %D%/unit/test_cuda_index \
	%D%/unit/test_cuda_module %D%/unit/test_cuda_products \
	%D%/unit/test_cuda_share %D%/unit/test_cuda_tune \
	%D%/unit/test_cuda_unseen
%C%_unit_test_cuda_emulation_SOURCES = \
	%D%/unit/test_cuda_emulation.c %D%/cuda/try/try.h $(GW_EMULATION)
%C%_unit_test_cuda_emulation_LDADD = %D%/cuda/try/try.emulated \
	$(CMOCKA_LIBS) -lpthread -lm
%C%_unit_test_cuda_copies_SOURCES = %D%/unit/test_cuda_copies.c \
	%D%/table/emulated.c %D%/table/emulated.h
%C%_unit_test_cuda_index_SOURCES = %D%/unit/test_cuda_index.c \
	%D%/cuda/try/divide.h
%C%_unit_test_cuda_index_LDADD = %D%/cuda/try/divide.emulated $(LDADD)
%C%_unit_test_cuda_module_SOURCES = %D%/unit/test_cuda_module.c \
	%D%/table/emulated.c %D%/table/emulated.h
%C%_unit_test_cuda_products_SOURCES = \
	%D%/unit/test_cuda_products.c $(GW_EMULATION)
%C%_unit_test_cuda_products_LDADD = $(CMOCKA_LIBS) -lpthread -lm
%C%_unit_test_cuda_epilogues_SOURCES = %D%/unit/test_cuda_epilogues.c \
	%D%/table/emulated.c %D%/table/emulated.h
%C%_unit_test_cuda_tune_SOURCES = %D%/unit/test_cuda_tune.c \
	%D%/table/emulated.c %D%/table/emulated.h
GW_OWNERS = %D%/unit/owners.c %D%/unit/owners.h \
	%D%/table/emulated.c %D%/table/emulated.h
%C%_unit_test_cuda_share_SOURCES = %D%/unit/test_cuda_share.c $(GW_OWNERS)
%C%_unit_test_cuda_unseen_SOURCES = %D%/unit/test_cuda_unseen.c $(GW_OWNERS)
endif
endif

# what tests of one kind share
GW_BACKEND = %D%/table/backend.c %D%/table/backend.h \
	%D%/table/emulated.c %D%/table/emulated.h \
	%D%/table/reference.c %D%/table/reference.h
GW_WORLD = %D%/table/world.c %D%/table/world.h
GW_VICTIM = %D%/table/victim.c %D%/table/victim.h $(GW_WORLD)
GW_PAIR = %D%/table/pair.c %D%/table/pair.h $(GW_WORLD)
GW_COUPLE = %D%/table/couple.c %D%/table/couple.h $(GW_WORLD)
GW_CLUSTER = %D%/sim/cluster.c %D%/sim/cluster.h %D%/sim/cluster_data.c \
	cli/lab/world.c cli/lab/world.h
GW_SIMULATE = cli/lab/network.c cli/lab/network.h cli/lab/placement.c cli/lab/placement.h \
	cli/lab/program.c cli/lab/program.h \
	cli/json.c cli/json.h cli/record.c cli/record.h cli/lab/simulate.c cli/lab/simulate.h \
	cli/lab/straggle.c cli/lab/straggle.h
GW_DOCTOR = cli/doctor/doctor.c cli/doctor/doctor.h cli/doctor/doctor_device.c \
	cli/doctor/doctor_dial_back.c \
	cli/doctor/doctor_limits.c cli/doctor/doctor_model.c cli/doctor/doctor_network.c \
	cli/doctor/doctor_owner.c cli/doctor/doctor_peer.c cli/doctor/doctor_pin.c \
	cli/doctor/doctor_serve.c cli/doctor/doctor_wire.c cli/doctor/doctor_wire.h
GW_PIN = cli/host/pin.c cli/host/pin.h cli/host/pin_host.h cli/host/pin_print.c cli/host/pin_print.h
if HAVE_HWLOC
GW_PIN += cli/host/pin_hwloc.c cli/host/pin_hwloc.h
check_PROGRAMS += %D%/unit/test_pin_hwloc
%C%_unit_test_pin_hwloc_SOURCES = %D%/unit/test_pin_hwloc.c $(GW_PIN)
%C%_unit_test_pin_hwloc_LDADD = $(LDADD) $(HWLOC_LIBS)
else
GW_PIN += cli/host/pin_absent.c
endif
GW_GROUPED = %D%/sim/grouped.c %D%/sim/grouped.h $(GW_CLUSTER)
GW_INNER = %D%/sim/inner.c %D%/sim/inner.h
GW_PACES = %D%/sim/paces.c %D%/sim/paces.h
GW_STALE = %D%/sim/stale.c %D%/sim/stale.h
GW_SWEEP = %D%/sim/sweep.c %D%/sim/sweep.h %D%/sim/storm.c %D%/sim/storm.h
GW_REJOIN = %D%/sim/rejoin.c %D%/sim/rejoin.h
GW_MOVING = %D%/sim/moving.c %D%/sim/moving.h
GW_STRANGER = %D%/sim/stranger.c %D%/sim/stranger.h $(GW_CLUSTER)
GW_CONTROL = %D%/unit/control_samples.c %D%/unit/control_samples.h
GW_MEMBERSHIP = %D%/unit/membership_site.c %D%/unit/membership_site.h
GW_SINGLE = %D%/unit/single.c %D%/unit/single.h
GW_PLAIN = %D%/unit/plain.c %D%/unit/plain.h
GW_MLP_BENCH = %D%/unit/mlp_bench.c %D%/unit/mlp_bench.h \
	%D%/unit/mlp_workers.c %D%/unit/mlp_workers.h \
	%D%/unit/plain_mlp.c %D%/unit/plain_mlp.h $(GW_SINGLE) $(GW_PLAIN)
GW_MODEL_SUBJECT = %D%/unit/model_subject.c %D%/unit/model_subject.h
GW_DATA_BYTES = %D%/unit/data_bytes.c %D%/unit/data_bytes.h
GW_NEEDS = %D%/unit/needs_job.c %D%/unit/needs_job.h $(GW_CLUSTER) \
	cli/plan/estimate.c cli/plan/estimate.h cli/needs.c cli/needs.h
GW_SHM_COUPLE = %D%/unit/shm_couple.c %D%/unit/shm_couple.h
GW_TCP_SITE = %D%/unit/tcp_site.c %D%/unit/tcp_site.h
GW_LEADER = %D%/unit/leader.c %D%/unit/leader.h
%C%_unit_test_rdma_absent_SOURCES = %D%/unit/test_rdma_absent.c \
	transport/rdma/rdma_absent.c
%C%_unit_test_membership_SOURCES = %D%/unit/test_membership.c \
	$(GW_MEMBERSHIP)
%C%_unit_test_membership_damage_SOURCES = %D%/unit/test_membership_damage.c \
	$(GW_MEMBERSHIP)
%C%_run_test_malloc_SOURCES = %D%/run/test_malloc.c $(GW_CLUSTER)
%C%_sim_test_backup_SOURCES = %D%/sim/test_backup.c $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_bf16_SOURCES = %D%/sim/test_bf16.c $(GW_CLUSTER)
%C%_sim_test_checkpoint_SOURCES = %D%/sim/test_checkpoint.c $(GW_CLUSTER)
%C%_sim_test_deaths_SOURCES = %D%/sim/test_deaths.c $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_copies_seeds_SOURCES = %D%/sim/test_copies_seeds.c $(GW_CLUSTER) \
	$(GW_SWEEP)
%C%_sim_test_copies_SOURCES = %D%/sim/test_copies.c $(GW_CLUSTER) \
	$(GW_SWEEP)
%C%_sim_test_leaves_SOURCES = %D%/sim/test_leaves.c $(GW_MOVING) \
	$(GW_CLUSTER)
%C%_sim_test_moves_SOURCES = %D%/sim/test_moves.c $(GW_MOVING) $(GW_CLUSTER)
%C%_sim_test_suspect_SOURCES = %D%/sim/test_suspect.c $(GW_CLUSTER) \
	$(GW_SWEEP)
%C%_sim_test_vacant_SOURCES = %D%/sim/test_vacant.c $(GW_CLUSTER)
%C%_sim_test_rejoin_copies_SOURCES = %D%/sim/test_rejoin_copies.c \
	$(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_rejoin_seeds_SOURCES = %D%/sim/test_rejoin_seeds.c \
	$(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_replace_SOURCES = %D%/sim/test_replace.c $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_edges_SOURCES = %D%/sim/test_edges.c $(GW_CLUSTER) \
	$(GW_SIMULATE)
%C%_sim_test_false_coordinator_SOURCES = \
	%D%/sim/test_false_coordinator.c $(GW_CLUSTER)
%C%_sim_test_answers_SOURCES = %D%/sim/test_answers.c
%C%_sim_test_answers_LDADD = %D%/fuzz/libfuzz.a $(LDADD)
%C%_sim_test_keys_SOURCES = %D%/sim/test_keys.c $(GW_CLUSTER)
%C%_sim_test_keys_LDADD = %D%/fuzz/libfuzz.a $(LDADD)
%C%_sim_test_false_council_SOURCES = %D%/sim/test_false_council.c
%C%_sim_test_false_council_LDADD = %D%/fuzz/libfuzz.a $(LDADD)
%C%_sim_test_false_leaders_SOURCES = %D%/sim/test_false_leaders.c
%C%_sim_test_false_leaders_LDADD = %D%/fuzz/libfuzz.a $(LDADD)
%C%_sim_test_false_members_SOURCES = %D%/sim/test_false_members.c
%C%_sim_test_false_members_LDADD = %D%/fuzz/libfuzz.a $(LDADD)
%C%_sim_test_groups_SOURCES = %D%/sim/test_groups.c \
	%D%/sim/apart.c %D%/sim/apart.h $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_hostile_SOURCES = %D%/sim/test_hostile.c $(GW_STRANGER)
%C%_sim_test_idle_SOURCES = %D%/sim/test_idle.c $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_inner_SOURCES = \
	%D%/sim/test_inner.c $(GW_INNER) $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_inner_files_SOURCES = \
	%D%/sim/test_inner_files.c $(GW_INNER) $(GW_CLUSTER)
%C%_sim_test_job_SOURCES = %D%/sim/test_job.c $(GW_CLUSTER)
%C%_sim_test_late_SOURCES = %D%/sim/test_late.c $(GW_STRANGER)
%C%_sim_test_members_SOURCES = %D%/sim/test_members.c $(GW_STRANGER)
%C%_sim_test_rejoin_SOURCES = %D%/sim/test_rejoin.c $(GW_REJOIN) \
	$(GW_STRANGER)
%C%_sim_test_rejoin_servers_SOURCES = %D%/sim/test_rejoin_servers.c \
	$(GW_REJOIN) $(GW_CLUSTER)
%C%_sim_test_origin_SOURCES = %D%/sim/test_origin.c $(GW_CLUSTER)
%C%_sim_test_own_steps_SOURCES = %D%/sim/test_own_steps.c $(GW_CLUSTER)
%C%_sim_test_policies_SOURCES = %D%/sim/test_policies.c $(GW_CLUSTER)
%C%_sim_test_pass_SOURCES = %D%/sim/test_pass.c $(GW_CLUSTER)
%C%_sim_test_orders_SOURCES = %D%/sim/test_orders.c $(GW_GROUPED) $(GW_SWEEP)
%C%_sim_test_pull_SOURCES = %D%/sim/test_pull.c $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_rank_SOURCES = %D%/sim/test_rank.c $(GW_CLUSTER)
%C%_sim_test_declare_SOURCES = %D%/sim/test_declare.c $(GW_GROUPED)
%C%_sim_test_rules_SOURCES = %D%/sim/test_rules.c $(GW_GROUPED)
%C%_sim_test_terms_SOURCES = %D%/sim/test_terms.c $(GW_GROUPED)
%C%_sim_test_terms_policies_SOURCES = %D%/sim/test_terms_policies.c \
	$(GW_GROUPED) $(GW_SWEEP)
%C%_sim_test_skip_SOURCES = %D%/sim/test_skip.c $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_policy_seeds_SOURCES = \
	%D%/sim/test_policy_seeds.c $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_save_SOURCES = %D%/sim/test_save.c $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_scores_SOURCES = %D%/sim/test_scores.c $(GW_CLUSTER)
%C%_sim_test_seeds_SOURCES = %D%/sim/test_seeds.c $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_imports_SOURCES = %D%/sim/test_imports.c $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_silence_SOURCES = %D%/sim/test_silence.c $(GW_CLUSTER)
%C%_sim_test_slow_SOURCES = %D%/sim/test_slow.c $(GW_CLUSTER) \
	$(GW_SIMULATE)
%C%_sim_test_simulate_SOURCES = %D%/sim/test_simulate.c $(GW_CLUSTER) \
	$(GW_SIMULATE)
%C%_sim_test_scale_SOURCES = %D%/sim/test_scale.c $(GW_CLUSTER) \
	$(GW_SIMULATE)
%C%_sim_test_split_SOURCES = %D%/sim/test_split.c $(GW_PACES) $(GW_CLUSTER)
%C%_sim_test_split_again_SOURCES = \
	%D%/sim/test_split_again.c $(GW_PACES) $(GW_CLUSTER)
%C%_sim_test_stale_SOURCES = \
	%D%/sim/test_stale.c $(GW_STALE) $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_stale_resume_SOURCES = \
	%D%/sim/test_stale_resume.c $(GW_STALE) $(GW_CLUSTER)
%C%_sim_test_stop_SOURCES = %D%/sim/test_stop.c $(GW_CLUSTER)
%C%_sim_test_switch_SOURCES = %D%/sim/test_switch.c $(GW_CLUSTER)
%C%_sim_test_switch_seeds_SOURCES = \
	%D%/sim/test_switch_seeds.c $(GW_CLUSTER) $(GW_SWEEP)
%C%_sim_test_workers_SOURCES = %D%/sim/test_workers.c $(GW_CLUSTER)
%C%_table_test_backend_layers_SOURCES = \
	%D%/table/test_backend_layers.c $(GW_BACKEND)
%C%_table_test_backend_shapes_SOURCES = \
	%D%/table/test_backend_shapes.c $(GW_BACKEND)
%C%_table_test_backend_parts_SOURCES = \
	%D%/table/test_backend_parts.c $(GW_BACKEND)
%C%_table_test_backends_SOURCES = %D%/table/test_backends.c $(GW_BACKEND)
%C%_table_test_member_SOURCES = %D%/table/test_member.c $(GW_COUPLE)
%C%_table_test_member_login_SOURCES = \
	%D%/table/test_member_login.c $(GW_COUPLE)
%C%_table_test_member_renew_SOURCES = \
	%D%/table/test_member_renew.c $(GW_COUPLE)
%C%_table_test_loop_SOURCES = %D%/table/test_loop.c $(GW_WORLD)
%C%_table_test_transport_SOURCES = %D%/table/test_transport.c $(GW_PAIR)
%C%_table_test_transport_windows_SOURCES = \
	%D%/table/test_transport_windows.c $(GW_PAIR)
%C%_unit_test_terms_SOURCES = %D%/unit/test_terms.c $(GW_SINGLE)
%C%_unit_test_nonfinite_SOURCES = %D%/unit/test_nonfinite.c $(GW_SINGLE)
%C%_unit_test_per_push_SOURCES = %D%/unit/test_per_push.c $(GW_SINGLE) $(GW_PLAIN)
%C%_unit_test_mlp_rounds_SOURCES = %D%/unit/test_mlp_rounds.c $(GW_MLP_BENCH)
%C%_unit_test_mlp_rules_SOURCES = %D%/unit/test_mlp_rules.c $(GW_MLP_BENCH)
%C%_unit_test_decision_SOURCES = %D%/unit/test_decision.c $(GW_LEADER)
%C%_unit_test_decision_follow_SOURCES = \
	%D%/unit/test_decision_follow.c $(GW_LEADER)
%C%_unit_test_decision_policy_SOURCES = \
	%D%/unit/test_decision_policy.c $(GW_LEADER)
%C%_unit_test_decision_recall_SOURCES = \
	%D%/unit/test_decision_recall.c $(GW_LEADER)
%C%_unit_test_child_run_SOURCES = %D%/unit/test_child_run.c cli/child_run.c cli/child_run.h \
	cli/child.c cli/child.h cli/signals.c cli/signals.h
%C%_unit_test_control_SOURCES = %D%/unit/test_control.c $(GW_CONTROL)
%C%_unit_test_control_refused_SOURCES = \
	%D%/unit/test_control_refused.c $(GW_CONTROL)
%C%_unit_test_child_SOURCES = %D%/unit/test_child.c \
	cli/child.c cli/child.h cli/signals.c cli/signals.h
%C%_unit_test_lines_SOURCES = %D%/unit/test_lines.c \
	cli/lines.c cli/lines.h
%C%_unit_test_tcp_frames_SOURCES = %D%/unit/test_tcp_frames.c $(GW_TCP_SITE)
%C%_unit_test_tcp_hostile_SOURCES = %D%/unit/test_tcp_hostile.c $(GW_TCP_SITE)
%C%_unit_test_watch_SOURCES = %D%/unit/test_watch.c \
	cli/parent.c cli/parent.h cli/signals.c cli/signals.h cli/watch.c cli/watch.h
%C%_unit_test_bench_SOURCES = %D%/unit/test_bench.c \
	cli/bench/bench.h cli/bench/bench_rows.c cli/bench/bench_values.c
%C%_unit_test_doctor_SOURCES = %D%/unit/test_doctor.c $(GW_DOCTOR) \
	cli/cli.c cli/cli.h cli/host/pin_member.c cli/host/pin_member.h cli/room.c \
	cli/room.h $(GW_PIN)
%C%_unit_test_doctor_LDADD = $(LDADD) $(HWLOC_LIBS)
%C%_unit_test_pin_absent_SOURCES = %D%/unit/test_pin_absent.c \
	cli/host/pin.c cli/host/pin.h cli/host/pin_absent.c \
	cli/host/pin_host.h cli/host/pin_member.c cli/host/pin_member.h cli/host/pin_print.c \
	cli/host/pin_print.h
GW_PIN_PURE = cli/host/pin.c cli/host/pin.h cli/host/pin_print.c cli/host/pin_print.h \
	%D%/unit/pin_hosts.c %D%/unit/pin_hosts.h
%C%_unit_test_pin_SOURCES = %D%/unit/test_pin.c $(GW_PIN_PURE)
%C%_unit_test_pin_members_SOURCES = %D%/unit/test_pin_members.c $(GW_PIN_PURE)
%C%_unit_test_cpu_dense_SOURCES = %D%/unit/test_cpu_dense.c \
	%D%/table/reference.c %D%/table/reference.h
%C%_unit_test_estimate_SOURCES = %D%/unit/test_estimate.c \
	cli/amount.c cli/amount.h cli/plan/estimate.c cli/plan/estimate.h
%C%_unit_test_needs_SOURCES = %D%/unit/test_needs.c $(GW_NEEDS) \
	cli/available.c cli/available.h
%C%_unit_test_needs_gpu_SOURCES = %D%/unit/test_needs_gpu.c $(GW_NEEDS)
%C%_unit_test_network_SOURCES = %D%/unit/test_network.c \
	cli/lab/network.h cli/lab/network.c
%C%_unit_test_options_SOURCES = %D%/unit/test_options.c \
	cli/cli.c cli/cli.h cli/options.c cli/options.h cli/options_help.c
%C%_unit_test_placement_SOURCES = %D%/unit/test_placement.c \
	cli/lab/placement.h cli/lab/placement.c
%C%_unit_test_steady_SOURCES = %D%/unit/test_steady.c \
	cli/steady.c cli/steady.h
%C%_unit_test_straggle_SOURCES = %D%/unit/test_straggle.c \
	cli/lab/straggle.h cli/lab/straggle.c
%C%_unit_test_study_SOURCES = %D%/unit/test_study.c \
	cli/cli.c cli/cli.h cli/lab/network.c cli/lab/network.h \
	cli/lab/placement.c cli/lab/placement.h cli/lab/straggle.c \
	cli/lab/straggle.h cli/study/study.c cli/study/study.h cli/study/study_file.c cli/study/study_grid.h
%C%_unit_test_record_SOURCES = %D%/unit/test_record.c \
	cli/json.c cli/json.h cli/record.h cli/record.c
%C%_unit_test_tcp_addresses_SOURCES = \
	%D%/unit/test_tcp_addresses.c $(GW_WORLD)
%C%_unit_test_shm_ends_SOURCES = %D%/unit/test_shm_ends.c \
	%D%/unit/shm_peer.c %D%/unit/shm_peer.h $(GW_VICTIM)
%C%_unit_test_shm_hostile_SOURCES = %D%/unit/test_shm_hostile.c \
	%D%/unit/shm_peer.c %D%/unit/shm_peer.h $(GW_VICTIM)
%C%_unit_test_shm_meet_SOURCES = %D%/unit/test_shm_meet.c $(GW_SHM_COUPLE)
%C%_unit_test_shm_order_SOURCES = %D%/unit/test_shm_order.c $(GW_SHM_COUPLE)
%C%_unit_test_shm_wakes_SOURCES = %D%/unit/test_shm_wakes.c \
	%D%/unit/shm_peer.c %D%/unit/shm_peer.h $(GW_VICTIM)
%C%_unit_test_shm_processes_SOURCES = %D%/unit/test_shm_processes.c \
	%D%/unit/shm_peer.c %D%/unit/shm_peer.h $(GW_VICTIM)
%C%_unit_test_group_shapes_SOURCES = %D%/unit/test_group_shapes.c
%C%_unit_test_interfaces_SOURCES = %D%/unit/test_interfaces.c $(GW_COUPLE)
%C%_unit_test_turn_share_SOURCES = %D%/unit/test_turn_share.c $(GW_PAIR)
%C%_unit_test_tcp_flight_SOURCES = %D%/unit/test_tcp_flight.c $(GW_COUPLE)
%C%_unit_test_tcp_local_SOURCES = %D%/unit/test_tcp_local.c $(GW_COUPLE)
%C%_unit_test_model_SOURCES = %D%/unit/test_model.c $(GW_MODEL_SUBJECT)
%C%_unit_test_model_hooks_SOURCES = \
	%D%/unit/test_model_hooks.c $(GW_MODEL_SUBJECT)
%C%_unit_test_dataset_SOURCES = %D%/unit/test_dataset.c $(GW_DATA_BYTES)
%C%_unit_test_feed_SOURCES = \
	%D%/unit/test_feed.c $(GW_DATA_BYTES)
%C%_unit_test_dataset_batch_SOURCES = \
	%D%/unit/test_dataset_batch.c $(GW_DATA_BYTES)
%C%_unit_test_dataset_hostile_SOURCES = \
	%D%/unit/test_dataset_hostile.c $(GW_DATA_BYTES)
%C%_unit_test_dataset_kinds_SOURCES = \
	%D%/unit/test_dataset_kinds.c $(GW_DATA_BYTES)
endif

# of run/python.sh
EXTRA_DIST += \
	%D%/python/all.py \
	%D%/python/models.py \
	%D%/python/support.py \
	%D%/python/test_clients.py \
	%D%/python/test_numpy.py \
	%D%/python/test_torch_backend.py \
	%D%/python/test_torch_cuda.py \
	%D%/python/test_torch_errors.py \
	%D%/python/test_torch_habits.py \
	%D%/python/test_torch_passes.py \
	%D%/python/test_torch_servers.py \
	%D%/python/test_torch_sizes.py \
	%D%/python/test_torch_state.py \
	%D%/python/test_torch_worker.py \
	%D%/python/test_truth.py

# Measuring programs: run by hand, on a quiet machine.
EXTRA_DIST += %D%/perf/ddp.py %D%/perf/frontend.py \
	%D%/perf/frontend_hosts.py %D%/perf/gpu.py %D%/perf/gpu_torch.py \
	%D%/perf/jobs.py %D%/perf/netlab.py \
	%D%/perf/planned.py \
	%D%/perf/predicted.py %D%/perf/rdma.sh %D%/perf/slowed.py \
	%D%/perf/straggled.py \
	docs/studies/prediction.md
GW_BENCHES = \
	%D%/perf/bench_model
EXTRA_PROGRAMS += $(GW_BENCHES)
bench-programs: $(GW_BENCHES)
bench: bench-programs gradweir$(EXEEXT)
	./gradweir$(EXEEXT) bench && ./gradweir$(EXEEXT) bench sum
	@for program in $(GW_BENCHES); do \
	  echo "# $$program" && ./$$program || exit 1; done
# what policies keep of two unlike workers' speeds; needs python3
bench-slowed: gradweir$(EXEEXT)
	python3 $(srcdir)/tests/perf/slowed.py --gradweir ./gradweir$(EXEEXT)
# workers of one host that push their sum; needs python3 and root
bench-summed: gradweir$(EXEEXT)
	python3 $(srcdir)/tests/perf/summed.py --gradweir ./gradweir$(EXEEXT)
# jobs on slow networks, beside a simulated study; needs python3 and root
bench-predicted: gradweir$(EXEEXT)
	python3 $(srcdir)/tests/perf/predicted.py --gradweir ./gradweir$(EXEEXT)
# the example jobs on slow networks, beside their plans; needs python3 and root
bench-planned: gradweir$(EXEEXT)
	python3 $(srcdir)/tests/perf/planned.py --gradweir ./gradweir$(EXEEXT)
# sync and backup:1 under stragglers, beside their simulation
if HAVE_CMOCKA
EXTRA_PROGRAMS += %D%/perf/straggled
%C%_perf_straggled_SOURCES = %D%/perf/straggled.c $(GW_CLUSTER)
bench-rdma: gradweir$(EXEEXT)
	GW_BUILDDIR='$(abs_top_builddir)' GW_SRCDIR='$(abs_top_srcdir)' \
	  bash '$(srcdir)/tests/rdma/machine.sh' -t 600 -- \
	  sh '$(abs_top_srcdir)/tests/perf/rdma.sh'
bench-straggled: gradweir$(EXEEXT) %D%/perf/straggled$(EXEEXT)
	python3 $(srcdir)/tests/perf/straggled.py \
	  --gradweir ./gradweir$(EXEEXT) \
	  --simulator %D%/perf/straggled$(EXEEXT)
endif
# a GPU beside PyTorch on the same one; needs python3, and torch for most of it
GW_GPU_BENCHES = %D%/perf/gpu_ops %D%/perf/gpu_overlap
EXTRA_PROGRAMS += $(GW_GPU_BENCHES)
bench-gpu: gradweir$(EXEEXT) $(GW_GPU_BENCHES)
	@test ! '$(cudamodule_PROGRAMS)' || $(MAKE) $(cudamodule_PROGRAMS)
	GW_BUILDDIR='$(abs_top_builddir)' \
	  python3 $(srcdir)/tests/perf/gpu.py
.PHONY: bench-gpu
.PHONY: bench bench-rdma bench-planned bench-predicted bench-programs
.PHONY: bench-slowed bench-straggled bench-summed
CLEANFILES += $(EXTRA_PROGRAMS)

# The last lines of `make check`.
check-local: check-TESTS
	@$(SHELL) '$(srcdir)/tests/slowest.sh' $(TEST_LOGS)

# Parts of `make check`, and more than it. Sanitizers need a build of
# everything, so each has a build tree of its own in this one. A race ends the
# process that it is in: an exit code is easily lost in a job of many. Nor may the
# sanitizer sleep a second at each end, where a launcher waits for no more than two.
EXTRA_DIST += %D%/select.sh
GW_SELECT = $(SHELL) "$(abs_top_srcdir)"/tests/select.sh
check-quick:
	$(MAKE) check TESTS="`$(GW_SELECT) 'style unit table' $(TESTS) | xargs`"
check-run:
	$(MAKE) check TESTS="`$(GW_SELECT) run $(TESTS) | xargs`"
# those in virtual time, which others on the same processors only slow down, and
# all that remain
check-sim:
	$(MAKE) check TESTS="`$(GW_SELECT) sim $(TESTS) | xargs`"
check-real:
	$(MAKE) check TESTS="`$(GW_SELECT) -v sim $(TESTS) | xargs`"
check-rdma:
	$(MAKE) check TESTS="`echo $(TESTS) | tr ' ' '\n' | grep rdma/check.sh`"
# all that a machine with a GPU must show
if HAVE_CMOCKA
GW_GPU_NEEDS = gradweir$(EXEEXT) %D%/table/test_backends$(EXEEXT) \
	%D%/table/test_backend_layers$(EXEEXT) \
	%D%/table/test_backend_parts$(EXEEXT) \
	%D%/table/test_backend_shapes$(EXEEXT) $(GW_GPU_TESTS)
check-gpu: $(GW_GPU_NEEDS)
	@test ! '$(cudamodule_PROGRAMS)' || $(MAKE) $(cudamodule_PROGRAMS)
	@$(AM_TESTS_ENVIRONMENT) $(SHELL) '$(srcdir)/tests/gpu/check.sh'
endif
# and what is carried to one that has nothing of ours
EXTRA_DIST += %D%/gpu/check.sh %D%/gpu/pack.sh %D%/gpu/run.sh
pack-gpu:
	$(SHELL) '$(abs_top_srcdir)/tests/gpu/pack.sh' '$(abs_top_srcdir)/build-gpu'
.PHONY: check-gpu pack-gpu
check-includes:
	$(MAKE) check TESTS="`$(GW_SELECT) style $(TESTS) | xargs`"

GW_FORMAT = clang-format-14
GW_FORMATTED = find $(top_srcdir)/include $(top_srcdir)/proto \
	$(top_srcdir)/transport $(top_srcdir)/kernels $(top_srcdir)/server $(top_srcdir)/worker \
	$(top_srcdir)/cli $(top_srcdir)/tests -name '*.[ch]' -type f -print0
check-format:
	$(GW_FORMATTED) | xargs -0 $(GW_FORMAT) --dry-run -Werror
format:
	$(GW_FORMATTED) | xargs -0 $(GW_FORMAT) -i

# which tests a source has
tests-index:
	cd '$(srcdir)' && $(SHELL) tests/index.sh >tests/INDEX.md.tmp && \
	  mv tests/INDEX.md.tmp tests/INDEX.md
.PHONY: tests-index

check-sanitize: check-asan check-tsan
check-asan:
	$(MKDIR_P) build-asan
	cd build-asan && "$(abs_top_srcdir)"/configure --enable-asan --enable-ubsan
	cd build-asan && GW_FUZZ_SECONDS=0 $(MAKE) check \
	  TESTS="`$(GW_SELECT) 'unit table sim fuzz' $(TESTS) | xargs`"
# Simulated worlds that are divided among threads, and links between two.
GW_IN_THREADS = tests/unit/test_sim_host tests/unit/test_sim_worlds \
	tests/unit/test_shm_meet tests/unit/test_shm_order tests/sim/test_simulate
check-tsan:
	$(MKDIR_P) build-tsan
	cd build-tsan && "$(abs_top_srcdir)"/configure --enable-tsan
	cd build-tsan && TSAN_OPTIONS="halt_on_error=1 atexit_sleep_ms=100 $$TSAN_OPTIONS" \
	  GW_FUZZ_SECONDS=0 GW_TEST_SECONDS=1200 $(MAKE) check \
	  TESTS="`$(GW_SELECT) 'table run' $(TESTS) | xargs` $(GW_IN_THREADS)"
EXTRA_DIST += %D%/sim/defects.sh %D%/sim/defects.list
check-long: check-sanitize check-seeds check-defects
	GW_JOBS=1000 GW_KILLS=20 GW_PAUSE=30 GW_TEST_SECONDS=900 $(MAKE) check \
	  TESTS="`$(GW_SELECT) run $(TESTS) | grep -E 'api|kill|terminal' | xargs`"
	$(MKDIR_P) build-fuzz
	cd build-fuzz && "$(abs_top_srcdir)"/configure --enable-fuzz CC=clang
	cd build-fuzz && $(MAKE) check-fuzz FUZZ_SECONDS=300
check-defects:
	GW_SRCDIR="$(abs_top_srcdir)" $(SHELL) "$(abs_top_srcdir)"/tests/sim/defects.sh
check-seeds:
	GW_SIM_SEEDS=10000 $(MAKE) check TESTS=%D%/sim/test_policy_seeds
	GW_SIM_SEEDS=10000 $(MAKE) check TESTS=%D%/sim/test_switch_seeds
	GW_SIM_SEEDS=3000 $(MAKE) check TESTS=%D%/sim/test_deaths
	GW_SIM_SEEDS=10000 $(MAKE) check TESTS=%D%/sim/test_copies_seeds
	GW_SIM_SEEDS=10000 $(MAKE) check TESTS=%D%/sim/test_rejoin_copies
	GW_SIM_SEEDS=20000 $(MAKE) check TESTS=%D%/sim/test_seeds
.PHONY: check-quick check-run check-sim check-real check-rdma
.PHONY: check-includes check-format format
.PHONY: check-sanitize check-asan check-tsan check-long check-seeds
.PHONY: check-defects

# Faults at random for so many minutes, from that seed, and a table of them;
# three minutes of it are among the checks.
MINUTES = 3
SEED = 1
chaos: all
	@GW_SRCDIR="$(abs_top_srcdir)" GW_CHAOS_MINUTES='$(MINUTES)' \
	  GW_CHAOS_SEED='$(SEED)' $(SHELL) "$(abs_top_srcdir)"/tests/run/chaos.sh
.PHONY: chaos

# Frozen results of independent programs, with the scripts that made them.
EXTRA_DIST += \
	%D%/reference/data.py \
	%D%/reference/optimizers.inc \
	%D%/reference/optimizers.py \
	%D%/reference/gradweir.structs \
	%D%/reference/gradweir.symbols \
	%D%/run/structs.c \
	%D%/reference/library.safetensors \
	%D%/reference/model.py \
	%D%/reference/model.safetensors \
	%D%/reference/models.inc \
	%D%/reference/models.py \
	%D%/reference/policies.inc \
	%D%/reference/policies.py \
	%D%/reference/policies_mlp.inc \
	%D%/reference/safetensors.py \
	%D%/reference/x_f32_2d.npy \
	%D%/reference/x_f32_v2.npy \
	%D%/reference/x_u8_4d.npy \
	%D%/reference/y_i32.npy \
	%D%/reference/y_i64.npy \
	%D%/reference/y_u8.npy

# Fuzz targets: a line here, a file fuzz_NAME.c and seeds in corpus/NAME. They
# get their main from libFuzzer (--enable-fuzz), else from replay.c, which runs
# them over their corpora in `make check`. FUZZ_SECONDS are for each of them; make
# -j runs several at a time.
GW_FUZZ_TARGETS = \
	%D%/fuzz/fuzz_cifar \
	%D%/fuzz/fuzz_config \
	%D%/fuzz/fuzz_control \
	%D%/fuzz/fuzz_coordinator \
	%D%/fuzz/fuzz_follower \
	%D%/fuzz/fuzz_frame \
	%D%/fuzz/fuzz_idx \
	%D%/fuzz/fuzz_login \
	%D%/fuzz/fuzz_manifest \
	%D%/fuzz/fuzz_npy \
	%D%/fuzz/fuzz_safetensors \
	%D%/fuzz/fuzz_session \
	%D%/fuzz/fuzz_standby
GW_FUZZ_RUNS = $(GW_FUZZ_TARGETS:=.run)
FUZZ_SECONDS = 60

check_LIBRARIES = %D%/fuzz/libfuzz.a %D%/fuzz/libreplay.a
%C%_fuzz_libfuzz_a_SOURCES = %D%/fuzz/fuzz.h %D%/fuzz/fuzz_dataset.c \
	%D%/fuzz/council.c %D%/fuzz/council.h %D%/fuzz/input.c %D%/fuzz/input.h \
	%D%/fuzz/session.h %D%/fuzz/session_acts.c %D%/fuzz/session_acts.h \
	%D%/fuzz/session_send.c %D%/fuzz/session_world.c
%C%_fuzz_libreplay_a_SOURCES = %D%/fuzz/fuzz.h %D%/fuzz/replay.c
EXTRA_DIST += %D%/fuzz/check-fuzz.sh %D%/fuzz/corpus

if ENABLE_FUZZ
noinst_PROGRAMS += $(GW_FUZZ_TARGETS)
GW_FUZZ_MAIN = -fsanitize=fuzzer
fuzz-programs: $(BUILT_SOURCES)
	$(MAKE) $(GW_FUZZ_TARGETS)
check-fuzz: $(GW_FUZZ_RUNS)
$(GW_FUZZ_RUNS): fuzz-programs
	@$(SHELL) $(srcdir)/tests/fuzz/check-fuzz.sh '$(FUZZ_SECONDS)' \
		'$(srcdir)' $(@:.run=)
else
check_PROGRAMS += $(GW_FUZZ_TARGETS)
GW_FUZZ_MAIN = %D%/fuzz/libreplay.a
check-fuzz:
	@echo 'make check-fuzz needs libFuzzer: configure with --enable-fuzz CC=clang'
	@exit 1
endif
clean-local: clean-fuzz clean-machine clean-arm
	rm -rf build-asan build-tsan build-fuzz
# the kernel that tests/rdma/machine.sh has fetched
clean-machine:
	rm -rf rdma-machine rdma-machine.lock
# the libraries and the build of tests/run/arm.sh
clean-arm:
	rm -rf arm
clean-fuzz:
	rm -rf %D%/fuzz/findings %D%/fuzz/learnt
.PHONY: check-fuzz clean-arm clean-fuzz clean-machine fuzz-programs $(GW_FUZZ_RUNS)

$(GW_FUZZ_TARGETS): %D%/fuzz/libfuzz.a %D%/fuzz/libreplay.a
$(GW_FUZZ_TARGETS): LDADD := %D%/fuzz/libfuzz.a $(GW_FUZZ_MAIN) $(LDADD)
