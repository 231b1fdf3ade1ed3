# A folder of daily logs to one model by make, a day a process: make -f days.mk -j 8 LOGS=logs PLAN=ads.plan OUT=out
# A second run makes what is new or changed, and the model when a day was.
LOGS   ?= logs
PLAN   ?= ads.plan
OUT    ?= out
IMPORT ?= --header
.DELETE_ON_ERROR:

days := $(patsubst $(LOGS)/%.csv,$(OUT)/%.arrows,$(sort $(wildcard $(LOGS)/*.csv)))
ifeq ($(days),)
$(error $(LOGS) has no *.csv: LOGS=FOLDER names that of the logs)
endif

$(OUT)/model: $(days)
	ctr-train lr -q -o $@ $^

# make shares the processors out by -j: a filter takes one (CTR_JOBS in ctrkit(7)).
$(OUT)/%.arrows: $(LOGS)/%.csv $(PLAN) | $(OUT)
	ctr-import -q $(IMPORT) $< | CTR_JOBS=1 ctr-extract -q $(PLAN) -o $@

$(OUT):
	mkdir -p $@
