/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of variants. See variants.h. */
#include "common/lr/lr.h"
#include "common/lr/variants.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 20 };

#define BLANK " \t\r"

/* Options that a line may set; the others apply to all rows or to the run. */
static const char *const own[] = { "alpha",     "beta",          "l1",    "l2",       "precision", "bias",
                                   "optimizer", "learning-rate", "power", "threshold" };

struct parser {
    struct ctr_variants *vs;
    const struct ctr_params *base;
    struct ctr_variant *v; /* of the current line */
    int line;
    unsigned set; /* bit set of `own` options that this line sets */
    struct ctr_err *err;
};

static int fail(const struct parser *p, const char *what, struct ctr_str s)
{
    return ctr_fail(p->err, CTR_EUSAGE, "%s: line %d: %s '%.*s'", p->vs->path, p->line, what, (int)CTR_MIN(s.n, 80),
                    s.p);
}

static bool name_char(char c, bool first)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return letter || (!first && (c == '_' || c == '-' || c == '.'));
}

static int take_name(struct parser *p, struct ctr_str s)
{
    bool right = s.n <= CTR_MAX_VARIANT_NAME;
    for (size_t i = 0; i < s.n; i++)
        right &= name_char(s.p[i], i == 0);
    if (!right)
        return fail(p,
                    "a name is letters, digits, '_', '-' and '.', at most 64, and begins with a letter or digit:", s);
    for (int i = 0; i < p->vs->n; i++)
        if (strlen(p->vs->v[i].name) == s.n && !memcmp(p->vs->v[i].name, s.p, s.n)) {
            char what[64];
            snprintf(what, sizeof what, "line %d has that name already:", p->vs->v[i].line);
            return fail(p, what, s);
        }
    p->v->name = strndup(s.p, s.n);
    return p->v->name ? 0 : ctr_fail_nomem(p->err, s.n);
}

static int take_patterns(struct parser *p, struct ctr_strs *to, struct ctr_str s)
{
    for (size_t at = 0; at <= s.n;) {
        const char *comma = memchr(s.p + at, ',', s.n - at);
        size_t n = comma ? (size_t)(comma - s.p) - at : s.n - at;
        if (!n)
            return fail(p, "an empty pattern in", s);
        int rc = ctr_strs_add(to, s.p + at, n, p->err);
        if (rc)
            return rc;
        at += n + 1;
    }
    return 0;
}

static int take_weight(struct parser *p, struct ctr_str s)
{
    struct ctr_strs *all = &p->vs->weights;
    if (!s.n)
        return fail(p, "weight wants a column, not", s);
    p->v->weight = ctr_strs_find_n(all, s.p, s.n);
    if (p->v->weight >= 0)
        return 0;
    p->v->weight = all->n;
    return ctr_strs_add(all, s.p, s.n, p->err);
}

static int take_option(struct parser *p, struct ctr_str s)
{
    const char *eq = memchr(s.p, '=', s.n);
    if (!eq)
        return fail(p, "wants option=value, in=PATTERN,…, out=PATTERN,… or weight=COLUMN, not", s);
    struct ctr_str name = { s.p, (size_t)(eq - s.p) }, value = { eq + 1, s.n - (size_t)(eq - s.p) - 1 };
    struct ctr_strs *patterns = name.n == 2 && !memcmp(name.p, "in", 2)    ? &p->v->in
                                : name.n == 3 && !memcmp(name.p, "out", 3) ? &p->v->out
                                                                           : NULL;
    if (patterns)
        return patterns->n ? fail(p, "given twice:", name) : take_patterns(p, patterns, value);
    if (name.n == strlen("weight") && !memcmp(name.p, "weight", name.n))
        return p->v->weight >= 0 ? fail(p, "given twice:", name) : take_weight(p, value);
    for (size_t i = 0; i < CTR_COUNT(own); i++) {
        struct ctr_err inner = { 0 };
        if (strlen(own[i]) != name.n || memcmp(own[i], name.p, name.n))
            continue;
        if (p->set >> i & 1)
            return fail(p, "given twice:", name);
        p->set |= 1u << i;
        if (ctr_params_set(&ctr_model_lr, &p->v->params, name, value, &inner))
            return ctr_fail(p->err, CTR_EUSAGE, "%s: line %d: %s", p->vs->path, p->line, inner.what);
        return 0;
    }
    return fail(
        p,
        "a variant can have alpha, beta, l1, l2, precision, bias, optimizer, learning-rate, power, threshold, in, out "
        "and weight of its own, not",
        s);
}

