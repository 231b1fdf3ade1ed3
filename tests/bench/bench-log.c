/* SPDX-License-Identifier: Apache-2.0
 *
 * bench-log: makes the inputs of `make bench`, from a seed:
 *
 *     bench-log ads ROWS DIR
 *         log.tsv, a Criteo-like log: label, 13 counts, 26 hex categories with Zipf frequencies and 10 to a million
 *         values, a quarter clicks from a planted logistic truth; log.vw, the same features as text of vw; log.jsonl,
 *         twenty of the columns of the first million rows
 *     bench-log tsv ROWS
 *         log.tsv on standard output
 *     bench-log flat ROWS DIR
 *         flat.tsv: label and 39 ids, uniform, so that nearly every one is a key of its own
 *     bench-log scores ROWS DIR
 *         scores.csv: click,user,score of 300,000 users; half of the scores are calibrated too high
 *     bench-log vectors ROWS NUMBERS
 *         ROWS vectors of so many numbers between -1 and 1 on standard output, as npy of float32
 *     bench-log tables ROWS DIR
 *     bench-log clicks ROWS DIR
 *         left.csv: key and two values, ROWS times; right.csv: a quarter as many keys, name and number; wide.tsv: ROWS
 *         lines of 250 bytes with a random key of 16 hex digits in front
 *
 * The same arguments make the same files. */
#include "common/base/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNTS = 13, HEX = 26, FIELDS = COUNTS + HEX, SEED = 20130811, USERS = 300000 };

static double cardinality[FIELDS];

static FILE *open_file(const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (!f || setvbuf(f, NULL, _IOFBF, 1 << 20)) {
        perror(path);
        exit(1);
    }
    return f;
}

static void close_file(FILE *f)
{
    if (ferror(f) | fclose(f)) {
        perror("bench-log");
        exit(1);
    }
}

static double random01(uint64_t stream, int64_t i)
{
    return ctr_random01(SEED, stream, (uint64_t)i);
}

/* The value of a field: -1 missing, else a count, or an id of density 1 / id. */
static int64_t draw(int field, int64_t row)
{
    double u = random01((uint64_t)field, row);
    if (field % 3 == 1 && random01(64 + (uint64_t)field, row) < 0.1)
        return -1;
    return field < COUNTS ? (int64_t)exp(u * u * 11) : (int64_t)exp(u * log(cardinality[field])) - 1;
}

static int64_t bucket(int64_t count)
{
    double l = count > 2 ? log((double)count) : 0;
    return count > 2 ? (int64_t)(l * l) : count;
}

/* The planted weight of a value, and what makes a quarter of the rows clicks. */
static double truth(int field, int64_t value)
{
    int64_t id = field < COUNTS && value >= 0 ? bucket(value) : value;
    return 1.25 * (random01(128 + (uint64_t)field, id + 1) - 0.5);
}

static double logit(const int64_t *v)
{
    double z = -2.75;
    for (int f = 0; f < FIELDS; f++)
        z += truth(f, v[f]);
    return z;
}

static unsigned name_of(int field, int64_t id)
{
    return (unsigned)ctr_mix64((uint64_t)id * 64 + (uint64_t)field);
}

static void put_tsv(FILE *f, const int64_t *v, int label)
{
    char line[1024], *p = line;
    *p++ = (char)('0' + label);
    for (int i = 0; i < FIELDS; i++) {
        *p++ = '\t';
        if (v[i] >= 0 && i < COUNTS)
            p += ctr_fmt_i64(p, v[i]);
        else if (v[i] >= 0)
            p += sprintf(p, "%08x", name_of(i, v[i]));
    }
    *p++ = '\n';
    fwrite(line, 1, (size_t)(p - line), f);
}

