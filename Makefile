# ctrkit: `make demo` shows it, `make check` tests it, `make install PREFIX=…` installs it.
# One non-recursive Makefile. Configurations (plain, DEV=1, SAN=1) build in separate folders and never mix.

PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= cc
MAKEFLAGS += --no-builtin-rules

config := opt$(if $(DEV),-dev)$(if $(SAN),-san)
B      := build/$(config)

WARN   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-missing-field-initializers
PKGS   := zlib libxxhash libzstd liblz4
CFLAGS ?= -O2 -g
override CFLAGS += -std=gnu11 -ffp-contract=off -fno-math-errno -fno-strict-aliasing $(WARN) $(if $(DEV),-Werror) \
	$(if $(SAN),-fsanitize=address$(,)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
override CPPFLAGS += -D_GNU_SOURCE -Isrc $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -lpthread
, := ,

libsrc  := $(sort $(wildcard src/common/*/*.c))
libobj  := $(libsrc:%.c=$(B)/%.o)
mainobj := $(B)/src/common/cli/main.o
tools   := $(sort $(notdir $(basename $(wildcard src/tools/*.c))))
bins    := $(tools:%=$(B)/bin/%)
units   := $(patsubst tests/unit/%.c,$(B)/unit/%,$(sort $(wildcard tests/unit/*.c)))

.PHONY: all bins units check demo deps install uninstall clean lint format bench
.DELETE_ON_ERROR:
.SECONDARY:

all: bins
	@mkdir -p bin && ln -sf $(tools:%=../$(B)/bin/%) bin/

bins: $(bins)

# main.o is left out of the archive: unit tests have a main of their own.
$(B)/libctr.a: $(filter-out $(mainobj),$(libobj))
	@rm -f $@; ar rcs $@ $^

$(B)/bin/%: $(B)/src/tools/%.o $(mainobj) $(B)/libctr.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/unit/%: $(B)/tests/unit/%.o $(B)/libctr.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

units: $(units)

# T=… picks tests: make check T='tests/ctr-join.t'
check: bins units
	@CTR_BUILD=$(CURDIR)/$(B) tests/run $(T)

clean:
	rm -rf build $(tools:%=bin/%)

-include $(wildcard $(libobj:.o=.d) $(B)/src/tools/*.d $(B)/tests/unit/*.d)