/* "name option=value …" in canonical form: equal for equal training. */
static int append_text(struct parser *p)
{
    struct ctr_buf *b = &p->vs->text;
    int rc = ctr_buf_printf(b, p->err, "%s ", p->v->name);
    if (!rc)
        rc = ctr_params_text(&ctr_model_lr, &p->v->params, b, p->err);
    for (int i = 0; i < p->v->in.n && !rc; i++)
        rc = ctr_buf_printf(b, p->err, " in=%s", p->v->in.s[i]);
    for (int i = 0; i < p->v->out.n && !rc; i++)
        rc = ctr_buf_printf(b, p->err, " out=%s", p->v->out.s[i]);
    if (p->v->weight >= 0 && !rc)
        rc = ctr_buf_printf(b, p->err, " weight=%s", p->vs->weights.s[p->v->weight]);
    return rc ? rc : ctr_buf_printf(b, p->err, "\n");
}

static int take_line(struct parser *p, const char *s, size_t n)
{
    const char *comment = memchr(s, '#', n);
    bool named = false;
    int rc = 0;
    n = comment ? (size_t)(comment - s) : n;
    if (memchr(s, 0, n))
        return fail(p, "a zero byte after", (struct ctr_str){ s, strnlen(s, n) });
    while (n && !rc) {
        size_t blank = 0, word = 0;
        while (blank < n && strchr(BLANK, s[blank]))
            blank++;
        s += blank;
        n -= blank;
        while (word < n && !strchr(BLANK, s[word]))
            word++;
        if (!word)
            break;
        if (!named) {
            if (p->vs->n >= CTR_MAX_VARIANTS)
                return fail(p, "more than 1024 variants: no room for", (struct ctr_str){ s, word });
            p->v = &p->vs->v[p->vs->n];
            memset(p->v, 0, sizeof *p->v);
            p->v->params = *p->base;
            p->v->line = p->line;
            p->v->weight = -1;
            p->set = 0;
        }
        rc = named ? take_option(p, (struct ctr_str){ s, word }) : take_name(p, (struct ctr_str){ s, word });
        if (!named && !rc)
            p->vs->n++;
        named = true;
        s += word;
        n -= word;
    }
    return rc || !named ? rc : append_text(p);
}

static size_t count_lines(const char *text, size_t n)
{
    size_t lines = 1;
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    return lines;
}

int ctr_variants_parse(struct ctr_variants *vs, const char *path, const char *text, size_t n,
                       const struct ctr_params *base, struct ctr_err *err)
{
    struct parser p = { .vs = vs, .base = base, .err = err };
    memset(vs, 0, sizeof *vs);
    vs->path = path;
    const size_t room = CTR_MIN(count_lines(text, n), CTR_MAX_VARIANTS) + 1; /* the last one stays empty */
    vs->v = calloc(room, sizeof *vs->v);
    int rc = vs->v ? 0 : ctr_fail_nomem(err, room * sizeof *vs->v);
    for (const char *s = text, *end = text + n; s < end && !rc;) {
        const char *line_end = memchr(s, '\n', (size_t)(end - s));
        size_t length = (size_t)((line_end ? line_end : end) - s);
        p.line++;
        rc = take_line(&p, s, length);
        s += length + 1;
    }
    if (!rc && !vs->n)
        rc = ctr_fail(err, CTR_EUSAGE, "%s: no variants: a line is a name and options such as alpha=0.2 or out=user*",
                      path);
    if (rc)
        ctr_variants_free(vs);
    return rc;
}