static void put_vw(FILE *f, const int64_t *v, int label)
{
    char line[1024], *p = line + sprintf(line, label ? "1 |f" : "-1 |f"); /* one namespace costs vw the least */
    for (int i = 0; i < FIELDS; i++) {
        p += sprintf(p, " %c", i < 26 ? 'a' + i : 'A' + i - 26);
        if (v[i] < 0)
            *p++ = 'm';
        else if (i < COUNTS)
            p += ctr_fmt_i64(p, bucket(v[i]));
        else
            p += sprintf(p, "%08x", name_of(i, v[i]));
    }
    *p++ = '\n';
    fwrite(line, 1, (size_t)(p - line), f);
}

static void put_json(FILE *f, const int64_t *v, int label)
{
    fprintf(f, "{\"click\":%d", label);
    for (int i = 0; i < COUNTS; i++)
        v[i] < 0 ? fprintf(f, ",\"I%d\":null", i + 1) : fprintf(f, ",\"I%d\":%lld", i + 1, (long long)v[i]);
    for (int i = COUNTS; i < FIELDS; i++)
        if (v[i] < 0)
            fprintf(f, ",\"C%d\":null", i - COUNTS + 1);
        else
            fprintf(f, ",\"C%d\":\"%08x\"", i - COUNTS + 1, name_of(i, v[i]));
    fputs("}\n", f);
}

static void set_cardinalities(void)
{
    for (int f = COUNTS; f < FIELDS; f++)
        cardinality[f] = pow(10, 1 + 5.0 * (f - COUNTS) / (HEX - 1)) + 1;
}

/* The values of a row; returns its label. */
static int draw_row(int64_t row, int64_t v[FIELDS])
{
    for (int f = 0; f < FIELDS; f++)
        v[f] = draw(f, row);
    return random01(200, row) < 1 / (1 + exp(-logit(v)));
}

static void tsv(int64_t rows, const char *dir)
{
    (void)dir;
    set_cardinalities();
    for (int64_t i = 0; i < rows; i++) {
        int64_t v[FIELDS];
        int label = draw_row(i, v);
        put_tsv(stdout, v, label);
    }
    close_file(stdout);
}

static void ads(int64_t rows, const char *dir)
{
    FILE *text = open_file(dir, "log.tsv"), *vw = open_file(dir, "log.vw"), *json = open_file(dir, "log.jsonl");
    set_cardinalities();
    for (int64_t i = 0; i < rows; i++) {
        int64_t v[FIELDS];
        int label = draw_row(i, v);
        put_tsv(text, v, label);
        put_vw(vw, v, label);
        if (i < 1000000)
            put_json(json, v, label);
    }
    close_file(text);
    close_file(vw);
    close_file(json);
}

static void flat(int64_t rows, const char *dir)
{
    FILE *out = open_file(dir, "flat.tsv");
    for (int64_t i = 0; i < rows; i++) {
        char line[1024], *p = line;
        *p++ = random01(300, i) < 0.25 ? '1' : '0';
        for (int f = 0; f < FIELDS; f++) {
            *p++ = '\t';
            p += ctr_fmt_i64(p, (int64_t)(random01(301 + (uint64_t)f, i) * 2 * (double)rows));
        }
        *p++ = '\n';
        fwrite(line, 1, (size_t)(p - line), out);
    }
    close_file(out);
}

static void scores(int64_t rows, const char *dir)
{
    FILE *out = open_file(dir, "scores.csv");
    fputs("click,user,score\n", out);
    for (int64_t i = 0; i < rows; i++) {
        double z = 2.4 * (random01(400, i) + random01(401, i) + random01(402, i) - 1.5) - 1.4;
        double p = 1 / (1 + exp(-z)), said = 1 / (1 + exp(-(i & 1 ? z : z * 0.7 + 0.3)));
        fprintf(out, "%d,%d,%.17g\n", random01(403, i) < p, (int)(USERS * random01(404, i) * random01(405, i)), said);
    }
    close_file(out);
}

