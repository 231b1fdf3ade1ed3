# ctrkit: `make demo` shows it, `make check` tests it, `make install PREFIX=…` installs it.
# One non-recursive Makefile. Configurations (plain, DEV=1, SAN=1) build in separate folders and never mix.

PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= cc
MAKEFLAGS += --no-builtin-rules

# V=1 shows the commands.
Q   := $(if $(V),,@)
say  = $(if $(V),,@printf '  %-3s %s\n' $(1) $(2))

config := opt$(if $(DEV),-dev)$(if $(SAN),-san)$(if $(TSAN),-tsan)$(if $(FUZZ),-fuzz)$(if $(COV),-cov)
B      := build/$(config)

# What is undefined ends a program, and AddressSanitizer says where (tests/unit/leaks.c). SAN=says tells what it was, too: by some 64 bytes
# of data a check, 12 MB of ctr-train, which each run registers and a search for leaks reads.
trap   := -fsanitize-undefined-trap-on-error
WARN   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-missing-field-initializers -Wno-psabi \
	$(if $(findstring clang,$(CC)),-Wno-unknown-pragmas)
PKGS   := zlib libxxhash libzstd liblz4
CFLAGS ?= $(if $(SAN),-O1 -g1,-O2 -g)
override CFLAGS += -std=gnu11 -ffp-contract=off -fno-math-errno -fno-strict-aliasing $(WARN) $(if $(DEV),-Werror) \
	$(if $(TSAN),-fsanitize=thread) $(if $(COV),-O0 --coverage -fprofile-update=atomic) \
	$(if $(SAN),-fsanitize=address$(,)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer $(if $(filter 1,$(SAN)),$(trap))) \
	$(if $(FUZZ),-DCSV_TILE_BYTES=512 -DRAW_BYTES=4096 -DLOOK_BYTES=4096 -DOUT_BUFFER=4096 -DPLAN_MAX_DEFS=100 \
	-fsanitize=fuzzer-no-link$(,)address$(,)undefined -fno-sanitize=pointer-overflow -fno-sanitize-recover=undefined \
	$(if $(CMP),,-fno-sanitize-coverage=trace-cmp$(,)indirect-calls$(,)stack-depth) -fno-omit-frame-pointer)
# Hardened, but where sanitizers check more: any place in memory, addresses of functions that are resolved at the start and then read-only,
# buffers whose size is known, return addresses, targets of jumps (x86). CONTRIBUTING.md has the cost; HARDEN= leaves it out.
HARDEN ?= 1
harden := $(if $(HARDEN),$(if $(SAN)$(TSAN)$(FUZZ)$(COV),,1))
override CFLAGS += $(if $(harden),-fPIE -fstack-protector-strong $(if $(filter x86_64-%,$(shell $(CC) -dumpmachine)),-fcf-protection))
override CPPFLAGS += -D_GNU_SOURCE -Isrc $(if $(harden),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3) $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
# The folder of the build is in no file: two builds in two folders are the same, byte for byte (make release-check).
here := -ffile-prefix-map='$(CURDIR)'=.
now := -Wl,-z,relro,-z,now
# Tests start thousands of processes. Under the sanitizers each relocates what describes its checks, and ends in a search for
# leaks that goes through the memory of a shared library too: 21 ms, 15 so; and half of that where nothing is left (leaks.c).
override LDFLAGS += $(if $(SAN),-Wl$(,)-u$(,)__lsan_is_turned_off $(if $(findstring clang,$(CC)),,-static-libubsan -no-pie)) $(if $(harden),-pie $(now))
LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -lpthread
, := ,

# Left out where their libraries are missing: the index of signals (SQLite), vectors of images (libjpeg, libpng). ctrkit tells of them
# (src/tools/ctrkit.c).
sqlite  := $(shell pkg-config --exists sqlite3 && echo yes)
images  := $(shell pkg-config --exists libjpeg libpng && echo yes)
# Codecs of Parquet: only their headers are needed, as the libraries are opened by the file that needs them.
codecs  := $(if $(shell pkg-config --exists snappy && echo yes),-DCTR_SNAPPY) $(if $(shell pkg-config --exists libbrotlidec && echo yes),-DCTR_BROTLI)
# Unicode for nfc(), likewise.
unicode := $(if $(shell pkg-config --exists libutf8proc && echo yes),-DCTR_UTF8PROC)
# Compressions of text, likewise (Debian 12 has no bzip2.pc).
packers := $(if $(wildcard /usr/include/bzlib.h /usr/local/include/bzlib.h),-DCTR_BZIP2) $(if $(shell pkg-config --exists liblzma && echo yes),-DCTR_XZ)
left    := $(if $(sqlite),,src/tools/ctr-signals/%) $(if $(images),,src/common/image/% src/tools/ctr-embed-images/% tests/unit/unit-image.c \
	tests/fuzz/fuzz-tar.c tests/fuzz/fuzz-image.c)
