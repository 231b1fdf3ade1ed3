# Experiments after "Ad Click Prediction: a View from the Trenches" (McMahan et al., KDD 2013): `make -C examples trenches`, or one
# of the targets below. What they printed stands in trenches.md, beside the paper's figures.
#
# LOG: a Criteo-like log of ROWS rows (4 million) from a seed (tests/bench/bench-log.c), 39 one-hot fields, for everyone; REAL: the same
# features streams of the logs of DATA, where they are. Each experiment leaves its table in $(T)/NAME.txt.

trenches_rows := $(or $(ROWS),4000000)# ROWS itself has another default in other recipes
T    := $(OUT)/trenches/$(trenches_rows)
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
	$(BENCH_LOG) tsv $(trenches_rows) | ctr-import --format tsv --columns '$(trenches_columns)' | ctr-extract $< -o $@

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

# The first three quarters to learn from, the rest held out: of it one half to choose by, the other to report.
$(T)/%.train.arrows $(T)/%.rest.arrows &: $(T)/%.arrows
	ctr-select --head 75% $< -o $(T)/$*.train.arrows --rest $(T)/$*.rest.arrows
$(T)/%.validation.arrows $(T)/%.test.arrows &: $(T)/%.rest.arrows
	ctr-select --head 50% $< -o $(T)/$*.validation.arrows --rest $(T)/$*.test.arrows
held_out = $(foreach p,train validation test,$(1:%=$(T)/%.$p.arrows))
.PRECIOUS: $(foreach p,train rest validation test,$(T)/%.$p.arrows)

# Those with rows enough to compare models by.
logs := log $(filter-out avazu,$(real))

# ---- the experiments: each adds its name to the list and makes $(T)/NAME.txt ----

# data: rows, keys, mean label and progressive AUC of each log, by plain FTRL-Proximal
trenches += data
$(T)/data.txt: $(LOG) $(REAL)
	@printf '%-10s %10s %10s %10s %10s\n' log rows keys label AUC >$@
	for f in $^; do ctr-train lr --alpha 0.05 $$f -o $(T)/model.arrows 2>$(T)/err || { cat $(T)/err >&2; exit 1; }; \
	  awk -v name=$$(basename $$f .arrows) '/^(rows|keys)/ { v[$$1] = $$2 } /^mean label/ { l = $$3 } /AUC/ { a = $$3 } \
	    END { printf "%-10s %10d %10d %10.4f %10.4f\n", name, v["rows"], v["keys"], l, a }' $(T)/err >>$@; done

# nohelp: what section 9 tried and found no benefit in, on rows that were held out; alpha is tuned for each on others of them
trenches += nohelp
nohelp := - --hash-bits=18 --hash-bits=20 --hash-bits=22 --hash-bits=24 --dropout=.1 --dropout=.2 --dropout=.5 \
	--normalize=l1 --normalize=l2 --normalize=max
$(T)/nohelp.txt: $(call held_out,$(logs))
	for l in $(logs); do for o in $(nohelp); do \
	  printf '%s %s ' $$l $$o; ./trenches.sh held-out $(T)/$$l "$$(echo $$o | sed "s,^-$$,,")" || exit 1; \
	done; done >$@.lines
	./trenches.sh against-first <$@.lines >$@

# table2: inclusion of new features (section 4.1): memory of the learner, filters included, against AucLoss of progressive validation
# Filters have about a byte for each key that comes; larger ones save less and lose less.
trenches += table2
table2 := all bloom=1 bloom=2 poisson=0.3 poisson=0.1 poisson=0.03
table2_filter = $(if $(filter log,$(1)),2M,$(if $(filter mind,$(1)),4M,128K))
$(T)/table2.txt: $(logs:%=$(T)/%.arrows)
	($(foreach l,$(logs),for i in $(table2); do ./trenches.sh inclusion $(T)/$l.arrows $$i $(call table2_filter,$l) || exit 1; done;)) >$@.lines
	./trenches.sh memory-against-loss <$@.lines >$@

