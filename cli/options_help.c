/* A command's --help and its list of options, out of its table. */
#include "config.h"

#include "cli/options.h"

#include <string.h>

#define COLUMNS 79

/* The place of the next word. */
struct page {
    FILE *to;
    size_t column, indent; /* end of this line; begin of following lines */
};

/* A word ends at a space outside brackets and quotes. */
static size_t word_bytes(const char *text)
{
    int depth = 0, quoted = 0;
    size_t n = 0;
    for (; text[n] && (text[n] != ' ' || depth > 0 || quoted); n++) {
        depth += (text[n] == '[') - (text[n] == ']');
        quoted ^= text[n] == '"';
    }
    return n;
}

static void put_word(struct page *page, const char *word, size_t bytes)
{
    if (page->column > page->indent) {
        int fits = page->column + 1 + bytes <= COLUMNS;
        if (!fits) {
            fputc('\n', page->to);
            page->column = 0;
        }
        fprintf(page->to, "%*s", fits ? 1 : (int)page->indent, "");
        page->column += fits ? 1 : page->indent;
    }
    fwrite(word, 1, bytes, page->to);
    page->column += bytes;
}

static void put_text(struct page *page, const char *text)
{
    while (*text) {
        size_t bytes = word_bytes(text);
        put_word(page, text, bytes);
        text += bytes + (text[bytes] == ' ');
    }
}

/* ---- usage ---- */

/* Every option that the usage does not name itself. */
static void put_options(struct page *page, const struct gw_command *command)
{
    char word[96];
    for (const struct gw_option *row = command->options; row->name; row++) {
        snprintf(word, sizeof word, "--%s", row->name);
        if (!row->help || strstr(command->usage, word))
            continue;
        snprintf(word, sizeof word, "[--%s%s%s%s]", row->name,
                 row->argument ? " " : "", row->argument ? row->argument : "",
                 row->repeats ? " ..." : "");
        put_word(page, word, strlen(word));
    }
}

static void
put_usage(const struct gw_command *command, const char *form, FILE *to)
{
    static const char all[] = "[OPTIONS]";
    const char *lead = form == command->usage ? "Usage:" : "";
    size_t indent =
        (size_t)fprintf(to, "%-6s gradweir %s ", lead, command->name);
    struct page page = {.to = to, .column = indent, .indent = indent};
    size_t end = strcspn(form, "\n");
    for (size_t at = 0; at < end;) {
        size_t bytes = word_bytes(form + at);
        if (bytes > end - at)
            bytes = end - at;
        if (bytes == sizeof all - 1 && memcmp(form + at, all, bytes) == 0)
            put_options(&page, command);
        else
            put_word(&page, form + at, bytes);
        at += bytes + (form[at + bytes] == ' ');
    }
    fputc('\n', to);
}

/* ---- rows ---- */

static size_t row_bytes(const struct gw_option *row, const char *dashes)
{
    return strlen(dashes) + strlen(row->name) +
           (row->argument ? 1 + strlen(row->argument) : 0);
}

/* The widest row of a table, or `width`. */
static size_t
widest(const struct gw_option *row, const char *dashes, size_t width)
{
    for (; row && row->name; row++)
        if (row->help && row_bytes(row, dashes) > width)
            width = row_bytes(row, dashes);
    return width;
}

static void
put_row(const struct gw_option *row, const char *dashes, size_t width, FILE *to)
{
    struct page page = {.to = to, .indent = 2 + width + 2};
    fprintf(to, "  %s%s%s%s", dashes, row->name, row->argument ? " " : "",
            row->argument ? row->argument : "");
    fprintf(to, "%*s", (int)(width - row_bytes(row, dashes) + 2), "");
    page.column = page.indent;
    put_text(&page, row->help);
    fputc('\n', to);
}

static void put_rows(const struct gw_option *row,
                     const char *dashes,
                     size_t width,
                     FILE *to)
{
    for (; row && row->name; row++)
        if (row->help)
            put_row(row, dashes, width, to);
}

void gw_options_help(const struct gw_command *command, FILE *to)
{
    static const struct gw_option help = {.name = "help", .help = "this text"};
    size_t width = row_bytes(&help, "--");
    width = widest(command->words, "", width);
    width = widest(command->options, "--", width);
    for (const char *form = command->usage; form; form = strchr(form, '\n')) {
        form += *form == '\n';
        put_usage(command, form, to);
    }
    fprintf(to, "\n%s\n\n", command->about);
    put_rows(command->words, "", width, to);
    if (command->words)
        fputc('\n', to);
    put_rows(command->options, "--", width, to);
    put_row(&help, "--", width, to);
}

static void list_rows(const char *command,
                      const struct gw_option *row,
                      const char *dashes,
                      FILE *to)
{
    for (; row && row->name; row++)
        if (row->help)
            fprintf(to, "%s %s%s%s%s\n    %s.\n", command, dashes, row->name,
                    row->argument ? " " : "",
                    row->argument ? row->argument : "", row->help);
}

void gw_options_list(const struct gw_command *command, FILE *to)
{
    list_rows(command->name, command->words, "", to);
    list_rows(command->name, command->options, "--", to);
}