libsrc  := $(filter-out $(left),$(sort $(wildcard src/common/*/*.c)))
libobj  := $(libsrc:%.c=$(B)/%.o)
mainobj := $(B)/src/common/cli/main_one.o
# A tool is a file src/tools/ctr-X.c, or a folder src/tools/ctr-X/ with ctr-X.c and the files that it alone uses, its parts.
toolsrc := $(filter-out $(left),$(sort $(wildcard src/tools/*.c src/tools/*/*.c)))
parts   := $(foreach f,$(toolsrc),$(if $(filter-out ctr%,$(notdir $f)),$f))
tools   := $(sort $(basename $(notdir $(filter-out $(parts),$(toolsrc)))))
bins    := $(tools:%=$(B)/bin/%)
mans    := $(sort $(wildcard man/*.[1-9]))
mandir  := $(PREFIX)/share/man
units   := $(patsubst tests/unit/%.c,$(B)/unit/%,$(filter-out $(left),$(sort $(wildcard tests/unit/unit-*.c))))
NVCC    ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
# Ranks (Open MPI) are a plug-in too, opened by ctr-train where mpirun started it.
mpi     := $(if $(SAN)$(FUZZ),,$(shell pkg-config --exists ompi-c && echo $(B)/lib/ctr/ctr-mpi.so))
# Between the GPUs of ranks: NCCL, which the plug-in opens at run time, if its header is there.
nccl    := $(firstword $(wildcard $(addsuffix /nccl.h,$(NVCC:%/bin/nvcc=%/include) /usr/local/include /usr/include)))
cu_files := $(sort $(wildcard src/cuda/*.cu))
other   := $(SAN)$(TSAN)$(FUZZ)
plugin  := $(if $(other),,$(if $(NVCC),$(B)/lib/ctr/ctr-cuda.so))
fuzzers := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(sort $(filter-out $(left),$(wildcard tests/fuzz/fuzz-*.c))))

.PHONY: help all links bins units fuzzers fuzz packages check checked coverage demo deps install uninstall clean lint format bench
.DELETE_ON_ERROR:
# Kept, though no rule names them. Not all objects: what is missing of the library's is made, as when SQLite came after a build.
.SECONDARY: $(mainobj) $(patsubst %.c,$(B)/%.o,$(wildcard src/tools/*.c src/tools/*/*.c tests/unit/*.c tests/bench/*.c tests/fuzz/*.c tests/compute/*.c))

all: links $(plugin)
	$(if $(NVCC)$(other),,@echo '  note: no nvcc, so the plug-in for GPUs is left out (install the CUDA toolkit and run make again, or give NVCC=PATH)')
	$(if $(nccl)$(if $(NVCC),,1)$(other),,@echo '  note: no nccl.h, so GPUs of ranks send through host memory (install libnccl-dev and run make again)')

# The tools of bin/, without the plug-in for GPUs, whose kernels take minutes.
links: bins
	$(if $(mpi)$(other),,@echo '  note: no Open MPI, so training over ranks is left out (install libopenmpi-dev, as make deps does, and run make again)')
	@mkdir -p bin && ln -sf $(tools:%=../$(B)/bin/%) bin/

bins: $(bins) $(mpi)

# Parts of tools, for their unit tests.
$(B)/libtools.a: $(parts:%.c=$(B)/%.o)
	@rm -f $@; ar rcs $@ $^

# main() is left out of the archive: unit tests have one of their own.
$(B)/libctr.a: $(filter-out %/main_one.o %/main_all.o,$(libobj)) $(if $(SAN),$(B)/tests/unit/leaks.o)
	@rm -f $@; ar rcs $@ $^

$(addprefix $(B)/,bin/ctr-embed-images bin/ctr-serve unit/unit-image fuzz/fuzz-tar fuzz/fuzz-image fuzz/fuzz-request): LIBS += $(shell pkg-config --libs libjpeg libpng 2>/dev/null)
$(B)/bin/ctr-signals: LIBS += $(shell pkg-config --libs sqlite3 2>/dev/null)
link = $(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)
$(foreach t,$(tools),$(eval $(B)/bin/$t: $(patsubst %.c,$(B)/%.o,$(filter src/tools/$t.c src/tools/$t/%,$(toolsrc)))))
$(B)/bin/%: $(mainobj) $(B)/libctr.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link)

# One program that is all tools, and links to it: the name it was started by chooses (src/common/cli/main_all.c). It is smaller than three of
# the tools. $(B)/static/ctrkit is the same with all libraries in it, the C library too: it runs on any Linux (make static, wheel, image).
main_of = $(patsubst %.c,$(B)/%.o,$(filter src/tools/$1.c src/tools/$1/$1.c,$(toolsrc)))
tool_id = ctr_tool_$(subst -,_,$1)
$(foreach t,$(tools),$(eval $(B)/single/$t.o: $(call main_of,$t)))
$(B)/single/%.o:
	@mkdir -p $(@D)
	$(Q)objcopy --redefine-sym ctr_tool=$(call tool_id,$*) $< $@
$(B)/single/tools.inc: $(tools:%=$(B)/single/%.o)
	$(Q)printf 'TOOL(%s)\n' $(patsubst ctr_tool_%,%,$(foreach t,$(tools),$(call tool_id,$t))) >$@
$(B)/src/common/cli/main_all.o: $(B)/single/tools.inc
$(B)/src/common/cli/main_all.o: private override CPPFLAGS += -I$(B)/single # the tools are compiled without it
singleobj := $(B)/src/common/cli/main_all.o $(tools:%=$(B)/single/%.o) $(parts:%.c=$(B)/%.o) $(B)/libctr.a
withlibs  := $(if $(sqlite),sqlite3) $(if $(images),libjpeg libpng)
.PHONY: single plugins
single: $(B)/single/ctrkit
plugins: $(plugin) $(mpi)
$(B)/single/ctrkit $(B)/static/ctrkit: $(singleobj)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link)
	@cd $(@D) && for t in $(filter-out ctrkit,$(tools)); do ln -sf ctrkit $$t || exit; done
$(B)/single/ctrkit: LIBS += $(if $(withlibs),$(shell pkg-config --libs $(withlibs)))
$(if $(SAN)$(TSAN)$(FUZZ)$(COV),,checked): $(B)/single/ctrkit $(B)/static/ctrkit
# Libraries that are opened when they are needed (src/common/base/optional.c) are linked in; Snappy where there is the C++ library (g++).
snappy := $(and $(findstring SNAPPY,$(codecs)),$(filter /%,$(shell $(CC) -print-file-name=libstdc++.a)))
linked := $(if $(snappy),snappy_compress snappy_uncompress) $(if $(unicode),utf8proc_map) \
	$(if $(findstring BROTLI,$(codecs)),$(addprefix BrotliDecoder,CreateInstance DecompressStream DestroyInstance)) \
	$(if $(findstring BZIP2,$(packers)),$(addprefix BZ2_bz,DecompressInit Decompress DecompressEnd)) \
	$(if $(findstring XZ,$(packers)),lzma_stream_decoder lzma_code lzma_end)
# The linker's warning is that a static program cannot open plug-ins of a GPU and of MPI; the tools say so when asked to.
$(B)/static/ctrkit: override LDFLAGS := $(filter-out -pie,$(LDFLAGS)) $(if $(harden),-static-pie,-static) \
	$(if $(shell ld --help | grep -e '--no-warnings'),-Wl$(,)--no-warnings)
$(B)/static/ctrkit: LIBS = $(linked:%=-Wl,-u,%) -Wl,--gc-sections -Wl,--start-group \
	$(filter -l%,$(shell pkg-config --static --libs $(PKGS) $(withlibs))) \
	$(if $(snappy),-lsnappy -lstdc++) $(if $(findstring BROTLI,$(codecs)),-lbrotlidec -lbrotlicommon) \
	$(if $(findstring BZIP2,$(packers)),-lbz2) $(if $(unicode),-lutf8proc) $(if $(findstring XZ,$(packers)),-llzma) -lm -Wl,--end-group

packages:
	@pkg-config --exists $(PKGS) || { echo "some of $(PKGS) are missing: run 'make deps'" >&2; exit 1; }
	@$(if $(images),:,echo "ctr-embed-images is left out, and ctr-serve takes no photographs: no libjpeg or libpng (install libjpeg-dev and libpng-dev, as make deps does, and run make again)" >&2)
	@$(if $(findstring SNAPPY,$(codecs)),:,echo "Parquet compressed with Snappy is refused: no snappy-c.h (install libsnappy-dev, as make deps does, and run make again)" >&2)
	@$(if $(findstring BROTLI,$(codecs)),:,echo "Parquet compressed with Brotli is refused: no libbrotlidec (install libbrotli-dev, as make deps does, and run make again)" >&2)
	@$(if $(unicode),:,echo "nfc() takes texts of Latin letters alone: no libutf8proc (install libutf8proc-dev, as make deps does, and run make again)" >&2)
	@$(if $(findstring BZIP2,$(packers)),:,echo "text compressed with bzip2 is refused: no bzlib.h (install libbz2-dev, as make deps does, and run make again)" >&2)
	@$(if $(findstring XZ,$(packers)),:,echo "text compressed with xz is refused: no liblzma (install liblzma-dev, as make deps does, and run make again)" >&2)
	@$(if $(sqlite),:,echo "ctr-signals is left out: no sqlite3 (install libsqlite3-dev, as make deps does, and run make again)" >&2)

# What objects are made with: other flags than the last time make all of them anew. `make install` alone takes what there is.
flags := $(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS)
differ := $(and $(filter-out install,$(or $(MAKECMDGOALS),all)),$(subst $(file <$(B)/flags),,$(flags)))
$(B)/flags: export FLAGS = $(flags)
$(B)/flags: $(if $(differ),,|) packages
	@mkdir -p $(@D); printenv FLAGS >$@

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(here) -MMD -MP -c -o $@ $<

# The sanitizers' build is -O1, which compiles in half the time, but for arithmetic, whose trials run 1.8 times as long with it.
$(if $(SAN),$(B)/src/common/compute/%.o $(B)/tests/compute/%.o $(B)/onhost/%.o: override CFLAGS += -O2)
# The trials' reference judges and is not judged: canaries in the plain half look at what it writes.
$(if $(SAN),$(B)/tests/compute/reference.o: override CFLAGS += -fno-sanitize=all)

$(B)/src/common/parquet/parquet_codec.o $(B)/src/common/parquet/parquet_pack.o: override CPPFLAGS += $(codecs)
$(addprefix $(B)/,src/common/op/op_unicode.o tests/unit/unit-op.o): override CPPFLAGS += $(unicode)
$(addprefix $(B)/,src/common/text/unpack_library.o tests/unit/unit-unpack.o tests/unit/unit-lines.o): override CPPFLAGS += $(packers)

$(B)/src/tools/ctr-serve/serve_inbox.o: override CPPFLAGS += $(if $(images),-DCTR_IMAGES)

# A body that is compiled for each of its constants counts once.
$(if $(COV),$(B)/src/common/text/%.o $(B)/src/tools/ctr-export/%.o: override CPPFLAGS += -Dalways_inline=noinline)

$(B)/unit/%: $(B)/tests/unit/%.o $(B)/libtools.a $(B)/libctr.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(link)
$(B)/unit/unit-comm $(B)/unit/unit-lr-ranks: $(B)/tests/unit/comm_threads.o

# Places that are made to fail, see sites.h.
sites := $(shell sed -n 's/^SITE.\([a-z0-9_]*\),.*/\1/p' tests/unit/sites.h) ctr_buf_reserve ctr_buf_printf ctr_out_printf \
	ctr_arena_alloc ctr_arena_copy
$(patsubst %,$(B)/unit/unit-%,text-alloc plan-alloc model-alloc stream-alloc safetensors foreign): LIBS += $(sites:%=-Wl,--wrap=%)

$(B)/src/tools/ctr-gridviz/gridpage.o: $(patsubst %,src/tools/ctr-gridviz/%,gridviz.html gridviz.css gridviz.js d3.min.js d3.LICENSE)
$(B)/src/tools/ctr-report/reportpage.o: src/tools/ctr-report/report.css

# Manuals as text, for `ctrkit help` without man.
$(B)/manuals.txt: src/tools/mdoc-to-text.awk $(mans)
	@mkdir -p $(@D)
	$(Q)LC_ALL=C awk -f $^ >$@ # columns are bytes with any awk and locale
$(B)/src/tools/ctrkit.o: $(B)/manuals.txt
$(B)/src/tools/ctrkit.o: override CPPFLAGS += -DCTR_MANUALS='"$(B)/manuals.txt"'

units: $(units)

# The GPU's side is a plug-in, built where there is nvcc. Its text as loops on the host (c++ does) is for the tests.
CUWARN   := -Wall,-Wextra,-Wno-missing-field-initializers$(if $(DEV),$(,)-Werror)
# One rounding an operation, denormals flushed: the bits of the CPU.
CUFLAGS  := -std=c++20 -O2 -fmad=false -ftz=true -prec-div=true -prec-sqrt=true -Xcompiler -fPIC,-ffp-contract=off,$(CUWARN)$(if $(harden),$(,)-fstack-protector-strong) \
	$(if $(DEV),-Werror all-warnings) -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
	-gencode arch=compute_90,code=compute_90 -D_GNU_SOURCE -Isrc $(if $(nccl),-DCTR_NCCL -isystem $(dir $(nccl)))

# An object $(1)/NAME.o, and its PTX, which tests/ptx.t runs.
define nvcc
	@mkdir -p $(1) $(B)/ptx/keep/$*
	$(call say,NV,$<)
	$(Q)$(NVCC) $(CUFLAGS) -MMD -MP -keep -keep-dir $(B)/ptx/keep/$* -c -o $(1)/$*.o $<
	$(Q)mv $(B)/ptx/keep/$*/*.compute_90.ptx $(B)/ptx/$*.ptx && rm -r $(B)/ptx/keep/$*
endef
$(B)/src/cuda/%.o $(B)/ptx/%.ptx: src/cuda/%.cu
	$(call nvcc,$(B)/src/cuda)

$(B)/lib/ctr/ctr-cuda.so: $(cu_files:%.cu=$(B)/%.o)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(NVCC) -shared -Xlinker -z,relro,-z,now -o $@ $^ -lcublas -ldl

$(B)/lib/ctr/ctr-mpi.so: src/mpi/mpi.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(here) $(shell pkg-config --cflags ompi-c) -MMD -MP -MF $(B)/src/mpi.d -fPIC -shared $(now) -o $@ $< $(shell pkg-config --libs ompi-c)

$(B)/onhost/%.o: %.cu $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)c++ -std=c++20 $(filter-out -std=% -Wshadow -Wstrict-prototypes -Wmissing-prototypes,$(CFLAGS)) -MMD -MP \
		-fPIC -DCTR_CUDA_ON_HOST -D_GNU_SOURCE -Isrc -x c++ -c -o $@ $<

$(B)/onhost/ctr-cuda.so: $(cu_files:%.cu=$(B)/onhost/%.o)
	$(Q)c++ $(filter -fsanitize%,$(CFLAGS)) -shared -o $@ $^

# The same under ThreadSanitizer, where kernels run in blocks whose threads race.
tsan := -fsanitize=thread -O1 -g1
$(B)/onhost-tsan/%.o: %.cu $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)c++ -std=c++20 $(filter-out -std=% -fsanitize% -fno-sanitize% -O% -g% -Wshadow -Wstrict-prototypes -Wmissing-prototypes,$(CFLAGS)) $(tsan) \
		-MMD -MP -fPIC -DCTR_CUDA_ON_HOST -D_GNU_SOURCE -Isrc -x c++ -c -o $@ $<

$(B)/onhost-tsan/ctr-cuda.so: $(cu_files:%.cu=$(B)/onhost-tsan/%.o)
	$(Q)c++ $(tsan) -shared -o $@ $^

$(B)/onhost-tsan/compute: $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/compute/*.c))) $(B)/libctr.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(tsan) -o $@ $^ $(LIBS)

# What stands for the driver of CUDA and for NVRTC: kernels of layers on the host.
$(B)/onhost/libcuda.so: tests/gpu/driver.cc $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)c++ -std=c++20 -O1 -g1 -Wall -Wextra $(if $(DEV),-Werror) -fPIC -shared -o $@ $< -ldl

# … and for NCCL, between processes.
$(B)/onhost/libnccl.so: tests/gpu/nccl.cc src/cuda/onhost.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)c++ -std=c++20 -O1 -g1 -Wall -Wextra $(if $(DEV),-Werror) -Isrc -fPIC -shared -o $@ $<

$(B)/src/common/op/gpu_text.o: $(wildcard src/common/op/*.h src/common/base/m*.h src/common/base/t*.h)

include tests/ptx/ptx.mk

checked: $(if $(shell command -v c++),$(B)/onhost/libcuda.so $(B)/onhost/libnccl.so $(B)/onhost/ctr-cuda.so $(if $(SAN)$(COV)$(FUZZ),,$(addprefix $(B)/onhost-tsan/,ctr-cuda.so compute)))

.PHONY: check-gpu bench-gpu
# On a machine with a GPU; elsewhere they say "skipped: no device". `make check` runs the same tests on the host.
gpu_tests := tests/gpu.t tests/gpu-extract.t tests/left.t tests/device.t tests/lr-device.t tests/workingset.t tests/ranks-device.t
check-gpu: all $(B)/compute/compute $(addprefix $(B)/unit/unit-,op gpu left) $(B)/onhost/libcuda.so
	@$(B)/compute/compute --device gpu --nan && CTR_GPU=1 CTR_BUILD=$(CURDIR)/$(B) tests/run $(gpu_tests) || [ $$? -eq 77 ]

# One archive that tests and measures on a bare machine with a GPU: card/run there (tests/gpu/card-run).
.PHONY: card
card: all $(B)/compute/compute $(addprefix $(B)/unit/unit-,op gpu left) $(addprefix $(B)/bench/bench-,log limit gpu)
	@$(if $(plugin),,echo "make card: there is no nvcc" >&2; exit 1;) tests/gpu/card $(B) $(B)/card.tar.gz

# BENCH=featurebox: launches, memory and plans alone, which need the driver and NVRTC and no plug-in. BENCH=din: din alone.
bench-gpu: $(if $(BENCH),bins,all $(B)/compute/compute) $(addprefix $(B)/bench/bench-,log limit gpu)
	@$(if $(BENCH),,$(B)/compute/compute --device gpu --bench &&) python3 tests/bench/bench.py --build $(B) --quick --only gpu$(BENCH:%=-%) $(BENCH_FLAGS) || [ $$? -eq 77 ]

$(B)/bench/%: $(B)/tests/bench/%.o $(B)/libctr.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# Ours, the peers, the limits of the machine in one table. QUICK=1: 1 million rows, fewer runs; BENCH=train,join picks rows.
bench: bins $(B)/bench/bench-log $(B)/bench/bench-limit $(B)/bench/bench-load $(B)/compute/compute
	@python3 tests/bench/bench.py --build $(B) $(if $(QUICK),--quick) $(if $(BENCH),--only $(BENCH)) $(BENCH_FLAGS)

# Fuzz targets: with a main that replays files; with FUZZ=1 they are libFuzzer's, and with CMP=1 comparisons guide it, which
# takes a third longer. memfile.c stands for files.
fuzz_wrap    := $(patsubst %,-Wl$(,)--wrap=%,open close read pread readv write writev lseek ftruncate fstat stat access isatty mmap munmap madvise)
fuzz_objects := $(patsubst %,$(B)/tests/fuzz/%.o,harness memfile mutate $(if $(FUZZ),,replay))
$(B)/fuzz/%: $(B)/tests/fuzz/%.o $(fuzz_objects) $(B)/libtools.a $(B)/libctr.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(if $(FUZZ),-fsanitize=fuzzer) $(fuzz_wrap) $(LDFLAGS) -o $@ $^ $(LIBS)

fuzzers: $(fuzzers)

# FUZZ_RUNS executions of each target (T=… picks targets), with clang; new inputs stay in build/fuzz/.
fuzz:
	@$(MAKE) --no-print-directory FUZZ=1 CC=clang DEV= SAN= fuzzers
	@FUZZ_BUILD=build/opt-fuzz/fuzz tests/fuzz/run $(T)

# Lines and branches of the format and parser code that its tests run, by gcov, in some minutes; T=… picks other tests, and
# FILES=src/common/text/csv.c shows what of a file is missed; KEEP=1 writes tests/coverage/RESULTS.md.
coverage_tests = $(patsubst %,build/opt-cov/unit/unit-%,stream ahead stream-alloc stream-fault stream-refuse stream-io seal foreign keyed batch base num time \
	plan plan-alloc plan-refuse op op-alloc formats import export safetensors unpack lines text-refuse text-alloc calmap metric model model-alloc model-refuse) \
	$(patsubst %,tests/%.t,fuzz stream interop refusals import-formats ctr-import ctr-export ctr-extract ctr-select ctr-model \
	ctr-calibrate ctr-predict ctr-train ctr-train-follow ctr-train-variants ctr-train-mlp ctr-train-din ctr-train-dicm)
coverage:
	@$(MAKE) --no-print-directory COV=1 DEV= SAN= bins units fuzzers
	@find build/opt-cov -name '*.gcda' -delete
	@$(MAKE) --no-print-directory COV=1 DEV= SAN= check T='$(or $(T),$(coverage_tests))'; status=$$?; \
		tests/coverage/table $(if $(KEEP),--keep) build/opt-cov $(FILES) && exit $$status

# What the tests run; `make -j2 checked` has it built by two.
checked: bins units fuzzers $(B)/bench/bench-log $(B)/bench/bench-gpu $(B)/bench/bench-load

# T=… picks tests: make check T='tests/ctr-join.t'; TIMES=FILE keeps what each took.
check:
	@.ci/deps check
	@$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j2) checked
	@CTR_BUILD=$(CURDIR)/$(B) tests/run $(T)

# Every operation of the compute table against its reference: the program that tests/compute.t runs.
$(B)/compute/compute: $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/compute/*.c))) $(B)/libctr.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

checked: $(B)/compute/compute $(if $(plugin),$(B)/bench/bench-limit)

# A library that is preloaded to make the N-th call fail. Sanitizers have allocators of their own.
$(B)/fault/inject.so: tests/fault/inject.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -D_GNU_SOURCE -O2 -g -Wall -Wextra $(if $(DEV),-Werror) $(if $(SAN)$(TSAN),-DNO_ALLOC) -fPIC -shared -o $@ $< -ldl

# Starts commands for the tests of faults.
$(B)/fault/spawn: tests/fault/spawn.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -D_GNU_SOURCE -O2 -Wall -Wextra $(if $(DEV),-Werror) -o $@ $<

checked: $(B)/fault/inject.so $(B)/fault/spawn

# The README's two commands in minimal roots of Debian 12 and 13, as root and as a user. As root, with debootstrap; FRESH='trixie' picks.
.PHONY: fresh
fresh:
	@tests/fresh $(FRESH)

.PHONY: fault
# The scorecard of faults: make fault, or make fault LINE='3 7'. Its quick part is in `make check`.
fault: bins units $(B)/fault/inject.so $(B)/fault/spawn
	@CTR_TOP=$(CURDIR) CTR_BUILD=$(CURDIR)/$(B) tests/fault/scorecard $(LINE)

# Static checks: formatting, cppcheck, manual pages.
c_files := $(wildcard src/*/*/*.[ch] src/tools/*.c src/mpi/*.c tests/unit/*.[ch] tests/bench/*.c tests/fuzz/*.[ch] tests/compute/*.[ch] src/cuda/*.cu src/cuda/*.h)
lint:
	$(Q)clang-format --dry-run -Werror $(c_files)
	$(Q)cppcheck -q -j2 --std=c11 --inline-suppr --error-exitcode=1 --enable=warning -Isrc --suppressions-list=.ci/cppcheck.suppressions src
	@! mandoc -Tlint -Wwarning man/* 2>&1 | grep -E '(WARNING|ERROR|UNSUPP)'
	@! LC_ALL=C.UTF-8 grep -nE '^[^|].{160,}' README.md CONTRIBUTING.md CHANGELOG.md examples/*.md man/* # columns; a row of a table is one line

format:
	$(Q)clang-format -i $(c_files)

# The manuals as a site, build/html.
.PHONY: html
html:
	@.ci/html/make man build/html && echo "build/html/index.html"

deps:
	.ci/deps all

# Everything a newcomer needs, then a planted world from raw logs to calibrated probabilities.
demo:
	@.ci/deps check
	@$(MAKE) --no-print-directory -j2 links
	$(if $(wildcard $(B)/lib/ctr/ctr-cuda.so),,@echo '  note: the plug-in for GPUs is left out, which the demo does not need ($(if $(NVCC),make builds it,install the CUDA toolkit and run make))')
	@PATH="$(CURDIR)/bin:$$PATH" examples/demo.sh

# SINGLE=1: one program and links to it. Folders may have blanks, which the shell must not split.
quote   = '$(subst ','\'',$1)'
root    = $(call quote,$(DESTDIR)$(PREFIX))
manroot = $(call quote,$(DESTDIR)$(mandir))
mansect = man$(subst .,,$(suffix $m))
program = $(if $(SINGLE),$(B)/single,$(B)/bin)/ctrkit
install: $(if $(SINGLE),single,bins) $(plugin) $(mpi)
	install -d $(addprefix $(root)/,bin share/bash-completion/completions share/zsh/site-functions share/fish/vendor_completions.d) \
		$(foreach s,$(sort $(foreach m,$(mans),$(mansect))),$(manroot)/$s)
	install -m 755 $(if $(SINGLE),$(program),$(bins)) $(root)/bin
	$(if $(SINGLE),for t in $(filter-out ctrkit,$(tools)); do ln -sf ctrkit $(root)/bin/$$t || exit; done)
	$(if $(plugin)$(mpi),install -D -m 755 -t $(root)/lib/ctr $(plugin) $(mpi))
	$(foreach m,$(mans),install -m 644 $m $(manroot)/$(mansect)/ &&) true
	$(program) --completion bash >$(root)/share/bash-completion/completions/ctrkit
	$(program) --completion zsh >$(root)/share/zsh/site-functions/_ctrkit
	$(program) --completion fish >$(root)/share/fish/vendor_completions.d/ctrkit.fish
	cd $(root)/share/fish/vendor_completions.d && $(foreach t,$(filter-out ctrkit,$(tools)),ln -sf ctrkit.fish $t.fish &&) true
	cd $(root)/share/bash-completion/completions && $(foreach t,$(filter-out ctrkit,$(tools)),ln -sf ctrkit $t &&) true

uninstall:
	rm -rf $(root)/lib/ctr
	rm -f $(foreach t,$(tools),$(root)/bin/$t) $(root)/share/zsh/site-functions/_ctrkit
	rm -f $(foreach t,$(tools),$(root)/share/fish/vendor_completions.d/$t.fish)
	rm -f $(foreach t,$(tools),$(root)/share/bash-completion/completions/$t)
	rm -f $(foreach m,$(mans),$(manroot)/$(mansect)/$(notdir $m))

# Packages: build/dist has what is made; .ci/package/ has what makes it. `make release-check` makes and tests all of it.
.PHONY: dist deb wheel image static conda spdx sums release-check
version := $(shell sed -n 's/^\#define CTR_VERSION "\([^"]*\)".*/\1/p' src/common/base/base.h)
package = $(Q)B=$(B) VERSION=$(version) NVCC=$(NVCC) .ci/package/$1
wheel image static spdx release-check: $(B)/static/ctrkit
release-check: bins single # its tests run them
dist deb wheel image static conda spdx sums release-check:
	$(call package,$@)

# make help: lines that begin with #h, targets and variables.
help:
	@sed -n 's/^#h \([^:]*\): \(.*\)/  make \1\t\2/p' Makefile | awk -F'\t' '{ printf "%-27s %s\n", $$1, $$2 }'
#h demo: install what is missing, build, make synthetic logs, run the whole pipeline, print a report
#h -j2: build all tools into bin/ (PATH=$PWD/bin:$PATH)
#h check: build and pass all tests; T='tests/ctr-join.t' picks some, V=1 shows each
#h install PREFIX=DIR: programs, manuals and completion (default /usr/local); SINGLE=1: one program and links to it
#h uninstall: remove what install put there
#h deps: the Debian packages for building, testing and static checks
#h html: the manuals as a site, in build/html
#h single: one program of all tools; static: one that runs on any Linux
#h deb: packages of Debian; wheel, image, dist: for pip, a container, a tarball; all in build/dist
#h -C examples help: experiments on public data sets; make -C examples ml100k fetches its log
#h bench: every tool beside its peers (QUICK=1); bench-gpu on a GPU
#h lint: clang-format, cppcheck, mandoc; format applies the first
#h fuzz: the fuzzers, with clang; coverage, fault: what tests reach, what follows injected faults
#h clean: remove build/ and bin/
#h SAN=1, DEV=1, HARDEN=: sanitizers; warnings are errors; without hardening (each builds in a folder of its own)

clean:
	rm -rf build $(tools:%=bin/%)

-include $(wildcard $(libobj:.o=.d) $(B)/src/mpi.d $(B)/src/tools/*.d $(B)/src/tools/*/*.d $(B)/tests/unit/*.d $(B)/tests/bench/*.d $(B)/tests/fuzz/*.d $(B)/tests/compute/*.d $(B)/src/cuda/*.d $(B)/onhost/src/cuda/*.d $(B)/onhost-tsan/src/cuda/*.d)
