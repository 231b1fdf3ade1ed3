/* SPDX-License-Identifier: Apache-2.0
 *
 * ctrkit: the common entry point: lists the tools, runs one (ctrkit train = ctr-train), opens manuals, prints
 * completion scripts. */
#include "common/cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    bool list;
    const char *completion;
} o;

static const struct ctr_opt opts[] = {
    { "list", 0, CTR_OPT_FLAG, NULL, "list the tools, one per line", &o.list, CTR_OPT_LOCAL },
    { "completion", 0, CTR_OPT_CHOICE, "bash|zsh|fish", "print a completion script for the shell", &o.completion,
      CTR_OPT_LOCAL },
    { 0 },
};

/* All shells query the tool: its option table is the only list of options. Columns are those of the streams that the
 * line names already. */
static const char bash_completion[] =
    "_ctrkit_options() { \"$1\" ${2:+\"$2\"} --list-options 2>/dev/null; }\n"
    "_ctrkit_tools() { \"$1\" --list | sed -n 's/^ctr-\\([^ ]*\\).*/\\1/p'; }\n"
    "_ctrkit_columns() { local w; for w; do [ ! -f \"$w\" ] || ctr-export -q -f tsv --head 0 -- \"$w\" 2>/dev/null; "
    "done | "
    "tr '\\t' '\\n'; }\n"
    "_ctrkit() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} tool=$1 first=1 kind arg word= before=\n"
    "    if [ \"${1##*/}\" = ctrkit ]; then\n"
    "        case $COMP_CWORD,$prev in\n"
    "        1,*) COMPREPLY=($(compgen -W \"help $(_ctrkit_tools \"$1\") --list --completion --help --version\" -- "
    "\"$cur\")); return ;;\n"
    "        2,help) COMPREPLY=($(compgen -W \"$(_ctrkit_tools \"$1\")\" -- \"$cur\")); return ;;\n"
    "        esac\n"
    "        case ${COMP_WORDS[1]} in -*) ;; *) tool=ctr-${COMP_WORDS[1]} first=2 ;; esac\n"
    "    fi\n"
    "    [ $COMP_CWORD -le $first ] || word=${COMP_WORDS[first]} # options may depend on it\n"
    "    case $word in -*) word= ;; esac\n"
    "    IFS=$'\\t' read -r kind arg < <(_ctrkit_options \"$tool\" \"$word\" | awk -F'\\t' -v p=\"$prev\" '$1 == p || "
    "$2 == p { "
    "print $3 \"\\t\" $4; exit }')\n"
    "    case $kind in\n"
    "    choice) COMPREPLY=($(compgen -W \"${arg//|/ }\" -- \"$cur\")); return ;;\n"
    "    list) COMPREPLY=($(compgen -W \"${arg//|/ }\" -- \"${cur##*,}\"))\n"
    "        case $cur in *,*) COMPREPLY=(\"${COMPREPLY[@]/#/${cur%,*},}\") ;; esac\n"
    "        return ;;\n"
    "    columns) COMPREPLY=()\n"
    "        case $cur in *,*) before=${cur%,*}, ;; esac\n"
    "        while IFS= read -r arg; do # not compgen -W, which would run the commands in a name\n"
    "            [[ $before$arg != \"$cur\"* ]] || COMPREPLY+=(\"$before$arg\")\n"
    "        done < <(_ctrkit_columns \"${COMP_WORDS[@]:1}\")\n"
    "        return ;;\n"
    "    text|number|size|duration) return ;;\n"
    "    esac\n"
    "    case $cur in\n"
    "    -*) COMPREPLY=($(compgen -W \"$(_ctrkit_options \"$tool\" \"$word\" | awk -F'\\t' '{ print $1 } $3 == "
    "\"flag\" && "
    "$4 { print $1 \"=\" $4 }')\" -- \"$cur\")); return ;;\n"
    "    esac\n"
    "    arg=$(_ctrkit_options \"$tool\" | awk -F'\\t' '$3 == \"word\" { print $4 }')\n"
    "    for kind in ${arg//|/ }; do # is it there already?\n"
    "        case \" ${COMP_WORDS[*]:first:COMP_CWORD-first} \" in *\" $kind \"*) arg= ;; esac\n"
    "    done\n"
    "    COMPREPLY=($(compgen -W \"${arg//|/ }\" -- \"$cur\"))\n"
    "    [ -n \"$arg\" ] || mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "}\n";
