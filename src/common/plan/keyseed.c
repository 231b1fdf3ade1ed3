/* SPDX-License-Identifier: Apache-2.0
 *
 * keyseed: keys made with a secret: without it nobody can find texts whose keys collide. The hash seed and the
 * fingerprint in streams, fitted plans and models are both derived from the secret: neither reveals the secret or the
 * other. Invariant: a plan with a fingerprint makes no keys without that secret.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/plan/program.h"

enum { LEAST = 16, MOST = 4096 }; /* bytes of a secret */

/* SHA-256 of a purpose and the secret. */
static void derive(const char *purpose, const uint8_t *secret, size_t n, uint8_t out[32])
{
    uint8_t text[64 + MOST];
    const size_t k = strlen(purpose) + 1;
    memcpy(text, purpose, k);
    memcpy(text + k, secret, n);
    ctr_sha256(text, k + n, out);
    explicit_bzero(text, sizeof text);
}

static int take_secret(struct ctr_plan *p, const char *path, const uint8_t *secret, size_t n, struct ctr_err *err)
{
    uint8_t hash[32];
    char print[33];
    if (n < LEAST || n > MOST) {
        ctr_err_file(err, path);
        return ctr_fail(err, CTR_EUSAGE, "a secret has %d to %d bytes, such as: head -c 32 /dev/urandom >FILE", LEAST,
                        MOST);
    }
    derive("ctrkit key seed", secret, n, hash);
    memcpy(&p->key_seed, hash, sizeof p->key_seed);
    derive("ctrkit key seed fingerprint", secret, n, hash);
    for (int i = 0; i < 16; i++)
        snprintf(print + 2 * (ptrdiff_t)i, 3, "%02x", hash[i]);
    if (p->tree.src.bundle && (!p->seed_print || strcmp(p->seed_print, print))) {
        ctr_err_file(err, p->tree.src.file);
        return ctr_fail(err, CTR_EUSAGE,
                        p->seed_print ? "its keys were made with another secret than that of --key-seed"
                                      : "its keys were made without a secret: leave out --key-seed");
    }
    p->has_secret = true;
    if (p->seed_print)
        return CTR_OK;
    int rc = ctr_strdup(&p->seed_print, print, err);
    return rc ? rc : ctr_plan_identify(p, err);
}

int ctr_plan_key_seed(struct ctr_plan *p, const char *path, struct ctr_err *err)
{
    uint8_t secret[MOST + 1];
    const int fd = ctr_open(path, O_RDONLY, 0);
    ssize_t n = fd < 0 ? ctr_fail_sys(err, "cannot open the secret") : ctr_read_full(fd, secret, sizeof secret, err);
    if (fd >= 0)
        close(fd);
    int rc = n < 0 ? (int)n : take_secret(p, path, secret, (size_t)n, err);
    explicit_bzero(secret, sizeof secret);
    if (rc)
        ctr_err_file(err, path);
    return rc;
}

int ctr_plan_check_secret(const struct ctr_plan *p, struct ctr_err *err)
{
    if (!p->seed_print || p->has_secret)
        return CTR_OK;
    ctr_err_file(err, p->tree.src.file);
    return ctr_fail(
        err, CTR_EUSAGE,
        "its keys were made with a secret, without which others would be made: ctr-extract --key-seed FILE");
}
