/* worker/trainer/environment and gw_join_environment: the variables of
   launchers, and a line for each wrong one. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "proto/login.h"
#include "transport/member/secret_fd.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/join.h"

/* Every variable that the code looks at is unset. */
static int forget(void **state)
{
    static const char *const names[] = {"GRADWEIR_COORDINATOR",
                                        "GRADWEIR_SECRET_FD",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "RANK",
                                        "LOCAL_RANK",
                                        "WORLD_SIZE",
                                        "SLURM_PROCID",
                                        "SLURM_LOCALID",
                                        "SLURM_STEP_NUM_TASKS",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "MPI_LOCALRANKID",
                                        "PMI_SIZE"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return 0;
}

static void refuses(const char *name, const char *value, const char *line)
{
    struct gw_join_options options = {.rank = GW_RANK_NONE};
    struct gw_error error;
    forget(NULL);
    setenv("GRADWEIR_COORDINATOR", "127.0.0.1:7000", 1);
    setenv(name, value, 1);
    assert_true(gw_join_environment(&options, &error) != GW_OK);
    assert_string_equal(error.text, line);
}

static void a_program_learns_its_place(void **state)
{
    struct gw_join_options options = {.coordinator = "", .rank = GW_RANK_NONE};
    struct gw_error error;
    (void)state;
    setenv("GRADWEIR_COORDINATOR", "[::1]:7000", 1);
    setenv("RANK", "3", 1);
    assert_int_equal(gw_join_environment(&options, &error), GW_OK);
    assert_string_equal(options.coordinator, "[::1]:7000");
    assert_int_equal(options.rank, 3);
    assert_null(options.secret);
}

static void other_launchers_name_the_coordinator_too(void **state)
{
    struct gw_join_options options = {.rank = GW_RANK_NONE};
    struct gw_error error;
    (void)state;
    setenv("MASTER_ADDR", "::1", 1);
    setenv("MASTER_PORT", "7000", 1);
    assert_int_equal(gw_join_environment(&options, &error), GW_EUSAGE);
    assert_string_equal(error.text,
                        "MASTER_ADDR is set, and RANK is not: set RANK to the "
                        "number of this process, 0 to cluster.workers - 1, or "
                        "join by GRADWEIR_COORDINATOR alone");
    setenv("RANK", "3", 1);
    options = (struct gw_join_options){.rank = GW_RANK_NONE};
    assert_int_equal(gw_join_environment(&options, &error), GW_OK);
    assert_string_equal(options.coordinator, "[::1]:7000");
    assert_int_equal(options.rank, 3);
    setenv("GRADWEIR_COORDINATOR", "own:1", 1);
    unsetenv("RANK");
    options = (struct gw_join_options){.rank = GW_RANK_NONE};
    assert_int_equal(gw_join_environment(&options, &error), GW_OK);
    assert_string_equal(options.coordinator, "own:1");
}

static void options_win(void **state)
{
    struct gw_join_options options = {.coordinator = "host:1", .rank = 0};
    struct gw_error error;
    (void)state;
    setenv("GRADWEIR_COORDINATOR", "no address", 1);
    setenv("RANK", "no rank", 1);
    assert_int_equal(gw_join_environment(&options, &error), GW_OK);
    assert_string_equal(options.coordinator, "host:1");
    assert_int_equal(options.rank, 0);
}

/* Several programs of a worker may read the secret, one after the other. */
static void the_secret_can_be_read_again(void **state)
{
    struct gw_secret secret;
    struct gw_error error;
    char number[16];
    int fd;
    (void)state;
    memset(secret.byte, 7, sizeof secret.byte);
    assert_int_equal(gw_secret_lend(&secret, &fd, &error), GW_OK);
    assert_int_equal(write(fd, "x", 1), -1);
    snprintf(number, sizeof number, "%d", fd);
    setenv("GRADWEIR_COORDINATOR", "127.0.0.1:7000", 1);
    setenv("GRADWEIR_SECRET_FD", number, 1);
    for (int turn = 0; turn < 2; turn++) {
        struct gw_join_options options = {.rank = GW_RANK_NONE};
        assert_int_equal(gw_join_environment(&options, &error), GW_OK);
        assert_non_null(options.secret);
        assert_memory_equal(options.secret, &secret, sizeof secret);
    }
    close(fd);
}

static void a_wrong_one_is_told(void **state)
{
    struct gw_join_options options = {.rank = GW_RANK_NONE};
    struct gw_error error;
    (void)state;
    assert_int_equal(gw_join_environment(&options, &error), GW_EUSAGE);
    assert_string_equal(
        error.text,
        "no coordinator to join: start the program by gradweir run, or set "
        "GRADWEIR_COORDINATOR, or MASTER_ADDR, MASTER_PORT and RANK, to the "
        "address that the coordinator prints");
    refuses("GRADWEIR_COORDINATOR", "somewhere",
            "GRADWEIR_COORDINATOR: \"somewhere\" is no address: expected "
            "HOST:PORT or [IPV6]:PORT, with a port of 1..65535");
    refuses("GRADWEIR_SECRET_FD", "1",
            "GRADWEIR_SECRET_FD: takes a whole number, 3..1000, not \"1\"");
    close(900);
    refuses("GRADWEIR_SECRET_FD", "900",
            "GRADWEIR_SECRET_FD: a program between the launcher and this one "
            "has closed it: descriptor 900 has no secret of a launcher: Bad "
            "file descriptor");
    refuses("RANK", "-1",
            "RANK: takes a whole number, 0..4294967294, not \"-1\"");
}

static void the_world_has_the_size_of_the_job(void **state)
{
    struct gw_error error;
    (void)state;
    assert_int_equal(gw_environment_compare(2, NULL, &error), GW_OK);
    setenv("WORLD_SIZE", "2", 1);
    assert_int_equal(gw_environment_compare(2, NULL, &error), GW_OK);
    assert_int_equal(gw_environment_compare(3, NULL, &error), GW_EUSAGE);
    assert_string_equal(error.text,
                        "WORLD_SIZE is 2, but the job has 3 workers "
                        "(cluster.workers); start as many, or unset "
                        "WORLD_SIZE");
}

static void launchers_number_tasks(void **state)
{
    static const char *const places[] = {"MPI_LOCALRANKID",
                                         "OMPI_COMM_WORLD_LOCAL_RANK",
                                         "SLURM_LOCALID", "LOCAL_RANK"};
    char number[2] = "1";
    (void)state;
    assert_int_equal(gw_environment_place(9), 9);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        number[0] = (char)('1' + i);
        setenv(places[i], number, 1);
        assert_int_equal(gw_environment_place(9), 1 + i);
    }
    setenv("SLURM_PROCID", "1", 1);
    setenv("SLURM_STEP_NUM_TASKS", "3", 1); /* a server is among them */
    assert_int_equal(gw_environment_task(2), GW_RANK_NONE);
    assert_int_equal(gw_environment_task(3), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_program_learns_its_place, forget),
        cmocka_unit_test_setup(other_launchers_name_the_coordinator_too,
                               forget),
        cmocka_unit_test_setup(options_win, forget),
        cmocka_unit_test_setup(the_secret_can_be_read_again, forget),
        cmocka_unit_test_setup(a_wrong_one_is_told, forget),
        cmocka_unit_test_setup(the_world_has_the_size_of_the_job, forget),
        cmocka_unit_test_setup(launchers_number_tasks, forget),
    };
    return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}