/* compinit reads the first line word by word, literally: quotes would become part of the pattern. */
static const char zsh_completion[] =
    "#compdef ctrkit -P ctr-*\n"
    "_ctrkit_columns() {\n"
    "    local w; local -a names\n"
    "    for w in $words; do\n"
    "        [[ -f $w ]] && names+=(${(ps:\\t:)\"$(ctr-export -q -f tsv --head 0 -- $w 2>/dev/null)\"})\n"
    "    done\n"
    "    compset -P '*,'; compadd -a names\n"
    "}\n"
    "_ctrkit() {\n"
    "    local tool=$words[1] line name first=; local -a specs fields tools\n"
    "    if [[ ${tool:t} == ctrkit && $words[2] != -* ]]; then\n"
    "        if (( CURRENT == 2 )); then\n"
    "            tools=(${${(f)\"$($tool --list)\"}#ctr-}); compadd help ${tools%% *}; return\n"
    "        fi\n"
    "        if (( CURRENT == 3 )) && [[ $words[2] == help ]]; then\n"
    "            tools=(${${(f)\"$($tool --list)\"}#ctr-}); compadd ${tools%% *}; return\n"
    "        fi\n"
    "        tool=ctr-$words[2]; shift words; (( CURRENT-- ))\n"
    "    fi\n"
    "    [[ CURRENT -le 2 || $words[2] == -* ]] || first=$words[2] # options may depend on it\n"
    "    for line in ${(f)\"$($tool $first --list-options 2>/dev/null)\"}; do\n"
    "        fields=(\"${(@ps:\\t:)line}\")\n"
    "        local help=${fields[5]//[\\[\\]:]/ } action=\n"
    "        case $fields[3] in\n"
    "        flag) for name in $fields[1] $fields[2]; do specs+=(\"${name}[$help]\"); done; continue ;;\n"
    "        choice) action=\"(${fields[4]//|/ })\" ;;\n"
    "        list) action=\"_values -s , word ${fields[4]//|/ }\" ;;\n"
    "        columns) action=_ctrkit_columns ;;\n"
    "        word) specs+=(\"1:word:(${fields[4]//|/ })\"); continue ;;\n"
    "        file) action=_files ;;\n"
    "        esac\n"
    "        specs+=(\"*${fields[1]}=[$help]:value:$action\")\n"
    "        [[ -z $fields[2] ]] || specs+=(\"*${fields[2]}+[$help]:value:$action\")\n"
    "    done\n"
    "    _arguments -s $specs '*:file:_files'\n"
    "}\n"
    "_ctrkit \"$@\"\n";