# precision: coefficients of fewer bits (section 4.2): memory of the learner against AucLoss
trenches += precision
$(T)/precision.txt: $(logs:%=$(T)/%.arrows)
	for l in $(logs); do for p in f64 f32 q2.13; do \
	  ./trenches.sh precision $(T)/$$l.arrows $$p || exit 1; done; done >$@.lines
	./trenches.sh memory-against-loss <$@.lines >$@

# calibration: power, platt and isotonic maps at the low and high ends (section 7); ipinyou has scores of another model
trenches += calibration
scored := $(if $(wildcard $(DATA)/ipinyou_scored),ipinyou)
$(T)/calibration.txt: $(call held_out,$(logs)) $(foreach s,$(scored),$(OUT)/$s/train.arrows $(OUT)/$s/test.arrows)
	for l in $(logs); do ./trenches.sh calibration $(T)/$$l || exit 1; done >$@.lines
	for l in $(scored); do ./trenches.sh calibration-of $$l $(OUT)/$$l/train.arrows $(OUT)/$$l/test.arrows pctr || exit 1; done >>$@.lines
	./trenches.sh calibration-table <$@.lines >$@

# variants: a hundred models that leave out one column each or some, learned exactly (4.3) and with one value a coordinate (4.4)
trenches += variants
VARIANT_ROWS ?= 200000
$(T)/variants.arrows: $(LOG)
	ctr-select --head $(VARIANT_ROWS) $< -o $@
$(T)/variants.txt: $(T)/variants.arrows
	./trenches.sh variants $< >$@

# bagging: feature bagging by variants (section 9): the mean of models that leave out a random fifth of the columns each, against all
trenches += bagging
bagging_logs := $(filter-out mind,$(logs))
$(T)/bagging.txt: $(bagging_logs:%=$(T)/%.arrows)
	for l in $(bagging_logs); do ./trenches.sh bagging $(T)/$$l.arrows || exit 1; done >$@

# table1: non-zero weights of other optimizers where their AucLoss is that of FTRL-Proximal (section 3)
trenches += table1
$(T)/table1-%.txt: $(T)/%.train.arrows $(T)/%.rest.arrows
	./trenches.sh sparsity $(T)/$* >$@
.PRECIOUS: $(T)/table1-%.txt
$(T)/table1.txt: $(logs:%=$(T)/table1-%.txt)
	cat $^ | ./trenches.sh sparsity-table >$@

# rates: a learning rate by coordinate, from sums of squares or from counts, against one for all (sections 3.1 and 4.5), alpha tuned for each
trenches += rates
$(T)/rates.txt: $(call held_out,$(logs))
	for l in $(logs); do for o in per-coordinate counts global; do \
	  printf '%s %s ' $$l $$o; ./trenches.sh held-out $(T)/$$l "--learning-rate $$o" || exit 1; \
	done; done >$@.lines
	./trenches.sh against-first <$@.lines >$@

# fig2: GridViz (section 5) over progressive predictions of a planted world, against a model of single features: a page for a browser (1.6 GB in OUT)
# fig2.png: the picture of it in trenches.md and README.md, with Chromium
trenches += fig2
FIG2_ROWS ?= 1000000
fig2_models := truth crosses hashed-12 l1-30 fast no-user
fig2_by := category,city,os,hour,advertiser,referrer
fig2_options := --by $(fig2_by) --slices 200 --window 1d --metrics auc_loss,log_loss,squared_error,calibration --format stream
F := $(T)/fig2
$(F)/world.arrows:
	ctr-synth -q -o $(F)/logs --rows $(FIG2_ROWS) --seed 1
	for i in users campaigns; do ctr-import --format tsv --header $(F)/logs/$$i.tsv -o $(F)/$$i.arrows || exit 1; done
	ctr-import --format tsv --header --time click_time $(F)/logs/clicks.tsv | ctr-select --columns impression_id,click_time -o $(F)/clicks.arrows
	ctr-import --format jsonl --columns ad_id:int64,campaign_id:int64,title:utf8,category:utf8,creative.format:utf8,price:float64 \
	    $(F)/logs/ads.jsonl -o $(F)/ads.arrows
	ctr-import --format tsv --header --time time $(F)/logs/impressions.tsv | ctr-join -q -k impression_id $(F)/clicks.arrows \
	  | ctr-join -q -k user_id $(F)/users.arrows | ctr-join -q -k ad_id $(F)/ads.arrows | ctr-join -q -k campaign_id $(F)/campaigns.arrows -o $@
