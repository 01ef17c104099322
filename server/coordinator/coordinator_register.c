/*
 * The register of members in checkpoint.dir, by which another coordinator can
 * take the place of this one (server/checkpoint/membership.h): written when the
 * job runs and each member knows that it outlives its coordinator, and before
 * members hear of a later view.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/coordinator/coordinator_keep.h"

/* The time of a write in the simulator. */
#define WRITE_MODEL_US 500

struct gw_register {
    struct gw_coordinator *self;
    uint64_t opened_us, began_us;
    int is_due;            /* when each member knows of its start */
    int sums;              /* workers of a host push one sum */
    int is_there, is_lost; /* this one's is, or cannot be, which was told */
    int is_over;           /* the job ends: the register goes */
    int is_stale;          /* it has changed while it was being written */
    /* of the work, while it is busy */
    struct gw_work work;
    int busy;
    struct gw_membership membership;
    enum gw_status status;
    struct gw_error error;
};

enum gw_status gw_register_open(struct gw_coordinator *self,
                                struct gw_error *error)
{
    const struct gw_membership *before = gw_before(self);
    self->book = calloc(1, sizeof *self->book);
    if (!self->book)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    self->book->self = self;
    self->book->opened_us = gw_loop_now(self->loop);
    self->book->work =
        (struct gw_work){.owner = self->book, .model_us = WRITE_MODEL_US};
    self->book->is_there = before != NULL;
    self->book->sums = before && before->sums;
    return GW_OK;
}

void gw_register_close(struct gw_coordinator *self)
{
    free(self->book);
    self->book = NULL;
}

int gw_coordinator_is_outlived(const struct gw_coordinator *self)
{
    const struct gw_register *book = self->book;
    return book->is_there && !book->is_lost && self->phase < GW_PHASE_ENDING;
}

/* Splits of steps are known to shard 0 and to the coordinator alone. */
int gw_register_outlives(const struct gw_coordinator *self)
{
    const struct gw_config *config = self->config;
    return config->checkpoint.dir[0] && config->cluster.patience > 0 &&
           config->cluster.restarts > 0 && !self->splitter;
}

int gw_register_sums(const struct gw_coordinator *self)
{
    return self->book->sums;
}

void gw_register_begin(struct gw_coordinator *self, int sums)
{
    self->book->is_due = 1;
    self->book->sums = sums;
}

/* ---- writing ---- */

static void fill_member(const struct gw_seat *one,
                        struct gw_membership_member *member)
{
    *member = (struct gw_membership_member){.role = one->role,
                                            .caught = one->caught != 0,
                                            .id = one->id,
                                            .server = one->server,
                                            .thread = one->thread,
                                            .pid = one->pid,
                                            .incarnation = one->incarnation,
                                            .machine = one->machine};
    snprintf(member->host, sizeof member->host, "%s", one->host);
    gw_membership_digest(&one->secret, sizeof one->secret, member->secret);
}

/* The first list is made when the job runs. */
static uint64_t began_us(struct gw_coordinator *self)
{
    struct gw_register *book = self->book;
    const struct gw_membership *before = gw_before(self);
    if (before)
        return before->began_us;
    if (!book->began_us && self->options.unix_us)
        book->began_us =
            self->options.unix_us + gw_loop_now(self->loop) - book->opened_us;
    return book->began_us;
}

/* Not of a server that joins while the job runs, and has no shard yet, nor of
   somebody who is missing. */
static void fill_lists(struct gw_coordinator *self,
                       size_t members,
                       struct gw_membership *membership)
{
    for (const struct gw_seat *one = gw_roster_first(self);
         one && membership->members < members; one = one->next)
        if (one->peer && one->id != GW_RANK_NONE)
            fill_member(one, &membership->member[membership->members++]);
    for (size_t i = 0; i < membership->servers; i++)
        membership->threads[i] = gw_roster_threads(self, (uint32_t)i);
}