/* The candidates of a word come from one function. */
static const char fish_completion[] =
    "function __ctrkit_columns # of the streams among the words\n"
    "    for word in (commandline -opc)[2..-1]\n"
    "        test -f \"$word\"; and ctr-export -q -f tsv --head 0 -- \"$word\" 2>/dev/null | string split -n \\t\n"
    "    end\n"
    "end\n"
    "function __ctrkit_tools\n"
    "    command $argv[1] --list | string replace -r '^ctr-(\\S+)\\s+(.*)$' '$1\\t$2'\n"
    "end\n"
    "function __ctrkit_complete\n"
    "    set -l words (commandline -opc)\n"
    "    set -l cur (commandline -ct)\n"
    "    set -l prev $words[-1]\n"
    "    set -l tool $words[1]\n"
    "    set -l first 2\n"
    "    if test (string replace -r '.*/' '' -- $tool) = ctrkit\n"
    "        if test (count $words) -eq 1\n"
    "            printf '%s\\n' help --list --completion --help --version\n"
    "            __ctrkit_tools $tool\n"
    "            return\n"
    "        else if test $words[2] = help\n"
    "            __ctrkit_tools $tool\n"
    "            return\n"
    "        else if not string match -q -- '-*' $words[2]\n"
    "            set tool ctr-$words[2]\n"
    "            set first 3\n"
    "        end\n"
    "    end\n"
    "    set -l word # options may depend on it\n"
    "    if test (count $words) -ge $first; and not string match -q -- '-*' $words[$first]\n"
    "        set word $words[$first]\n"
    "    end\n"
    "    set -l lines (command $tool $word --list-options 2>/dev/null)\n"
    "    set -l before (string replace -r '[^,=]*$' '' -- $cur) # of a list: what stands in front of its last word\n"
    "    for line in $lines\n"
    "        set -l f (string split \\t -- $line)\n"
    "        if test -n \"$f[1]\"; and contains -- $prev $f[1] $f[2]\n"
    "            switch $f[3]\n"
    "                case choice\n"
    "                    string split '|' -- $f[4]\n"
    "                    return\n"
    "                case list\n"
    "                    printf \"$before%s\\n\" (string split '|' -- $f[4])\n"
    "                    return\n"
    "                case columns\n"
    "                    printf \"$before%s\\n\" (__ctrkit_columns)\n"
    "                    return\n"
    "                case text number size duration\n"
    "                    return\n"
    "            end\n"
    "        end\n"
    "    end\n"
    "    for line in $lines\n"
    "        set -l f (string split \\t -- $line)\n"
    "        if string match -q -- '-*' $cur\n"
    "            test -n \"$f[1]\"; and printf '%s\\t%s\\n' $f[1] $f[5]\n"
    "        else if test \"$f[3]\" = word; and test -z \"$word\"\n"
    "            string split '|' -- $f[4]\n"
    "        end\n"
    "    end\n"
    "    string match -q -- '-*' $cur; or __fish_complete_path $cur\n"
    "end\n"
    "for tool in ctrkit (ctrkit --list 2>/dev/null | string replace -r ' .*' '')\n"
    "    complete -c $tool -f -a '(__ctrkit_complete)'\n"
    "end\n";

/* Tools that a build omits if their library is missing (Makefile), and how to get them. */
static const struct {
    const char *name, *library, *package;
} optional[] = {
    { "signals", "SQLite", "libsqlite3-dev" },
    { "embed-images", "libjpeg or no libpng", "libjpeg-dev and libpng-dev" },
};

/* This program, and its folder, which also contains the tools, unless it is all of them itself. */
struct place {
    char program[PATH_MAX], folder[PATH_MAX];
};

/* What becomes of arguments, where the tools are files beside this program:
 *
 *     ctrkit train lr …     exec FOLDER/ctr-train lr …
 *     ctrkit help train     man of FOLDER/../../../man/ctr-train.1 or that of an installation; without man or the file,
 *                           the text that the build put into this program (ctrkit_manuals)
 *     ctrkit help din       there is no ctr-din; find_owner finds "\f ctr-train-din.1" in the texts: ctr-train-din.1
 *     ctrkit trian          no_tool: "there is no tool 'trian'", and the nearest name
 *
 * In the single program (ctr_tools), tools are rows of a table, and run_tool executes the program itself by the tool's
 * name. Completion asks the tools at run time (--list-options), so scripts name no option. */

static int find_place(struct place *at, struct ctr_err *err)
{
    ssize_t n = readlink("/proc/self/exe", at->program, sizeof at->program - 1);
    char *slash;

    if (n < 0)
        return ctr_fail_sys(err, "/proc/self/exe");
    at->program[n] = 0;
    memcpy(at->folder, at->program, sizeof at->folder);
    if ((slash = strrchr(at->folder, '/')))
        *slash = 0;
    return 0;
}

static int is_tool(const struct dirent *e)
{
    return !strncmp(e->d_name, "ctr-", 4) && !strchr(e->d_name, '.');
}

