/* The real disk beside a neighbour who puts links where files will be. */
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
#include <unistd.h>
#include <cmocka.h>

#include "transport/link/disk.h"

static char base[32];
static mode_t mask;
static struct gw_disk all = {.ops = &gw_disk_posix_ops}, dir;
static struct gw_error error;

/* Each test stands in an empty directory, and has entered d in it. */
static int enter(void **state)
{
    (void)state;
    mask = umask(022);
    strcpy(base, "/tmp/gw-disk-XXXXXX");
    if (!mkdtemp(base) || chdir(base) != 0 || mkdir("d", 0755) != 0)
        return -1;
    return all.ops->enter(&all, "d", &dir, &error) != GW_OK;
}

static int leave(void **state)
{
    (void)state;
    char command[64];
    umask(mask);
    if (dir.ops)
        dir.ops->leave(&dir);
    snprintf(command, sizeof command, "rm -rf %s", base);
    return chdir("/") != 0 || system(command) != 0;
}

static void make(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
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

static enum gw_status put(struct gw_disk *disk, const char *path)
{
    struct gw_file *file;
    enum gw_status status =
        disk->ops->open(disk, path, GW_FILE_CREATE, &file, &error);
    if (status != GW_OK)
        return status;
    status = disk->ops->write(file, 0, "new", 3, &error);
    disk->ops->close(file, NULL);
    return status;
}

static void new_files_are_not_written_through_links(void **state)
{
    (void)state;
    make("victim", "secret");
    assert_int_equal(symlink("../victim", "d/a.tmp"), 0);
    assert_int_equal(link("victim", "d/b.tmp"), 0);
    assert_int_equal(put(&dir, "a.tmp"), GW_OK);
    assert_int_equal(put(&dir, "b.tmp"), GW_OK);
    assert_int_equal(dir.ops->rename(&dir, "a.tmp", "a", &error), GW_OK);
    holds("victim", "secret");
    holds("d/a", "new");
    holds("d/b.tmp", "new");
    assert_true(S_ISREG(mode_of("d/a")));
}

static void a_link_for_a_directory_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mkdir("elsewhere", 0755), 0);
    make("elsewhere/a", "old");
    assert_int_equal(symlink("../elsewhere", "d/step"), 0);
    assert_int_equal(put(&dir, "step/a"), GW_EREFUSED);
    assert_non_null(strstr(error.text, "d/step/a"));
    assert_int_equal(dir.ops->make_dir(&dir, "step", &error), GW_EREFUSED);
    assert_int_equal(dir.ops->remove(&dir, "step/a", &error), GW_EREFUSED);
    assert_int_equal(dir.ops->rename(&dir, "step/a", "b", &error), GW_EREFUSED);
    assert_int_equal(dir.ops->rename(&dir, "b", "step/a", &error), GW_EREFUSED);
    holds("elsewhere/a", "old");
    /* the link itself can go */
    assert_int_equal(dir.ops->remove(&dir, "step", &error), GW_OK);
    assert_int_equal(dir.ops->make_dir(&dir, "step", &error), GW_OK);
    assert_int_equal(dir.ops->make_dir(&dir, "step", &error), GW_OK);
    assert_int_equal(put(&dir, "step/a"), GW_OK);
    holds("elsewhere/a", "old");
}

/* Another directory takes its place while a job runs. */
static void a_directory_that_was_entered_stays_the_same(void **state)
{
    (void)state;
    assert_int_equal(mkdir("elsewhere", 0755), 0);
    assert_int_equal(rename("d", "old"), 0);
    assert_int_equal(symlink("elsewhere", "d"), 0);
    assert_int_equal(put(&dir, "a"), GW_OK);
    holds("old/a", "new");
    assert_int_equal(access("elsewhere/a", F_OK), -1);
    dir.ops->leave(&dir);
    /* a user may have a link for a directory, to begin with */
    assert_int_equal(all.ops->enter(&all, "d", &dir, &error), GW_OK);
    assert_int_equal(put(&dir, "b"), GW_OK);
    holds("elsewhere/b", "new");
}

static void a_directory_that_is_gone_is_named(void **state)
{
    (void)state;
    assert_int_equal(rmdir("d"), 0);
    assert_int_equal(put(&dir, "a"), GW_ENOENT);
    assert_string_equal(error.text,
                        "cannot create d/a: the directory d was removed");
    assert_int_equal(dir.ops->make_dir(&dir, "e", &error), GW_ENOENT);
    assert_non_null(strstr(error.text, "the directory d was removed"));
}

static enum gw_status hold(const char *path, struct gw_file **file_p)
{
    return dir.ops->open(&dir, path, GW_FILE_HOLD, file_p, &error);
}