# Plans: all of demo.plan, with the columns of the slices kept; without crosses; without the user.
$(F)/all.plan: demo.plan
	@mkdir -p $(@D)
	sed -e 's/^keep .*/keep p_true, category, hour = hour_of_day(time), of_city = city, of_os = os, of_advertiser = advertiser, of_referrer = referrer/' \
	  -e '$$a keep visit = concat(user_id, "/", day_of_week(time))' $< >$@
$(F)/single.plan: $(F)/all.plan
	grep -v cross $< >$@
$(F)/no-user.plan: $(F)/all.plan
	grep -v 'vocab(user_id' $< >$@
$(F)/%.features: $(F)/%.plan $(F)/world.arrows
	ctr-extract --fit $^ -o $(F)/$*.fitted
	ctr-extract $(F)/$*.fitted $(F)/world.arrows -o $@
fig2_train = ctr-train lr -q --alpha 0.05 -o $(F)/model --progressive - $(1) \
  | ctr-select --columns clicked,score,p_true,time,category,hour,city=of_city,os=of_os,advertiser=of_advertiser,referrer=of_referrer --tail 70% -o $@
$(F)/control.p: $(F)/single.features
	$(call fig2_train,$<)
$(F)/crosses.p: $(F)/all.features
	$(call fig2_train,$<)
$(F)/hashed-12.p: $(F)/all.features
	$(call fig2_train,--hash-bits 12 $<)
$(F)/l1-30.p: $(F)/all.features
	$(call fig2_train,--l1 30 $<)
$(F)/fast.p: $(F)/all.features
	$(call fig2_train,--alpha 1 $<)
$(F)/no-user.p: $(F)/no-user.features
	$(call fig2_train,$<)
$(F)/truth.p: $(F)/crosses.p
	ctr-select --columns 'clicked,score=p_true,time,$(fig2_by)' $< -o $@
$(F)/%.eval: $(F)/%.p $(F)/control.p
	ctr-eval -q $(fig2_options) --score score --control $(F)/control.p $< -o $@
$(F)/page.html: $(fig2_models:%=$(F)/%.eval)
	ctr-gridviz --title 'Models of a planted world, against one of single features' -o $@ $^
$(T)/fig2.txt: $(F)/page.html
	for m in $(fig2_models); do ctr-export --format csv --columns by,slice,window,rows,auc_loss_change $(F)/$$m.eval \
	  | ./trenches.sh slices $$m category; done | (printf '%-10s %9s   %s\n' model 'AucLoss %' 'the three best and the three worst categories'; cat) >$@
	@echo 'the page: $(abspath $(F)/page.html)' >>$@
.PHONY: trenches-fig2.png
trenches-fig2.png: need-chromium need-python3 $(F)/page.html
	python3 ../tests/browser/gridviz.py --shot $(F)/page.html $@ 'set("sort", "rows")' 'click("#metrics [value=\"3\"]")' \
	  'set("range", 1.1, "input")' 'hover(4, 5)'

# sample: a share of the queries without a click (section 4.6), of the world of fig2: learn from five days, score the last two
# (A query is a user's day.)
trenches += sample
$(F)/sample.train.arrows $(F)/sample.rest.arrows &: $(F)/all.features
	ctr-select --where 'time < ts"2026-01-10T00:00Z"' $< -o $(F)/sample.train.arrows --rest $(F)/sample.rest.arrows
$(T)/sample.txt: $(F)/sample.train.arrows
	(for r in 1 .5 .2 .1 .05 .02; do ./trenches.sh sample $(F)/sample $$r || exit 1; done; \
	  ./trenches.sh sample $(F)/sample .1 --columns -weight) >$@.lines
	./trenches.sh sample-table <$@.lines >$@

