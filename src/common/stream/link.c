/* SPDX-License-Identifier: Apache-2.0
 *
 * The chain of seals, as a reader checks it: each message names its number in the stream and the seal of the message
 * before, and the schema of a stream within a bundle the last seal of the section before. So messages that were lost,
 * repeated, swapped or taken from another stream are seen, though each has a seal that fits.
 */
#include "common/stream/arrow.h"

/* The schema message of a stream. The sections that the first one of a bundle lists must follow each other, other
 * streams begin anew. */
static int enter(struct arrow_chain *c, const struct arrow_message *m, bool first, const char *due, struct ctr_err *err)
{
    const size_t n = sizeof c->at.after.digits;
    const bool anew = due ? !m->after && !c->linked : !m->after || !memcmp(m->after, CTR_SEAL_NONE, n);
    if (anew || (m->after && !memcmp(m->after, c->at.after.digits, n))) {
        c->linked = m->after;
        return 0;
    }
    if (first)
        return ctr_fail(err, CTR_EDATA, "begins with a section of a bundle whose earlier sections are missing");
    return ctr_fail(err, CTR_EDATA,
                    "%s%s%s does not follow the section before it: it belongs to another bundle, or sections are "
                    "missing or swapped",
                    due ? "section '" : "a section", due ? due : "", due ? "'" : "");
}

static int go_on(const struct arrow_chain *c, const struct arrow_message *m, struct ctr_err *err)
{
    if (m->seq != c->at.seq)
        return ctr_fail(err, CTR_EDATA, "message %lld comes where %lld is due: messages were lost, repeated or swapped",
                        (long long)m->seq, (long long)c->at.seq);
    if (c->linked == !m->after || (c->linked && memcmp(m->after, c->at.after.digits, sizeof c->at.after.digits)))
        return ctr_fail(err, CTR_EDATA, "message %lld belongs to another stream", (long long)m->seq);
    return 0;
}

int ctr_chain_check(struct arrow_chain *c, const struct arrow_message *m, bool begins, bool first, const char *due,
                    struct ctr_err *err)
{
    if (!m->sealed)
        return ctr_fail(err, CTR_EDATA, "a message of a sealed stream has no seal");
    if (begins)
        c->at.seq = 0;
    const int rc = begins && !m->seq ? enter(c, m, first, due, err) : go_on(c, m, err);
    if (rc < 0)
        return rc;
    c->at.seq++;
    memcpy(c->at.after.digits, m->seal, sizeof c->at.after.digits);
    return 0;
}