static void only_a_file_of_its_own_is_held(void **state)
{
    (void)state;
    struct gw_file *file, *second;
    make("victim", "secret");
    assert_int_equal(symlink("../victim", "d/link"), 0);
    assert_int_equal(symlink("../none", "d/loose"), 0);
    assert_int_equal(link("victim", "d/name"), 0);
    assert_int_equal(mkfifo("d/fifo", 0644), 0);
    const char *const planted[] = {"link", "loose", "name", "fifo"};
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        assert_int_equal(hold(planted[i], &file), GW_EREFUSED);
        assert_non_null(strstr(error.text, planted[i]));
    }
    holds("victim", "secret");
    assert_int_equal(access("none", F_OK), -1);
    /* one that a job left, which was killed, is taken over */
    make("d/token", "old");
    assert_int_equal(hold("token", &file), GW_OK);
    holds("d/token", "");
    assert_int_equal(hold("token", &second), GW_EEXIST);
    dir.ops->close(file, NULL);
}

static enum gw_status look(const char *path)
{
    struct gw_file *file;
    enum gw_status status =
        dir.ops->open(&dir, path, GW_FILE_READ, &file, &error);
    if (status == GW_OK)
        dir.ops->close(file, NULL);
    return status;
}

/* A FIFO without a writer must not stop who looks. */
static void regular_files_are_read_through_links_too(void **state)
{
    (void)state;
    make("d/a", "text");
    assert_int_equal(symlink("a", "d/link"), 0);
    assert_int_equal(mkfifo("d/fifo", 0644), 0);
    assert_int_equal(look("a"), GW_OK);
    assert_int_equal(look("link"), GW_OK);
    assert_int_equal(look("b"), GW_ENOENT);
    assert_int_equal(look("fifo"), GW_EIO);
    assert_string_equal(error.text, "d/fifo is no regular file");
    assert_int_equal(look("."), GW_EIO);
}

static void what_is_made_is_private_unless_asked(void **state)
{
    (void)state;
    struct gw_file *file;
    assert_int_equal(put(&dir, "a"), GW_OK);
    assert_int_equal(dir.ops->make_dir(&dir, "s", &error), GW_OK);
    assert_int_equal(hold("t", &file), GW_OK);
    dir.ops->close(file, NULL);
    assert_int_equal(mode_of("d/a") & 07777, 0600);
    assert_int_equal(mode_of("d/t") & 07777, 0600);
    assert_int_equal(mode_of("d/s") & 07777, 0700);
    dir.access = GW_ACCESS_UMASK;
    assert_int_equal(put(&dir, "b"), GW_OK);
    assert_int_equal(dir.ops->make_dir(&dir, "u", &error), GW_OK);
    assert_int_equal(mode_of("d/b") & 07777, 0644);
    assert_int_equal(mode_of("d/u") & 07777, 0755);
}

static int is_doubted(mode_t mode)
{
    char text[256] = "";
    assert_int_equal(chmod("d", mode), 0);
    int doubted = dir.ops->doubt(&dir, text, sizeof text);
    assert_int_equal(doubted, text[0] != '\0');
    return doubted;
}

static void directories_that_others_may_fill_are_doubted(void **state)
{
    (void)state;
    assert_false(is_doubted(0700));
    assert_false(is_doubted(0755));
    assert_false(is_doubted(0775)); /* a group is trusted */
    assert_false(is_doubted(01777));
    assert_true(is_doubted(0777));
    if (geteuid() != 0)
        skip(); /* nobody else's directory can be made */
    assert_int_equal(chmod("d", 0755), 0);
    assert_int_equal(chown("d", 65534, 65534), 0);
    assert_true(is_doubted(0755));
    /* nor is a directory in it taken for ours that is a third user's */
    assert_int_equal(mkdir("d/s", 0777), 0);
    assert_int_equal(chown("d/s", 65533, 65533), 0);
    assert_int_equal(dir.ops->make_dir(&dir, "s", &error), GW_EREFUSED);
}

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(new_files_are_not_written_through_links),
        IN_DIRECTORY(a_link_for_a_directory_is_refused),
        IN_DIRECTORY(a_directory_that_was_entered_stays_the_same),
        IN_DIRECTORY(a_directory_that_is_gone_is_named),
        IN_DIRECTORY(only_a_file_of_its_own_is_held),
        IN_DIRECTORY(regular_files_are_read_through_links_too),
        IN_DIRECTORY(what_is_made_is_private_unless_asked),
        IN_DIRECTORY(directories_that_others_may_fill_are_doubted),
    };
    return cmocka_run_group_tests_name("disk", tests, NULL, NULL);
}
