/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_views: the files of a view: from the command line, or named by the plan, which may be patterns and folders. */
#include "common/rows/flowcore.h"

#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>

static int add(struct ctr_flow_views *v, const char *view, size_t view_len, const char *path, struct ctr_err *err)
{
    char *a = NULL, *b = NULL;
    int rc = ctr_array_grow(&v->file, v->n, &v->cap, sizeof *v->file, err);
    if (!rc)
        rc = ctr_memdup(&a, view, view_len, err);
    if (!rc)
        rc = ctr_strdup(&b, path, err);
    if (rc) {
        free(a);
        free(b);
        return rc;
    }
    v->file[v->n++] = (struct ctr_flow_file){ a, b };
    return 0;
}

/* A file, the Parquet files of a folder, or what a list names. */
static int add_files(struct ctr_flow_views *v, const char *view, size_t view_len, const char *path, struct ctr_err *err)
{
    struct ctr_strs files = { 0 };
    int rc = ctr_parquet_files(&files, path, err);
    for (int i = 0; !rc && i < files.n; i++)
        rc = add(v, view, view_len, files.s[i], err);
    ctr_strs_free(&files);
    return rc;
}

void ctr_flow_views_free(struct ctr_flow_views *v)
{
    for (int i = 0; i < v->n; i++) {
        free((char *)(uintptr_t)v->file[i].view);
        free((char *)(uintptr_t)v->file[i].path);
    }
    free(v->file);
    *v = (struct ctr_flow_views){ 0 };
}

static bool has_view(const struct ctr_plan *plan, const char *name, size_t n)
{
    const struct ctr_plan_statement *s;
    for (int i = 0; (s = ctr_plan_statement(plan, i)); i++)
        if (s->view.name && strlen(s->view.name) == n && !memcmp(s->view.name, name, n))
            return true;
    return false;
}

/* "log, users and ads" */
static int names_of(const struct ctr_plan *plan, struct ctr_buf *b, struct ctr_err *err)
{
    const struct ctr_plan_statement *s;
    int rc = 0;
    for (int i = 0; !rc && (s = ctr_plan_statement(plan, i)); i++)
        if (s->view.name)
            rc = ctr_buf_printf(b, err, "%s%s", b->len ? ", " : "", s->view.name);
    return rc ? rc : ctr_buf_append(b, "", 1, err);
}

static int no_view(const struct ctr_plan *plan, const char *argument, struct ctr_err *err)
{
    struct ctr_buf names = { 0 };
    int rc = names_of(plan, &names, err);
    if (!rc)
        rc = ctr_fail(err, CTR_EUSAGE, "%s names no view of the plan: VIEW=FILE, of the views %s%s", argument,
                      (const char *)names.data,
                      strchr(argument, '=') ? "" : "; a table that the statements have made already goes with --table");
    ctr_buf_free(&names);
    return rc;
}

/* The files that a pattern of the plan names, in the order of the bytes of their names: patterns stand for themselves
 * in the folder of the plan. */
static int add_pattern(struct ctr_flow_views *v, const char *view, const char *folder, const char *pattern,
                       struct ctr_err *err)
{
    struct ctr_buf whole = { 0 };
    glob_t found = { 0 };
    int rc = 0;
    for (const char *p = folder; !rc && *p; p++)
        rc = ctr_buf_printf(&whole, err, "%s%c", strchr("*?[]\\", *p) ? "\\" : "", *p);
    if (!rc)
        rc = ctr_buf_append(&whole, pattern, strlen(pattern) + 1, err);
    const int failed = rc ? 0 : glob((const char *)whole.data, GLOB_NOSORT | GLOB_ERR, NULL, &found);
    if (failed == GLOB_NOSPACE)
        rc = ctr_fail_nomem(err, whole.len);
    else if (failed)
        rc = ctr_fail(err, CTR_EDATA, "%s%s: %s", folder, pattern,
                      failed == GLOB_NOMATCH ? "no file has such a name" : "a folder cannot be read");
    if (!rc)
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, ctr_by_text);
    for (size_t i = 0; !rc && i < found.gl_pathc; i++)
        rc = add_files(v, view, strlen(view), found.gl_pathv[i], err);
    globfree(&found);
    ctr_buf_free(&whole);
    return rc;
}