# fig3: labels drawn from a ground-truth model with other features: is uncertainty a measure of the error of the log-odds?
# Beside it stands the spread of 32 models, each learned from a bootstrap sample. Three settings: all columns and a truth that is learned with ctr-train's own
# options; a truth that fits its log closely; the same of the columns C1 to C16 (the picture). And the public logs, whose clicks are drawn again
# from such a truth: of criteo with the same plans; of ml1m from all of its plan, learned without its crosses.
trenches += fig3
FIG3_ROWS ?= $(shell expr $(trenches_rows) / 10)
FIG3_MODELS ?= 32
fig3_settings := weak strong narrow $(filter criteo ml1m,$(real))
fig3_columns = $(if $(filter narrow,$(1)),16,26)
fig3_rows = $(if $(filter weak,$(1)),$(shell expr $(FIG3_ROWS) / 4),$(FIG3_ROWS))
fig3_truth = $(if $(filter weak,$(1)),,--alpha 1 --passes 3 --spool $(T)/fig3/$(1)/spool)
$(T)/fig3/%.txt: trenches-fig3.plan trenches-truth.plan trenches-fig3.awk trenches.sh $(BENCH_LOG)
	@mkdir -p $(T)/fig3/$*
	$(BENCH_LOG) tsv $(call fig3_rows,$*) | awk '{ print NR "\t" $$0 }' \
	  | ctr-import --format tsv --columns 'row:int64,$(trenches_columns)' -o $(T)/fig3/$*/raw.arrows
	for p in trenches-truth.plan:truth trenches-fig3.plan:model; do \
	  sed 's/C\[1\.\.26\]/C[1..$(call fig3_columns,$*)]/' $${p%:*} >$(T)/fig3/$*/$${p#*:}.plan; done
	(echo "$*: $(call fig3_rows,$*) rows, columns C1 to C$(call fig3_columns,$*)" && \
	  ./trenches.sh fig3 $(T)/fig3/$* '$(call fig3_truth,$*)' $(T)/fig3/$*.svg $(FIG3_MODELS) 20) >$@
$(T)/fig3/criteo.txt: trenches-fig3.plan trenches-truth.plan trenches-fig3.awk trenches.sh $(criteo_inputs)
	@mkdir -p $(T)/fig3/criteo
	ctr-import --format csv --header --columns '$(criteo_columns)' $(filter %.gz,$^) | ctr-sort -k row -o $(T)/fig3/criteo/raw.arrows
	cp trenches-truth.plan $(T)/fig3/criteo/truth.plan
	cp trenches-fig3.plan $(T)/fig3/criteo/model.plan
	(echo 'criteo: clicks drawn again' && \
	  ./trenches.sh fig3 $(T)/fig3/criteo '$(call fig3_truth,criteo)' $(T)/fig3/criteo.svg $(FIG3_MODELS) 10) >$@
$(T)/fig3/ml1m.txt: $(ml1m_inputs) trenches-fig3.awk trenches.sh
	@mkdir -p $(T)/fig3/ml1m
	$(ml1m_rows) | ctr-select --add 'row=user_id * 100000 + movie_id' -o $(T)/fig3/ml1m/raw.arrows
	cp ml1m.plan $(T)/fig3/ml1m/truth.plan
	cp ml1m.plan $(T)/fig3/ml1m/model.plan
	(echo 'ml1m: ratings drawn again' && \
	  ./trenches.sh fig3 $(T)/fig3/ml1m '$(call fig3_truth,ml1m)' $(T)/fig3/ml1m.svg $(FIG3_MODELS) 10) >$@
.PRECIOUS: $(T)/fig3/%.txt
$(T)/fig3.txt: $(fig3_settings:%=$(T)/fig3/%.txt)
	cat $^ >$@

# ---- the list ----

.PHONY: trenches $(trenches:%=trenches-%)
trenches: $(trenches:%=trenches-%)
$(trenches:%=trenches-%): trenches-%: $(T)/%.txt
	@cat $<
