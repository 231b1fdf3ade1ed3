/* SPDX-License-Identifier: Apache-2.0
 *
 * sessions: the rows of a user that follow each other within a gap. Of each user the last row's time is kept, and its
 * place. Rows come in order of time. */
#include "common/rows/historycore.h"

static struct ctr_session *session(const struct ctr_sessions *s, uint32_t user)
{
    return (struct ctr_session *)(void *)s->last.data + user;
}

void ctr_sessions_init(struct ctr_sessions *s, int64_t gap_ms)
{
    *s = (struct ctr_sessions){ .on = gap_ms > 0, .gap_ms = (uint64_t)gap_ms };
    ctr_keyvalue_set_init(&s->users);
}

void ctr_sessions_free(struct ctr_sessions *s)
{
    ctr_keyvalue_set_free(&s->users);
    ctr_buf_free(&s->last);
}

int64_t ctr_sessions_bytes(const struct ctr_sessions *s)
{
    return ctr_keyvalue_set_bytes(&s->users) + (int64_t)s->last.cap;
}

int ctr_sessions_next(struct ctr_sessions *s, const struct ctr_keyvalue *user, int64_t t, struct ctr_session *is,
                      struct ctr_err *err)
{
    const uint32_t known = s->users.n;
    uint32_t number = 0;
    int rc = ctr_keyvalue_set_add(&s->users, user, &number, err);
    if (!rc && number == known)
        rc = ctr_buf_append(&s->last, &(struct ctr_session){ t, 1, 0 }, sizeof(struct ctr_session), err);
    if (rc)
        return rc;
    struct ctr_session *last = session(s, number);
    const bool new = ctr_time_age(t, last->time) > s->gap_ms;
    *last = (struct ctr_session){ t, last->number + new, new ? 1 : last->position + 1 };
    *is = *last;
    return 0;
}
