/* SPDX-License-Identifier: Apache-2.0
 *
 * ctr-info: describes a stream: columns, roles, provenance, counts; --check answers by exit status, --digest hashes
 * it. */
#include "common/cli/cli.h"
#include "common/text/json.h"

#include <stdio.h>
#include <stdlib.h>

static struct {
    bool check, digest, json;
} o;

static const struct ctr_opt opts[] = {
    { "check", 0, CTR_OPT_FLAG, NULL, "check that the input is complete and undamaged; exit 3 if it is not", &o.check,
      CTR_OPT_LOCAL },
    { "digest", 0, CTR_OPT_FLAG, NULL, "print only a hash of schema and rows, one line per section", &o.digest,
      CTR_OPT_LOCAL },
    { "json", 0, CTR_OPT_FLAG, NULL, "print one JSON object per section", &o.json, CTR_OPT_LOCAL },
    { 0 },
};

static struct ctr_err refused; /* the first unsupported column, for --check: the columns that are read may be damaged */

/* The counts of one section. */
struct section_info {
    struct ctr_schema schema; /* including columns of unsupported types, which are shown but not read */
    int *read, nread;         /* columns that are read */
    int64_t rows, batches;
    int64_t *nulls; /* of each column */
    char digest[33];
};

static void section_free(struct section_info *s)
{
    ctr_schema_free(&s->schema);
    free(s->read);
    free(s->nulls);
}

static int begin_section(struct ctr_reader *r, struct section_info *s, struct ctr_err *err)
{
    int rc = ctr_schema_copy(&s->schema, ctr_reader_schema(r), err);
    s->nulls = calloc((size_t)s->schema.n + 1, sizeof *s->nulls);
    s->read = calloc((size_t)s->schema.n + 1, sizeof *s->read);
    if (!rc && (!s->nulls || !s->read))
        rc = ctr_fail_nomem(err, (size_t)s->schema.n * sizeof *s->nulls);
    for (int i = 0; !rc && i < s->schema.n; i++)
        if (s->schema.f[i].type != CTR_FOREIGN)
            s->read[s->nread++] = i;
        else if (o.check && !refused.code)
            refused.code = ctr_reader_project(r, &i, 1, &refused);
    return rc || s->nread == s->schema.n ? rc : ctr_reader_project(r, s->read, s->nread, err);
}

static int scan_section(struct ctr_cli *cli, struct ctr_reader *r, struct section_info *s, struct ctr_err *err)
{
    const struct ctr_batch *b;
    struct ctr_digest *d;
    int rc = begin_section(r, s, err);

    if (rc || (rc = ctr_digest_new(&d, ctr_reader_schema(r), err)))
        return rc;
    while ((rc = ctr_reader_next(r, &b, err)) > 0) {
        s->rows += b->rows;
        s->batches++;
        for (int i = 0; i < s->nread; i++) {
            if (!b->col[i].dict)
                s->nulls[s->read[i]] += b->col[i].nulls;
            for (int64_t k = 0; b->col[i].dict && k < b->rows; k++)
                s->nulls[s->read[i]] += ctr_col_missing(&b->col[i], k);
        }
        if ((rc = ctr_digest_batch(d, b, err)))
            break;
        ctr_cli_progress(cli, ctr_reader_rows(r), ctr_reader_total_rows(r));
    }
    if (!rc && s->nread == s->schema.n) /* a hash of some columns is not the stream's digest */
        ctr_digest_hex(d, s->digest);
    ctr_digest_free(d);
    return rc;
}

/* ---- text ---- */

/* Print a line safely, whatever the names and metadata of a foreign stream contain. */
static int print_line(struct ctr_out *out, struct ctr_err *err, const char *fmt, ...) CTR_PRINTF(3, 4);
static int print_line(struct ctr_out *out, struct ctr_err *err, const char *fmt, ...)
{
    struct ctr_buf b = { 0 };
    va_list ap;
    va_start(ap, fmt);
    int rc = ctr_buf_vformat(&b, err, fmt, ap);
    va_end(ap);
    if (!rc)
        rc = ctr_out_printf(out, err, "%s\n", (const char *)b.data);
    ctr_buf_free(&b);
    return rc;
}

