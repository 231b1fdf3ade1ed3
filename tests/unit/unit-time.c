/* SPDX-License-Identifier: Apache-2.0
 *
 * time: the calendar against the C library, formats, and what is refused. */
#include "common/base/base.h"
#include "tap.h"

#include <time.h>

static bool parses(const char *format, const char *s, const char *iso)
{
    int64_t ms;
    char out[CTR_NUM_MAX + 1];
    if (!ctr_time_parse(format, s, strlen(s), &ms))
        return printf("# %s refused\n", s), false;
    out[ctr_time_iso(out, ms)] = 0;
    if (strcmp(out, iso))
        printf("# %s gave %s, want %s\n", s, out, iso);
    return !strcmp(out, iso);
}

static bool refused(const char *format, const char *s)
{
    int64_t ms;
    return !ctr_time_parse(format, s, strlen(s), &ms);
}

static void test_calendar(void)
{
    bool good = true;
    char out[CTR_NUM_MAX + 1], ref[64];
    for (uint64_t i = 0; i < 200000; i++) {
        int64_t s = (int64_t)(ctr_random64(1, 0, i) % 315569520000ull) - 62167219200, back;
        time_t t = s;
        struct tm tm;
        gmtime_r(&t, &tm);
        snprintf(ref, sizeof ref, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                 tm.tm_hour, tm.tm_min, tm.tm_sec);
        size_t n = ctr_time_iso(out, s * 1000);
        out[n] = 0;
        good &= !strcmp(out, ref) && ctr_time_parse(NULL, out, n, &back) && back == s * 1000;
        good &= ctr_time_civil(tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, 7) ==
                s * 1000 + 7;
    }
    ok(good, "200,000 times of the years 0 to 9999 as gmtime has them, and back");
    for (int64_t d = -719528; good && d <= 2932896; d++) {
        int64_t back;
        size_t n = ctr_time_iso(out, d * 86400000 + 999);
        good &= n == 24 && ctr_time_parse(NULL, out, n, &back) && back == d * 86400000 + 999;
    }
    ok(good, "every day of the years 0 to 9999");
    ok(ctr_time_iso(out, INT64_MIN) <= CTR_NUM_MAX && ctr_time_iso(out, INT64_MAX) <= CTR_NUM_MAX,
       "times beyond the calendar");
    ok(ctr_time_iso(out, -1) == 24 && !memcmp(out, "1969-12-31T23:59:59.999Z", 24), "before 1970");
}

