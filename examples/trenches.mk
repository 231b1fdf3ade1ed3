# Experiments after "Ad Click Prediction: a View from the Trenches" (McMahan et al., KDD 2013): `make -C examples trenches`, or one
# of the targets below. What they printed stands in trenches.md, beside the paper's figures.
#
# LOG: a Criteo-like log of ROWS rows from a seed (tests/bench/bench-log.c), 39 one-hot fields, for everyone; REAL: the same
# features streams of the logs of DATA, where they are. Each experiment leaves its table in $(T)/NAME.txt.

ROWS ?= 4000000
T    := $(OUT)/trenches/$(ROWS)
LOG  := $(T)/log.arrows
real := $(strip $(if $(wildcard $(DATA)/criteo_small_20k),criteo) $(if $(wildcard $(DATA)/avazu_10k),avazu) \
	$(if $(wildcard $(DATA)/mind_5k),mind) $(if $(wildcard $(DATA)/amex2018_ctr),amex) $(if $(wildcard $(DATA)/ml1m_half),ml1m))
REAL := $(real:%=$(T)/%.arrows)

# ---- data ----

BENCH_LOG ?= ../build/opt/bench/bench-log
$(BENCH_LOG): ../tests/bench/bench-log.c
	$(MAKE) -C .. $(BENCH_LOG:../%=%)

trenches_columns := click:int8,I[1..13]:float64,C[1..26]:utf8
$(LOG): trenches.plan $(BENCH_LOG)
	@mkdir -p $(@D)
	$(BENCH_LOG) tsv $(ROWS) | ctr-import --format tsv --columns '$(trenches_columns)' | ctr-extract $< -o $@

$(T)/criteo.arrows: $(criteo_inputs)
	@mkdir -p $(@D)
	$(criteo_features) -o $@
$(T)/avazu.arrows: $(avazu_inputs)
	@mkdir -p $(@D)
	$(avazu_features) -o $@
$(T)/mind.arrows: $(mind_inputs)
	@mkdir -p $(@D)
	$(mind_features) -o $@
$(T)/amex.arrows: $(amex_inputs)
	@mkdir -p $(@D)
	$(amex_features) -o $@
$(T)/ml1m.arrows: $(ml1m_inputs)
	@mkdir -p $(@D)
	$(ml1m_features) -o $@

# The first three quarters to learn from, the last one held out.
$(T)/%.train.arrows $(T)/%.test.arrows &: $(T)/%.arrows
	ctr-select --head 75% $< -o $(T)/$*.train.arrows --rest $(T)/$*.test.arrows
.PRECIOUS: $(T)/%.train.arrows $(T)/%.test.arrows

# ---- the experiments: each adds its name to the list and makes $(T)/NAME.txt ----

# data: rows, keys, mean label and progressive AUC of each log, by plain FTRL-Proximal
trenches += data
$(T)/data.txt: $(LOG) $(REAL)
	@printf '%-10s %10s %10s %10s %10s\n' log rows keys label AUC >$@
	for f in $^; do ctr-train lr --alpha 0.05 $$f -o $(T)/model.arrows 2>$(T)/err || { cat $(T)/err >&2; exit 1; }; \
	  awk -v name=$$(basename $$f .arrows) '/^(rows|keys)/ { v[$$1] = $$2 } /^mean label/ { l = $$3 } /AUC/ { a = $$3 } \
	    END { printf "%-10s %10d %10d %10.4f %10.4f\n", name, v["rows"], v["keys"], l, a }' $(T)/err >>$@; done

# nohelp: what section 9 tried and found no benefit in, on rows that were held out; alpha is tuned for each
trenches += nohelp
nohelp := - --hash-bits=18 --hash-bits=20 --hash-bits=22 --hash-bits=24 --dropout=.1 --dropout=.2 --dropout=.5 \
	--normalize=l1 --normalize=l2 --normalize=max
nohelp_logs := log $(filter-out avazu mind,$(real))
$(T)/nohelp.txt: $(nohelp_logs:%=$(T)/%.train.arrows)
	for l in $(nohelp_logs); do for o in $(nohelp); do \
	  printf '%s %s ' $$l $$o; ./trenches.sh held-out $(T)/$$l "$$(echo $$o | sed "s,^-$$,,")" || exit 1; \
	done; done | ./trenches.sh against-first >$@

# ---- the list ----

.PHONY: trenches $(trenches:%=trenches-%)
trenches: $(trenches:%=trenches-%)
$(trenches:%=trenches-%): trenches-%: $(T)/%.txt
	@cat $<