static int print_columns(struct ctr_out *out, const struct section_info *info, struct ctr_err *err)
{
    const struct ctr_schema *s = &info->schema;
    int rc = print_line(out, err, "%-24s %-28s %-12s %-12s %s", "column", "type", "role", "table", "nulls");

    for (int i = 0; !rc && i < s->n; i++) {
        const struct ctr_field *f = &s->f[i];
        const char *role = ctr_meta_get(&f->meta, CTR_META_ROLE), *table = ctr_meta_get(&f->meta, CTR_META_TABLE);
        struct ctr_buf name = { 0 };
        char type[64], nulls[24];
        snprintf(nulls, sizeof nulls, "%lld", (long long)info->nulls[i]);
        rc = ctr_quote_name(&name, f->name, err);
        if (!rc)
            rc = print_line(out, err, "%-24.*s %-28s %-12s %-12s %s", (int)name.len, (const char *)name.data,
                            ctr_field_type_name(f, type, sizeof type), role ? role : "-", table ? table : "-",
                            f->type == CTR_FOREIGN ? "(not read)" : nulls);
        ctr_buf_free(&name);
    }
    return rc;
}

/* One line "program\tversion\toptions\tparent" each, the latest last. */
static int print_provenance(struct ctr_out *out, const struct ctr_schema *s, struct ctr_err *err)
{
    const char *pg = ctr_meta_get(&s->meta, CTR_META_PG);
    struct ctr_strs lines = { 0 };
    int rc = pg ? ctr_strs_split(&lines, pg, '\n', err) : 0;

    for (int i = 0; !rc && i < lines.n; i++) {
        struct ctr_strs part = { 0 };
        rc = ctr_strs_split(&part, lines.s[i], '\t', err);
        if (!rc && part.n >= 3)
            rc = print_line(out, err, "made by: %s %s%s%s", part.s[0], part.s[1], *part.s[2] ? " " : "", part.s[2]);
        ctr_strs_free(&part);
    }
    ctr_strs_free(&lines);
    return rc;
}

/* Our short metadata; plans and provenance are too long for a line. */
static int print_metadata(struct ctr_out *out, const struct ctr_schema *s, struct ctr_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < s->meta.n; i++) {
        const char *key = s->meta.kv[2 * i], *value = s->meta.kv[2 * i + 1];
        if (strncmp(key, "ctr.", 4) == 0 && strcmp(key, CTR_META_PG) && strlen(value) <= 200 && !strchr(value, '\n'))
            rc = print_line(out, err, "%s: %s", key + 4, value);
    }
    return rc;
}

static int print_text(struct ctr_out *out, const struct section_info *info, const struct ctr_reader_stats *stats,
                      struct ctr_err *err)
{
    const struct ctr_schema *s = &info->schema;
    int rc = ctr_out_printf(out, err, "rows: %lld\nbatches: %lld\nsealed: %s\ndigest: %s\n", (long long)info->rows,
                            (long long)info->batches, stats->sealed ? "yes" : "no (a foreign stream)",
                            *info->digest ? info->digest : "none, since not all columns are read");

    if (!rc)
        rc = print_metadata(out, s, err);
    if (!rc)
        rc = print_provenance(out, s, err);
    return rc ? rc : print_columns(out, info, err);
}

/* ---- JSON ---- */

/* Append "key":"value". */
static void json_pair(struct ctr_say *s, const char *comma, const char *key, const char *value)
{
    ctr_say_json_text(s, comma, key);
    ctr_say_json_text(s, ":", value);
}

static void json_meta(struct ctr_say *s, const struct ctr_meta *m)
{
    ctr_say(s, ",\"metadata\":{");
    for (int i = 0; i < m->n; i++)
        json_pair(s, i ? "," : "", m->kv[2 * i], m->kv[2 * i + 1]);
    ctr_say(s, "}");
}

