/* Files at paths that the user names: what gives way to them, and what not. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <cmocka.h>

#include "transport/link/output.h"

static char dir[32];

/* Each test has an empty directory, and stands in it. */
static int enter(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/gw-output-XXXXXX");
    return !mkdtemp(dir) || chdir(dir) != 0;
}

static int leave(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return chdir("/") != 0 || system(command) != 0;
}

static void make(const char *name, const char *text, mode_t mode)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(name, mode), 0);
}

static void holds(const char *name, const char *text)
{
    char found[64] = "";
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    found[fread(found, 1, sizeof found - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(found, text);
}

static mode_t mode_of(const char *name)
{
    struct stat info;
    assert_int_equal(lstat(name, &info), 0);
    return info.st_mode;
}

static enum gw_status write_to(const char *path)
{
    struct gw_output output;
    struct gw_error error;
    enum gw_status status = gw_output_open(path, &output, &error);
    if (status == GW_OK) {
        fputs("new", output.file);
        status = gw_output_commit(&output, &error);
    }
    if (status != GW_OK)
        assert_non_null(strstr(error.text, path));
    return status;
}

/* No temporary is left, whatever became of it. */
static void nothing_else_is_there(const char *name)
{
    char command[64];
    snprintf(command, sizeof command, "test \"$(ls -A)\" = '%s'", name);
    assert_int_equal(system(command), 0);
}

static void nothing_and_regular_files_give_way(void **state)
{
    (void)state;
    assert_int_equal(write_to("a"), GW_OK);
    holds("a", "new");
    make("a", "of before, and longer", 0640);
    assert_int_equal(write_to("a"), GW_OK);
    holds("a", "new");
    assert_int_equal(mode_of("a") & 07777, 0640);
    nothing_else_is_there("a");
}

static void what_is_given_up_leaves_what_was_there(void **state)
{
    (void)state;
    struct gw_output output;
    struct gw_error error;
    make("a", "old", 0644);
    assert_int_equal(gw_output_open("a", &output, &error), GW_OK);
    fputs("new", output.file);
    gw_output_abandon(&output);
    gw_output_abandon(&output);
    holds("a", "old");
    nothing_else_is_there("a");
}

static void links_stay_and_their_targets_are_written(void **state)
{
    (void)state;
    assert_int_equal(mkdir("d", 0755), 0);
    make("d/target", "old", 0644);
    assert_int_equal(symlink("target", "d/inner"), 0);
    assert_int_equal(symlink("d/inner", "link"), 0);
    assert_int_equal(write_to("link"), GW_OK);
    assert_true(S_ISLNK(mode_of("link")) && S_ISLNK(mode_of("d/inner")));
    holds("d/target", "new");
    /* a target that is not there is made, and not the link */
    assert_int_equal(symlink("d/none", "away"), 0);
    assert_int_equal(write_to("away"), GW_OK);
    assert_true(S_ISLNK(mode_of("away")));
    holds("d/none", "new");
    assert_int_equal(symlink("no/where", "broken"), 0);
    assert_int_equal(write_to("broken"), GW_ENOENT);
    assert_int_equal(symlink("round", "round"), 0);
    assert_int_equal(write_to("round"), GW_EIO);
}

static void fifos_are_written_into(void **state)
{
    (void)state;
    char found[8] = "";
    assert_int_equal(mkfifo("f", 0644), 0);
    int fd = open("f", O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    assert_int_equal(symlink("f", "to-f"), 0);
    assert_int_equal(write_to("to-f"), GW_OK);
    assert_int_equal(read(fd, found, sizeof found), 3);
    assert_memory_equal(found, "new", 3);
    close(fd);
    assert_true(S_ISFIFO(mode_of("f")));
}

/* A device as the system has it; for root a node of the test's own, lest a
   fault replaces the system's. Returns 0 where there can be none. */
static int make_device(const char *name, unsigned minor_number)
{
    char path[16];
    if (geteuid() != 0) {
        snprintf(path, sizeof path, "/dev/%s", name);
        return symlink(path, name) == 0;
    }
    return mknod(name, S_IFCHR | 0666, makedev(1, minor_number)) == 0 &&
           access(name, W_OK) == 0;
}

static void devices_are_written_into(void **state)
{
    (void)state;
    struct stat info;
    if (!make_device("null", 3) || !make_device("full", 7))
        skip(); /* a container, or a file system without devices */
    assert_int_equal(write_to("null"), GW_OK);
    assert_int_equal(write_to("full"), GW_ENOSPC);
    assert_true(stat("null", &info) == 0 && S_ISCHR(info.st_mode));
    assert_true(stat("full", &info) == 0 && S_ISCHR(info.st_mode));
}

/* /dev/stdout of a shell's redirection: the open file, not its name. */
static void open_files_are_written_into(void **state)
{
    (void)state;
    char path[32];
    struct stat info;
    make("a", "old,", 0644);
    int fd = open("a", O_RDWR);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_int_equal(write_to(path), GW_OK);
    holds("a", "old,new");
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_nlink, 1);
    close(fd);
}

static void directories_are_refused(void **state)
{
    (void)state;
    assert_int_equal(mkdir("d", 0755), 0);
    assert_int_equal(write_to("d"), GW_EIO);
    assert_int_equal(write_to("no/file"), GW_ENOENT);
    nothing_else_is_there("d");
}

/* Somebody put a link where the temporary will be: it is not followed. */
static void a_planted_temporary_is_not_followed(void **state)
{
    (void)state;
    char name[32];
    make("victim", "secret", 0600);
    snprintf(name, sizeof name, "a.%ld.tmp", (long)getpid());
    assert_int_equal(symlink("victim", name), 0);
    assert_int_equal(write_to("a"), GW_OK);
    holds("victim", "secret");
    holds("a", "new");
}

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(nothing_and_regular_files_give_way),
        IN_DIRECTORY(what_is_given_up_leaves_what_was_there),
        IN_DIRECTORY(links_stay_and_their_targets_are_written),
        IN_DIRECTORY(fifos_are_written_into),
        IN_DIRECTORY(devices_are_written_into),
        IN_DIRECTORY(open_files_are_written_into),
        IN_DIRECTORY(directories_are_refused),
        IN_DIRECTORY(a_planted_temporary_is_not_followed),
    };
    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