/* A tool that is a part of this program. */
static const struct ctr_tool *linked_tool(const char *name)
{
    for (int i = 0; ctr_tools && ctr_tools[i]; i++)
        if (!strcmp(ctr_tools[i]->name, name))
            return ctr_tools[i];
    return NULL;
}

/* Their names, sorted. */
static int find_tools(const char *folder, struct ctr_strs *tools, struct ctr_err *err)
{
    struct dirent **e = NULL;
    int rc = 0, n = 0;

    for (int i = 0; ctr_tools && ctr_tools[i] && !rc; i++)
        if (!strncmp(ctr_tools[i]->name, "ctr-", 4))
            rc = ctr_strs_add(tools, ctr_tools[i]->name, strlen(ctr_tools[i]->name), err);
    if (ctr_tools)
        return rc;
    n = scandir(folder, &e, is_tool, alphasort);
    rc = n < 0 ? ctr_fail_sys(err, "%s", folder) : 0;
    for (int i = 0; i < n; i++) {
        if (!rc)
            rc = ctr_strs_add(tools, e[i]->d_name, strlen(e[i]->d_name), err);
        free(e[i]);
    }
    free(e);
    return rc;
}

/* "ctr-X - summary", the first paragraph of a tool's help, as one line. */
static void unwrap(char *text)
{
    char *to = text, *end = strstr(text, "\n\n");

    if (end)
        *end = 0;
    for (const char *p = text; *p; p++)
        if (*p != '\n')
            *to++ = *p;
        else {
            *to++ = ' ';
            p += strspn(p + 1, " ");
        }
    *to = 0;
}

