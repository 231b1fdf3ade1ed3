/* SPDX-License-Identifier: Apache-2.0
 *
 * serve_images: photographs by PUT /v1/images/KEY (--image-inbox DIR). A thread of its own makes their vectors, one
 * after another, so that requests for scores do not wait for them; a file in DIR keeps each vector, and all models that
 * are loaded get it. DIR has one whole stream a photograph, 000001.arrows and so on: a later one of a key counts. */
#ifndef CTR_SERVE_IMAGES_H
#define CTR_SERVE_IMAGES_H

#include "tools/ctr-serve/serve.h"

/* The key in a path, of which %XX are bytes. 0, or why it is none. */
enum { SERVE_KEY_BYTES = 256 };
#define SERVE_IMAGES "/v1/images/"
const char *serve_image_key(const char *path, char key[SERVE_KEY_BYTES]);

struct serve_inbox_opts {
    const char *dir, *weights;
    bool check; /* nothing will come */
};
/* Reads the weights. CTR_EUSAGE: this build has no libjpeg and libpng. */
int serve_inbox_open(struct serve_inbox **i, const struct serve_inbox_opts *o, struct ctr_err *err) CTR_MUST;
void serve_inbox_free(struct serve_inbox *i);
/* The images of DIR are those of the model's table from now on, and so are later ones, until it is released. `path`: of
 * the model. A model without images is left alone. */
int serve_inbox_attach(struct serve_inbox *i, struct serve_model *m, const char *path, struct ctr_err *err) CTR_MUST;
void serve_inbox_detach(struct serve_inbox *i, struct serve_model *m);

int serve_inbox_start(struct serve_inbox *i, struct serve *s, struct ctr_err *err) CTR_MUST;
bool serve_inbox_add(struct serve_inbox *i, struct ctr_http_request *q); /* false: too many wait */
void serve_inbox_stop(struct serve_inbox *i);                            /* what has begun ends */

#endif