int ctr_variants_read(struct ctr_variants *vs, const char *path, const struct ctr_params *base, struct ctr_err *err)
{
    struct ctr_buf text = { 0 };
    int fd = ctr_open(path, O_RDONLY, 0), rc = 0;
    memset(vs, 0, sizeof *vs);
    if (fd < 0)
        return ctr_fail_sys(err, "%s: cannot be opened", path);
    for (ssize_t got = 1; got > 0 && !rc;) {
        if (!(rc = ctr_buf_reserve(&text, 65536, err))) {
            got = ctr_read_full(fd, text.data + text.len, 65536, err);
            if (got < 0) {
                rc = (int)got;
                ctr_err_file(err, path);
            }
            text.len += got > 0 ? (size_t)got : 0;
            if (text.len > MAX_BYTES)
                rc = ctr_fail(err, CTR_EUSAGE, "%s: a file of variants has at most 1 MiB", path);
        }
    }
    close(fd);
    const size_t mark = ctr_utf8_mark(text.data, text.len);
    if (!rc)
        rc = ctr_variants_parse(vs, path, (const char *)text.data + mark, text.len - mark, base, err);
    ctr_buf_free(&text);
    return rc;
}

void ctr_variants_free(struct ctr_variants *vs)
{
    for (int i = 0; vs->v && i <= vs->n; i++) { /* one may be partly initialised */
        free(vs->v[i].name);
        ctr_strs_free(&vs->v[i].in);
        ctr_strs_free(&vs->v[i].out);
    }
    free(vs->v);
    ctr_strs_free(&vs->weights);
    ctr_buf_free(&vs->text);
    memset(vs, 0, sizeof *vs);
}

/* ---- features ---- */

static bool matches(const struct ctr_strs *patterns, const char *name)
{
    for (int i = 0; i < patterns->n; i++)
        if (!fnmatch(patterns->s[i], name, 0))
            return true;
    return false;
}

static bool takes(const struct ctr_variant *v, const char *column)
{
    return (!v->in.n || matches(&v->in, column)) && !matches(&v->out, column);
}

static int check_patterns(const struct ctr_variants *vs, const struct ctr_variant *v, const struct ctr_strs *patterns,
                          const struct ctr_inputs *in, struct ctr_err *err)
{
    for (int i = 0; i < patterns->n; i++) {
        bool used = false;
        for (int c = 0; c < ctr_inputs_count(in) && !used; c++)
            used = !fnmatch(patterns->s[i], ctr_inputs_info(in, c).name, 0);
        if (!used)
            return ctr_fail(err, CTR_EUSAGE, "%s: line %d: no feature column of the stream matches '%.80s'", vs->path,
                            v->line, patterns->s[i]);
    }
    return 0;
}

int ctr_variants_bind(const struct ctr_variants *vs, const struct ctr_inputs *in, const struct ctr_strs *tables,
                      bool *has, struct ctr_err *err)
{
    const int columns = ctr_inputs_count(in);
    memset(has, 0, (size_t)vs->n * (size_t)tables->n * sizeof *has);
    for (int i = 0; i < vs->n; i++) {
        const struct ctr_variant *v = &vs->v[i];
        bool *row = has + (size_t)i * (size_t)tables->n, some = false;
        int rc = check_patterns(vs, v, &v->in, in, err);
        if (!rc)
            rc = check_patterns(vs, v, &v->out, in, err);
        if (rc)
            return rc;
        for (int c = 0; c < columns; c++) {
            const struct ctr_input_info a = ctr_inputs_info(in, c);
            if (takes(v, a.name))
                some = row[a.rows_table] = true;
        }
        for (int c = 0; c < columns; c++) {
            const struct ctr_input_info a = ctr_inputs_info(in, c);
            if (row[a.rows_table] && !takes(v, a.name))
                return ctr_fail(err, CTR_EUSAGE,
                                "%s: line %d: column '%.80s' is out, but others of its table '%.80s' are in: columns "
                                "of one table share their weights and go together",
                                vs->path, v->line, a.name, tables->s[a.rows_table]);
        }
        if (!some)
            return ctr_fail(err, CTR_EUSAGE, "%s: line %d: no feature is left in", vs->path, v->line);
    }
    return 0;
}