static int print_summary(struct ctr_out *out, const char *folder, const char *tool, struct ctr_err *err)
{
    char path[2 * PATH_MAX + 128], text[64 << 10], *const args[] = { path, "--help", NULL };
    int fd[2], n;
    const struct ctr_tool *linked = linked_tool(tool);

    if (linked)
        return ctr_out_printf(out, err, "%-16s %s\n", tool, linked->summary);
    snprintf(path, sizeof path, "%s/%s", folder, tool);
    if (pipe(fd))
        return ctr_fail_sys(err, "pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd[1], STDOUT_FILENO);
        close(fd[0]);
        execv(path, args);
        _exit(127);
    }
    close(fd[1]);
    n = pid < 0 ? ctr_fail_sys(err, "fork") : (int)ctr_read_full(fd[0], text, sizeof text - 1, err);
    close(fd[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    if (n < 0)
        return n;
    text[n] = 0;
    unwrap(text);
    const char *dash = strstr(text, " - ");
    return ctr_out_printf(out, err, "%-16s %s\n", tool, dash ? dash + 3 : "");
}

static int list_tools(struct ctr_cli *cli, const char *folder, struct ctr_err *err)
{
    struct ctr_strs tools = { 0 };
    struct ctr_out *out = NULL;
    int rc = ctr_cli_out(cli, 0, &out, err);

    if (!rc)
        rc = find_tools(folder, &tools, err);
    for (int i = 0; i < tools.n && !rc; i++)
        rc = print_summary(out, folder, tools.s[i], err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_out_free(out);
    ctr_strs_free(&tools);
    return rc;
}

static int print_completion(struct ctr_cli *cli, const char *folder, struct ctr_err *err)
{
    bool bash = !strcmp(o.completion, "bash");
    const char *script = bash ? bash_completion : !strcmp(o.completion, "zsh") ? zsh_completion : fish_completion;
    struct ctr_strs tools = { 0 };
    struct ctr_out *out = NULL;
    int rc = ctr_cli_out(cli, 0, &out, err);

    if (!rc)
        rc = ctr_out_write(out, script, strlen(script), err);
    if (!rc && bash)
        rc = find_tools(folder, &tools, err);
    if (!rc && bash)
        rc = ctr_out_printf(out, err, "complete -o filenames -F _ctrkit ctrkit");
    for (int i = 0; i < tools.n && !rc; i++)
        rc = ctr_out_printf(out, err, " %s", tools.s[i]);
    if (!rc && bash)
        rc = ctr_out_write(out, "\n", 1, err);
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_out_free(out);
    ctr_strs_free(&tools);
    return rc;
}

/* The error for an unknown tool: names the nearest, or all. */
static int no_tool(const char *folder, const char *name, struct ctr_err *err)
{
    enum { TOOLS_MAX = 64 };
    const char *names[TOOLS_MAX];
    char hint[400];
    struct ctr_strs tools = { 0 };
    int n = 0, rc = find_tools(folder, &tools, err);

    for (size_t i = 0; i < CTR_COUNT(optional) && !rc; i++)
        if (!strcmp(name, optional[i].name))
            rc = ctr_fail(err, CTR_ESYS,
                          "ctr-%s was left out of this build, which found no %s: install it (%s, as `make deps` does), "
                          "then run `make` again",
                          name, optional[i].library, optional[i].package);
    for (; n < tools.n && n < TOOLS_MAX; n++)
        names[n] = tools.s[n] + strlen("ctr-");
    if (!rc)
        rc = ctr_cli_usage(err, "there is no tool '%s'%s", name, ctr_name_hint(hint, sizeof hint, name, names, n));
    ctr_strs_free(&tools);
    return rc;
}

/* The file of a page that belongs to this program: beside a build, or where `make install` puts it. */
static bool find_page(const char *folder, const char *pattern, char *path, size_t size)
{
    static const char *const manuals[] = { "../../../man", "../share/man/man1", "../share/man/man5",
                                           "../share/man/man7" };
    bool found = false;

    for (size_t i = 0; i < CTR_COUNT(manuals) && !found; i++) {
        snprintf(path, size, "%s/%s", folder, manuals[i]);
        DIR *d = opendir(path);
        for (struct dirent *e; d && !found && (e = readdir(d));)
            if ((found = !fnmatch(pattern, e->d_name, 0)))
                snprintf(path, size, "%s/%s/%s", folder, manuals[i], e->d_name);
        if (d)
            closedir(d);
    }
    return found;
}

/* All pages as text, which the build makes (mdoc-to-text.awk) and the assembler puts here. */
__asm__(".section .rodata\n"
        "ctrkit_manuals: .incbin \"" CTR_MANUALS "\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char ctrkit_manuals[];

/* The text of a page "NAME.SECTION", behind a line "\f NAME.SECTION"; NULL: there is none. */
static const char *page_text(const char *page, size_t *size)
{
    const size_t n = strlen(page);

    for (const char *at = ctrkit_manuals; (at = strstr(at, "\f ")); at++)
        if (!strncmp(at + 2, page, n) && at[2 + n] == '\n') {
            const char *text = strchr(at, '\n') + 1;
            *size = strcspn(text, "\f");
            return text;
        }
    return NULL;
}

/* Through a pager on a terminal. */
static int show_text(const char *page, struct ctr_err *err)
{
    size_t size = 0;
    const char *text = page_text(page, &size);

    if (!text)
        return ctr_fail(err, CTR_ESYS, "there is no manual page %s", page);
    FILE *pager = isatty(STDOUT_FILENO) ? popen("exec ${MANPAGER:-${PAGER:-more}}", "w") : NULL;
    fwrite(text, 1, size, pager ? pager : stdout);
    if (pager)
        pclose(pager);
    return 0;
}

/* By man or mandoc where there is one and the page's file is found, else as text. */
static int show_manual(const char *folder, const char *page, struct ctr_err *err)
{
    char pattern[160], path[2 * PATH_MAX + 128];
    int status = 1;

    snprintf(pattern, sizeof pattern, "%s*", page);
    if (find_page(folder, pattern, path, sizeof path)) {
        pid_t pid = fork();
        if (pid == 0) {
            execlp("man", "man", path, (char *)NULL);
            execlp("mandoc", "mandoc", isatty(STDOUT_FILENO) ? "-a" : "-Tutf8", path, (char *)NULL);
            _exit(127);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
            return ctr_fail_sys(err, "man %s", page);
    }
    return status ? show_text(page, err) : 0;
}

/* The tool with a page ctr-TOOL-WORD.1 for its first argument: train, for din. */
static bool find_owner(const char *word, char *tool, size_t size)
{
    char end[80];
    const int n = snprintf(end, sizeof end, "-%s.1\n", word);

    for (const char *at = ctrkit_manuals; n < (int)sizeof end && (at = strstr(at, "\f ctr-")); at++) {
        const char *name = at + strlen("\f ctr-"), *rest = name + strcspn(name, "-\n");
        if (!strncmp(rest, end, n)) {
            snprintf(tool, size, "%.*s", (int)(rest - name), name);
            return true;
        }
    }
    return false;
}

/* ctrkit help: this tool's help; ctrkit help train: a tool's manual; ctrkit help train lr, train-lr or lr: that of its
 * first argument. */
static int help(const struct place *at, const char *topic, const char *word, struct ctr_err *err)
{
    static const struct {
        const char *topic, *page;
    } others[] = {
        { "ctrkit", "ctrkit.1" },         { "tutorial", "ctrkit.7" },   { "plan", "ctr-plan.5" },
        { "stream", "ctr-stream.5" },     { "memory", "ctr-memory.7" }, { "ranks", "ctr-ranks.7" },
        { "cookbook", "ctr-cookbook.7" },
    };
    const char *const folder = at->folder;
    char page[128], owner[64];
    size_t size;

    if (!topic) {
        execl(at->program, "ctrkit", "--help", (char *)NULL);
        return ctr_fail_sys(err, "%s", at->program);
    }
    if (!strncmp(topic, "ctr-", 4))
        topic += 4;
    for (size_t i = 0; i < CTR_COUNT(others); i++)
        if (!strcmp(topic, others[i].topic))
            return show_manual(folder, others[i].page, err);
    snprintf(page, sizeof page, "ctr-%s.1", topic);
    bool known = page_text(page, &size);
    if (!known && !word && find_owner(topic, owner, sizeof owner)) {
        known = true;
        word = topic;
        topic = owner;
    }
    if (!known)
        return no_tool(folder, topic, err);
    snprintf(page, sizeof page, "ctr-%s%s%s.1", topic, word ? "-" : "", word ? word : "");
    return show_manual(folder, page, err);
}

static int run_tool(const struct place *at, char **args, struct ctr_err *err)
{
    char path[PATH_MAX + 64], name[64];

    snprintf(name, sizeof name, "ctr-%s", args[0]);
    if (ctr_tools) /* itself, by another name */
        snprintf(path, sizeof path, "%s", linked_tool(name) ? at->program : "");
    else
        snprintf(path, sizeof path, "%s/%s", at->folder, name);
    const char *asked = args[0];
    args[0] = name;
    errno = ENOENT;
    if (!strchr(asked, '/'))
        execv(path, args); /* args is the tail of argv and ends with NULL */
    return errno == ENOENT ? no_tool(at->folder, asked, err) : ctr_fail_sys(err, "%s", path);
}

static int open_door(struct ctr_cli *cli, struct ctr_err *err)
{
    struct place at;
    int rc = find_place(&at, err);

    if (rc)
        return rc;
    if (o.list)
        return list_tools(cli, at.folder, err);
    if (o.completion)
        return print_completion(cli, at.folder, err);
    if (!cli->nargs)
        return ctr_cli_usage(err, "name a tool: ctrkit --list shows them, ctrkit help TOOL opens a manual");
    if (!strcmp(cli->args[0], "help"))
        return help(&at, cli->args[1], cli->args[1] ? cli->args[2] : NULL, err);
    return run_tool(&at, cli->args, err);
}

const struct ctr_tool ctr_tool = { "ctrkit",
                                   "click-through-rate prediction as Unix filters: the front door",
                                   "TOOL [ARG…]\nhelp [TOOL [WORD]]\n--list",
                                   NULL,
                                   opts,
                                   CTR_TOOL_PREFIX,
                                   open_door };