static void json_column(struct ctr_say *s, const struct ctr_field *f, int64_t nulls)
{
    char type[64];

    json_pair(s, "{", "name", f->name);
    json_pair(s, ",", "type", ctr_field_type_name(f, type, sizeof type));
    if (f->type == CTR_FOREIGN)
        ctr_say(s, ",\"read\":false");
    else
        ctr_say(s, ",\"dictionary\":%s,\"nulls\":%lld", f->dict ? "true" : "false", (long long)nulls);
    json_meta(s, &f->meta);
    ctr_say(s, "}");
}

static int print_json(struct ctr_out *out, const struct section_info *info, const struct ctr_reader_stats *stats,
                      struct ctr_err *err)
{
    const struct ctr_schema *s = &info->schema;
    struct ctr_buf b = { 0 };
    struct ctr_say t = { &b, err, 0 };

    ctr_say(&t, "{\"rows\":%lld,\"batches\":%lld,\"sealed\":%s", (long long)info->rows, (long long)info->batches,
            stats->sealed ? "true" : "false");
    if (*info->digest)
        ctr_say(&t, ",\"digest\":\"%s\"", info->digest);
    json_meta(&t, &s->meta);
    ctr_say(&t, ",\"columns\":[");
    for (int i = 0; i < s->n; i++) {
        ctr_say(&t, "%s", i ? "," : "");
        json_column(&t, &s->f[i], info->nulls[i]);
    }
    ctr_say(&t, "]}\n");
    const int rc = t.rc ? t.rc : ctr_out_write(out, b.data, b.len, err);
    ctr_buf_free(&b);
    return rc;
}

static int print_section(struct ctr_out *out, struct ctr_reader *r, const struct section_info *info,
                         struct ctr_err *err)
{
    struct ctr_reader_stats stats;

    ctr_reader_get_stats(r, &stats);
    if (o.digest)
        return ctr_out_printf(out, err, "%s\n", info->digest);
    return o.json ? print_json(out, info, &stats, err) : print_text(out, info, &stats, err);
}

static int describe_inputs(struct ctr_cli *cli, struct ctr_err *err)
{
    struct ctr_reader_opts ro = { .sections = true, .foreign = !o.digest };
    struct ctr_reader *r = NULL;
    struct ctr_out *out = NULL;
    int rc = ctr_cli_out(cli, 0, &out, err), more = 1;

    if (!rc)
        rc = ctr_cli_reader(cli, 0, &ro, &r, err);
    if (!rc && o.digest && cli->nargs > 1)
        ctr_cli_note(cli,
                     "%d files are read as one stream where their schemas agree: for a digest each, name one at a time",
                     cli->nargs);
    for (int n = 0; !rc && more; n++) {
        struct section_info info = { 0 };
        rc = scan_section(cli, r, &info, err);
        ctr_cli_progress_clear(cli);
        if (!rc && n && !o.digest && !o.json)
            rc = ctr_out_write(out, "\n", 1, err);
        if (!rc)
            rc = print_section(out, r, &info, err);
        section_free(&info);
        more = rc ? 0 : ctr_reader_section(r, err);
        rc = more < 0 ? more : rc;
    }
    ctr_reader_free(r);
    if (!rc && refused.code) {
        *err = refused;
        ctr_err_file(err, cli->nargs ? cli->args[0] : "stdin");
        rc = refused.code;
    }
    if (!rc)
        rc = ctr_out_commit(out, err);
    ctr_out_free(out);
    return rc == CTR_EDATA && o.check ? (err->code = CTR_ENO) : rc;
}

static const char *const notes[] = {
    "The whole input is read and verified. The digest ignores batch boundaries, dictionary "
    "encoding, compression and provenance: equal digests mean equal schema and rows.",
    NULL
};

const struct ctr_tool ctr_tool = {
    "ctr-info", "describe a stream, check and hash it", "[FILE…]", notes, opts, CTR_TOOL_READS, describe_inputs
};