/* A file named by the plan is relative to the plan's folder. A plan in a model or a fitted plan must not open files.
 */
static int add_named(struct ctr_flow_views *v, const struct ctr_plan *plan, const struct ctr_plan_statement *s,
                     struct ctr_err *err)
{
    const struct ctr_view *view = &s->view;
    const char *dir = ctr_plan_dir(plan);
    struct ctr_buf path = { 0 };
    if (!view->path || ctr_plan_in_bundle(plan))
        return ctr_fail(err, CTR_EUSAGE, "line %d of the plan reads the view %s: name its file, %s=FILE%s", s->line,
                        view->name, view->name,
                        view->path ? " (a file that the plan of a model or fitted plan names is not opened unasked)"
                                   : "");
    const bool list = view->path[0] == '@';
    const char *name = view->path + list;
    const bool relative = dir && *name != '/';
    struct stat st;
    int rc = ctr_buf_printf(&path, err, "%s%s%s", list ? "@" : "", relative ? dir : "", relative ? "/" : "");
    const size_t folder = path.len;
    if (!rc)
        rc = ctr_buf_printf(&path, err, "%s", name);
    if (!rc)
        rc = ctr_buf_append(&path, "", 1, err);
    if (!rc && !list && strpbrk(view->path, "*?[") && stat((const char *)path.data, &st)) {
        path.data[folder] = 0;
        rc = add_pattern(v, view->name, (const char *)path.data, view->path, err);
    } else if (!rc) {
        rc = add_files(v, view->name, strlen(view->name), (const char *)path.data, err);
    }
    ctr_buf_free(&path);
    return rc;
}

int ctr_flow_views(struct ctr_flow_views *v, const struct ctr_plan *plan, char *const *arguments, int n,
                   struct ctr_err *err)
{
    const struct ctr_plan_statement *s;
    int rc = 0;
    for (int i = 0; !rc && i < n; i++) {
        const char *eq = strchr(arguments[i], '=');
        if (!eq || !has_view(plan, arguments[i], (size_t)(eq - arguments[i])))
            rc = no_view(plan, arguments[i], err);
        else if (!eq[1])
            rc = ctr_fail(err, CTR_EUSAGE, "%s names no file", arguments[i]);
        else
            rc = add_files(v, arguments[i], (size_t)(eq - arguments[i]), eq + 1, err);
    }
    for (int i = 0; !rc && (s = ctr_plan_statement(plan, i)); i++) {
        bool there = !s->view.name;
        for (int k = 0; k < v->n; k++)
            there |= s->view.name && !strcmp(v->file[k].view, s->view.name);
        if (!there)
            rc = add_named(v, plan, s, err);
    }
    if (rc)
        ctr_flow_views_free(v);
    return rc;
}

int ctr_flow_table(const struct ctr_plan *plan, const char *path, char *const *arguments, int n, struct ctr_err *err)
{
    if (!ctr_plan_statement(plan, 0))
        return ctr_fail(err, CTR_EUSAGE,
                        "--table is for a plan with statements, and %s has none: every input is its table", path);
    for (int i = 0; i < n; i++) {
        const char *eq = strchr(arguments[i], '=');
        struct stat st;
        if (eq && has_view(plan, arguments[i], (size_t)(eq - arguments[i])) && stat(arguments[i], &st))
            return ctr_fail(err, CTR_EUSAGE,
                            "%s: --table takes the FILE of a table that the statements have made, and no VIEW=FILE: "
                            "without --table they are run",
                            arguments[i]);
    }
    return 0;
}