static void tables(int64_t rows, const char *dir)
{
    FILE *left = open_file(dir, "left.csv"), *right = open_file(dir, "right.csv"), *wide = open_file(dir, "wide.tsv");
    int64_t keys = rows / 4;
    fputs("key,price,place\n", left);
    for (int64_t i = 0; i < rows; i++)
        fprintf(left, "%lld,%.3f,%u\n", (long long)(random01(500, i) * (double)keys * 1.1), 10 * random01(501, i),
                (unsigned)(random01(502, i) * 4096));
    fputs("key,name,age\n", right);
    for (int64_t i = 0; i < keys; i++) /* every key once, in an order of no meaning */
        fprintf(right, "%lld,n%08x,%d\n", (long long)((i * 7919 + 13) % keys), (unsigned)ctr_mix64((uint64_t)i),
                18 + (int)(60 * random01(503, i)));
    for (int64_t i = 0; i < rows; i++) {
        char line[256], *p = line + sprintf(line, "%016llx", (unsigned long long)ctr_random64(SEED, 504, (uint64_t)i));
        for (int k = 0; k < 9; k++)
            p += sprintf(p, "\t%08x%08x%08x", name_of(k, i), name_of(k + 9, i), name_of(k + 18, i / 7));
        *p++ = '\t';
        while (p < line + 249)
            *p++ = 'x';
        *p++ = '\n';
        fwrite(line, 1, (size_t)(p - line), wide);
    }
    close_file(left);
    close_file(right);
    close_file(wide);
}

/* Clicks in order of time, no two at the same, within 14 days; some users and items come often. */
static void clicks(int64_t rows, const char *dir)
{
    FILE *out = open_file(dir, "clicks.csv");
    const int64_t step = (int64_t)13 * 24 * 3600 * 1000 / rows, start = 1500000000000;
    fputs("user,time,item,category\n", out);
    for (int64_t i = 0; i < rows; i++) {
        const int item = (int)(46000 * random01(601, i) * random01(602, i) * random01(603, i));
        fprintf(out, "%lld,%lld,%d,%d\n",
                (long long)((double)rows / 4 * random01(600, i) * random01(604, i) * random01(605, i)),
                (long long)(start + i * step), item, item % 461);
    }
    close_file(out);
}

/* Two numbers from each draw, which is fast enough for a million vectors. */
static void vectors(int64_t rows, const char *numbers)
{
    enum { MOST = 1 << 16 };
    const int width = CTR_MIN(CTR_MAX(atoi(numbers), 2), MOST) / 2 * 2;
    char head[128] = "\x93NUMPY\x01\x00\x76\x00"; /* version 1, 118 bytes of text */
    static float v[MOST];
    memset(head + 10, ' ', sizeof head - 10);
    const int n = snprintf(head + 10, sizeof head - 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %d)}",
                           (long long)rows, width);
    head[10 + n] = ' ';
    head[sizeof head - 1] = '\n';
    fwrite(head, 1, sizeof head, stdout);
    for (int64_t i = 0; i < rows; i++) {
        for (int k = 0; k < width; k += 2) {
            const uint64_t x = ctr_mix64((uint64_t)i * MOST + (uint64_t)k + SEED);
            v[k] = (float)(int32_t)x * 0x1p-31F;
            v[k + 1] = (float)(int32_t)(x >> 32) * 0x1p-31F;
        }
        fwrite(v, sizeof *v, (size_t)width, stdout);
    }
    close_file(stdout);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*make)(int64_t rows, const char *dir);
        int args;
    } kinds[] = { { "ads", ads, 3 },       { "tsv", tsv, 2 },       { "vectors", vectors, 3 }, { "flat", flat, 3 },
                  { "scores", scores, 3 }, { "tables", tables, 3 }, { "clicks", clicks, 3 } };
    int64_t rows = argc >= 3 ? atoll(argv[2]) : 0;
    for (size_t i = 0; i < CTR_COUNT(kinds) && rows > 0; i++)
        if (argc == kinds[i].args + 1 && !strcmp(argv[1], kinds[i].name)) {
            kinds[i].make(rows, argv[3]);
            return 0;
        }
    fputs("usage: bench-log ads|flat|scores|tables|clicks ROWS DIR, bench-log vectors ROWS NUMBERS, or bench-log tsv "
          "ROWS\n",
          stderr);
    return 2;
}