int main(void)
{
    test_calendar();
    static const struct {
        const char *format, *text, *iso;
    } good[] = {
        { NULL, "2017-07-03 10:03", "2017-07-03T10:03:00Z" },
        { NULL, "2017-07-03 9:03", "2017-07-03T09:03:00Z" },
        { NULL, "2019-11-14T00:00:00.5+01:00", "2019-11-13T23:00:00.500Z" },
        { NULL, "2019-11-14T00:00Z", "2019-11-14T00:00:00Z" },
        { NULL, "2019-11-14", "2019-11-14T00:00:00Z" },
        { NULL, "2019/11/4 1:02:03", "2019-11-04T01:02:03Z" },
        { NULL, "2019-11-24 07:17:25.426943+00:00", "2019-11-24T07:17:25.426Z" },
        { NULL, "2020-02-29 00:00:00 +0530", "2020-02-28T18:30:00Z" },
        { NULL, "2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z" },
        { NULL, "9999-12-31T23:59:59-01:00", "+010000-01-01T00:59:59Z" },
        { NULL, "0000-01-01T00:30+01:00", "-000001-12-31T23:30:00Z" },
        { NULL, "+99999-2-28 1:02:03.5", "+099999-02-28T01:02:03.500Z" },
        { NULL, "+1000000-01-01", "+1000000-01-01T00:00:00Z" },
        { NULL, "-0010000-02-29", "-010000-02-29T00:00:00Z" },
        { NULL, "+292278994-08-17T07:12:55.807Z", "+292278994-08-17T07:12:55.807Z" },
        { NULL, "-292275055-05-16T16:47:04.192Z", "-292275055-05-16T16:47:04.192Z" },
        { "%F %T", "2019-1-4 1:2:3.5", "2019-01-04T01:02:03.500Z" },
        { "%a, %d %b %Y %T %z", "wed, 2 October 2019 10:00:00 -0130", "2019-10-02T11:30:00Z" },
        { "%A %F", "Tuesday 2019-01-04", "2019-01-04T00:00:00Z" },
        { "unix", "978300760", "2000-12-31T22:12:40Z" },
        { "unix", "-1", "1969-12-31T23:59:59Z" },
        { "unix", "1506826828.02", "2017-10-01T03:00:28.020Z" },
        { "unix", "-1.5", "1969-12-31T23:59:58.500Z" },
        { "unix", "-1.0005", "1969-12-31T23:59:58.999Z" },
        { "unix", "-0.0005", "1969-12-31T23:59:59.999Z" },
        { "unix", "-1.5000", "1969-12-31T23:59:58.500Z" },
        { "unix", "1.9999", "1970-01-01T00:00:01.999Z" },
        { "unix_ms", "-1.5", "1969-12-31T23:59:59.998Z" },
        { "unix_ms", "-1.0", "1969-12-31T23:59:59.999Z" },
        { "unix_us", "-1500", "1969-12-31T23:59:59.998Z" },
        { "unix_ms", "1506826828020", "2017-10-01T03:00:28.020Z" },
        { "unix_us", "1506826828020999", "2017-10-01T03:00:28.020Z" },
        { "unix_us", "-1", "1969-12-31T23:59:59.999Z" },
        { "unix_ns", "1506826828020000001", "2017-10-01T03:00:28.020Z" },
        { "unix_ns", "-1000000", "1969-12-31T23:59:59.999Z" },
        { "unix", "253402300799", "9999-12-31T23:59:59Z" },
        { "unix_ms", "-62167219200000", "0000-01-01T00:00:00Z" },
        { "%m/%d/%Y %I:%M:%S %p", "11/9/2019 6:42:51 PM", "2019-11-09T18:42:51Z" },
        { "%m/%d/%Y %I:%M:%S %p", "11/12/2019 12:00:00 AM", "2019-11-12T00:00:00Z" },
        { "%m/%d/%Y %I:%M", "11/12/2019 12:30", "2019-11-12T00:30:00Z" },
        { "%m/%d/%Y %I:%M:%S %p", "11/12/2019 12:00:00 pm", "2019-11-12T12:00:00Z" },
        { "%Y%m%d%H", "2014102100", "2014-10-21T00:00:00Z" },
        { "%y%m%d%H", "14102123", "2014-10-21T23:00:00Z" },
        { "%d/%b/%Y:%H:%M:%S %z", "10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36Z" },
        { "%d %B %Y", "1 september 1999", "1999-09-01T00:00:00Z" },
        { "%H:%M:%S.%f", "1:2:3.045", "1970-01-01T01:02:03.045Z" },
        { "%Y-%m-%d %H:%M:%S", "2017-07-03 10:03:07.25", "2017-07-03T10:03:07.250Z" },
        { "%d%% %Y", "5% 2001", "2001-01-05T00:00:00Z" },
    };
    for (size_t i = 0; i < CTR_COUNT(good); i++)
        ok(parses(good[i].format, good[i].text, good[i].iso) &&
               (!good[i].format || ctr_time_format_valid(good[i].format)),
           "%s", good[i].text);
    static const char *const none[] = { "", "iso", "us", "unix_s", "%Q", "%", "%%", "%Y-%m-%d %x", "%Y%" };
    for (size_t i = 0; i < CTR_COUNT(none); i++)
        ok(!ctr_time_format_valid(none[i]), "no format: '%s'", none[i]);
    static const struct {
        const char *format, *text;
    } bad[] = {
        { NULL, "" },
        { NULL, "2019" },
        { NULL, "2019-11" },
        { NULL, "2019-02-29" },
        { NULL, "1900-02-29" },
        { NULL, "2019-13-01" },
        { NULL, "2019-00-01" },
        { NULL, "2019-04-31" },
        { NULL, "2019-11-14 24:00" },
        { NULL, "2019-11-14 10:60" },
        { NULL, "2019-11-14 10:00:61" },
        { NULL, "2019-11-14 10:00:00x" },
        { NULL, "2019-11-14 10:00:00 " },
        { NULL, "2019-11-14 10:00:00." },
        { NULL, "2019-11-14T" },
        { NULL, "2019-11/14" },
        { NULL, "2019-11-14 10:00+25:00" },
        { NULL, "+2019-11-14" },
        { NULL, "-000000-11-14" },
        { NULL, "+1234567890-11-14" },
        { NULL, "+292278994-08-17T07:12:55.808Z" }, /* beyond int64 */
        { NULL, "-292275055-05-16T16:47:04.191Z" },
        { NULL, "+999999999-01-01" },
        { "unix", "" },
        { "unix", "." },
        { "unix", "1e9" },
        { "unix", "99999999999999999999" },
        { "unix", "9223372036854775807" },
        { "unix", "1506826828020" }, /* milliseconds */
        { "unix_us", "1506826828.5" },
        { "unix_us", "253402300800000000" },
        { "unix", "253402300800" },
        { "unix_ms", "-62167219200001" },
        { "unix_ms", "12x" },
        { "unix", "1.x" },
        { "%I:%M %p", "13:00 PM" },
        { "%I:%M", "13:00" },
        { "%I:%M %p", "0:00 AM" },
        { "%I:%M %p", "1:00 XM" },
        { "%H:%M", "10:00 " },
        { "%Y", "19" },
        { "%Q", "1" },
        { "%", "1" },
        { "%b", "Foo" },
        { "%Y %z", "2000 +1" },
    };
    for (size_t i = 0; i < CTR_COUNT(bad); i++)
        ok(refused(bad[i].format, bad[i].text), "refused: '%s' as %s", bad[i].text,
           bad[i].format ? bad[i].format : "ISO");
    return done_testing();
}