static enum gw_status fill(struct gw_coordinator *self,
                           struct gw_membership *membership)
{
    size_t members = gw_roster_members(self);
    size_t servers = (size_t)self->config->cluster.servers;
    *membership = (struct gw_membership){
        .job = self->job,
        .epoch = gw_member_epoch(self->member),
        .silence_us = self->silence_us,
        .began_us = began_us(self),
        .begin = gw_origin_state(self)->clock,
        .from = gw_origin_cut(self),
        .sums = gw_register_sums(self) != 0,
        .threads = calloc(servers, sizeof *membership->threads),
        .servers = servers,
        .member = calloc(members, sizeof *membership->member)};
    if (!membership->member || !membership->threads) {
        gw_membership_free(membership);
        return GW_ENOMEM;
    }
    snprintf(membership->address, sizeof membership->address, "%s",
             gw_member_address(self->member));
    snprintf(membership->token, sizeof membership->token, "%s",
             gw_origin_token(self));
    gw_membership_digest(self->job_text, strlen(self->job_text),
                         membership->text);
    fill_lists(self, members, membership);
    return GW_OK;
}

static void write_next(struct gw_register *book);
static void remove_it(struct gw_register *book);

/* On another thread: touches the disk, and what is the work's. A list of before
   would say of a server that is lost that it has its shards. */
static void run_write(struct gw_work *work)
{
    struct gw_register *book = work->owner;
    struct gw_disk *dir = gw_origin_dir(book->self);
    if (book->status == GW_OK)
        book->status =
            gw_membership_write(dir, &book->membership, &book->error);
    if (book->status != GW_OK)
        gw_membership_remove(dir);
}

static void take_result(struct gw_register *book)
{
    int is_news = book->status != GW_OK && !book->is_lost;
    gw_membership_free(&book->membership);
    book->is_there = book->status == GW_OK;
    book->is_lost = book->status != GW_OK;
    if (is_news)
        gw_coordinator_warn(book->self,
                            "the list of members cannot be kept, so the job "
                            "will not outlive its coordinator: %.300s",
                            book->error.text);
}

static void go_on(struct gw_register *book)
{
    if (!book->is_over)
        book->self->up->registered(book->self);
}

static void written(struct gw_work *work)
{
    struct gw_register *book = work->owner;
    book->busy = 0;
    take_result(book);
    if (book->is_over)
        remove_it(book);
    else if (book->is_stale)
        write_next(book);
    else
        go_on(book);
}

static void start(struct gw_register *book,
                  void (*run)(struct gw_work *work),
                  void (*done)(struct gw_work *work))
{
    book->busy = 1;
    book->work.run = run;
    book->work.done = done;
    gw_loop_work(book->self->loop, &book->work);
}

static void write_next(struct gw_register *book)
{
    book->is_stale = 0;
    book->status = fill(book->self, &book->membership);
    if (book->status != GW_OK)
        gw_fail(&book->error, book->status, "no memory");
    start(book, run_write, written);
}

void gw_register_write(struct gw_coordinator *self)
{
    struct gw_register *book = self->book;
    if (book->is_due || !gw_register_outlives(self) || book->is_over)
        go_on(book);
    else if (book->busy)
        book->is_stale = 1;
    else
        write_next(book);
}

/* ---- removing ---- */

static void run_remove(struct gw_work *work)
{
    struct gw_register *book = work->owner;
    gw_membership_remove(gw_origin_dir(book->self));
}

static void removed(struct gw_work *work)
{
    struct gw_register *book = work->owner;
    book->busy = book->is_there = 0;
}

static void remove_it(struct gw_register *book)
{
    if (book->is_there)
        start(book, run_remove, removed);
}

/* A disk that does not answer keeps nobody from hearing of the end. */
void gw_register_end(struct gw_coordinator *self)
{
    struct gw_register *book = self->book;
    book->is_over = 1;
    if (!book->busy)
        remove_it(book);
}

void gw_register_settle(struct gw_coordinator *self)
{
    struct gw_register *book = self->book;
    gw_loop_cancel(self->loop, &book->work);
    gw_membership_free(&book->membership);
    if (book->is_over && (book->is_there || book->busy))
        gw_membership_remove(gw_origin_dir(self));
}

/* ---- the first time ---- */

static int all_have_begun(const struct gw_coordinator *self)
{
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        if (!one->telling.started || gw_peer_untaken(one->peer) > 0)
            return 0;
    return 1;
}

void gw_register_maybe_write(struct gw_coordinator *self)
{
    struct gw_register *book = self->book;
    if (!book->is_due || self->phase != GW_PHASE_RUNNING ||
        !all_have_begun(self))
        return;
    book->is_due = 0;
    gw_register_write(self);
}
