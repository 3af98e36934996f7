/* SPDX-License-Identifier: BSD-3-Clause */
/* The terminal view: the text of --once, again and again, in a window that can be moved over it. */
#include "tools/top/screen.h"
#include "tools/top/graph.h"
#include "tools/top/print.h"

#include <curses.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <unistd.h>

struct window {
    int top, left; /* what of the text is in the corner */
    int rows;      /* of the text */
    bool paused;
};

static char *text_of(const struct top_job *job)
{
    char *text = NULL;
    size_t bytes;
    FILE *memory = open_memstream(&text, &bytes);

    if (!memory)
        return NULL;
    top_print(memory, job);
    fclose(memory);
    return text;
}

static bool is_alarming(const char *line)
{
    return strstr(line, "deadlock") || strstr(line, "is dead") || strstr(line, " dead ");
}

static void show_line(int y, const char *line, const struct window *window, int row)
{
    int skip = (int)strlen(line) < window->left ? (int)strlen(line) : window->left;
    attr_t look = row == 0            ? A_BOLD
                  : row == 1          ? A_REVERSE
                  : is_alarming(line) ? A_BOLD | A_STANDOUT
                                      : A_NORMAL;

    attrset(look);
    mvaddnstr(y, 0, line + skip, COLS);
    attrset(A_NORMAL);
}

static void show(const struct top_job *job, struct window *window)
{
    char *text = text_of(job), *rest = text, *line;
    int row = 0, last;

    erase();
    for (; text && (line = strsep(&rest, "\n")); row++)
        /* The two head lines stay, the rest moves under them. */
        if (row < 2)
            show_line(row, line, window, row);
        else if (row >= 2 + window->top && row - window->top < LINES - 1)
            show_line(row - window->top, line, window, row);
    window->rows = row;
    last = window->rows - LINES + 1;
    if (window->top > (last > 0 ? last : 0))
        window->top = last > 0 ? last : 0;
    attrset(A_DIM);
    mvaddnstr(LINES - 1, 0,
              window->paused ? "paused   space: go on   arrows: move   q: quit"
                             : "q: quit   space: pause   arrows: move",
              COLS);
    attrset(A_NORMAL);
    refresh();
    free(text);
}

static void move_to(struct window *window, int top, int left)
{
    window->top = top < 0 ? 0 : top;
    window->left = left < 0 ? 0 : left;
}

/* False: quit. */
static bool handle(int key, struct window *window)
{
    switch (key) {
    case 'q':
    case 'Q':
    case 3:
        return false;
    case ' ':
        window->paused = !window->paused;
        break;
    case KEY_DOWN:
        move_to(window, window->top + 1, window->left);
        break;
    case KEY_UP:
        move_to(window, window->top - 1, window->left);
        break;
    case KEY_NPAGE:
        move_to(window, window->top + LINES / 2, window->left);
        break;
    case KEY_PPAGE:
        move_to(window, window->top - LINES / 2, window->left);
        break;
    case KEY_HOME:
        move_to(window, 0, 0);
        break;
    case KEY_RIGHT:
        move_to(window, window->top, window->left + 8);
        break;
    case KEY_LEFT:
        move_to(window, window->top, window->left - 8);
        break;
    default:
        break;
    }
    return true;
}

static int start(void)
{
    int known = 0;
    /* Asked first: newterm() keeps memory when it fails, and initscr() would end the program by itself. */
    bool found = setupterm(NULL, STDOUT_FILENO, &known) == OK;

    if (found)
        del_curterm(cur_term);
    if (!found || !newterm(NULL, stdout, stdin)) {
        fprintf(stderr, "nigh-top: the terminal \"%s\" is not known here: set TERM, or use --once\n",
                getenv("TERM") ? getenv("TERM") : "");
        return 1;
    }
    raw();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    return 0;
}

int top_screen(struct top_job *job, double seconds)
{
    struct window window = {0};
    uint64_t next = top_now_ns();
    bool goes_on = true;
    int status = start();

    if (status)
        return status;
    while (goes_on) {
        uint64_t now = top_now_ns();
        int key;

        if (!window.paused && now >= next) {
            top_refresh(job);
            next = now + (uint64_t)(seconds * 1e9);
        }
        show(job, &window);
        timeout(window.paused ? -1 : (int)((next - now) / 1000000) + 1);
        key = getch();
        /* A terminal that has gone away ends it, too. */
        goes_on = key == ERR ? isatty(STDIN_FILENO) != 0 : handle(key, &window);
    }
    endwin();
    return 0;
}
