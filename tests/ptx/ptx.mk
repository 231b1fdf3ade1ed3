# The plug-in's and plans' kernels as nvcc and NVRTC make them, run on the CPU (tests/ptx.t): where there is nvcc, for the plain
# build. Needed: x86-64, gcc, g++, python3.
cuda_dir := $(patsubst %/bin/,%,$(dir $(realpath $(NVCC))))
ptx_nvrtc := $(firstword $(wildcard $(cuda_dir)/lib64/libnvrtc.so.1[0-9] $(cuda_dir)/lib64/libnvrtc.so))
ptx_units := $(patsubst src/cuda/%.cu,%,$(cu_files))
ptx := $(B)/ptx/libcuda.so $(B)/ptx/ctr-cuda.so $(B)/ptx/faults $(patsubst %,$(B)/ptx/modules/%.so,$(ptx_units) faults)

$(B)/ptx/modules/%.so: $(B)/ptx/%.ptx tests/ptx/ptx_to_c.py tests/ptx/device.h tests/ptx/compile
	@mkdir -p $(@D)
	$(call say,PTX,$@)
	$(Q)tests/ptx/compile $< $@

$(B)/ptx/libcuda.so: tests/ptx/cuda.cc tests/ptx/machine.cc tests/ptx/machine.h tests/ptx/device.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)c++ -std=c++20 -O2 -Wall -Wextra $(if $(DEV),-Werror) -ffp-contract=off -fPIC -shared -isystem $(cuda_dir)/include \
		-DPTX_SOURCE='"$(CURDIR)/tests/ptx"' -DPTX_NVRTC='"$(ptx_nvrtc)"' -o $@ $(filter %.cc,$^) -ldl

# What nvcc compiled for the host, with the machine in place of libcudart and libcublas.
ptx_link = $(Q)c++ $(1) -o $@ $(filter %.o,$^) -L$(B)/ptx -lcuda -Wl,-rpath,'$$ORIGIN' -ldl
$(B)/ptx/ctr-cuda.so: $(cu_files:%.cu=$(B)/%.o) $(B)/ptx/libcuda.so
	$(call say,LD,$@)
	$(call ptx_link,-shared)

# Kernels with errors.
$(B)/ptx/%.o $(B)/ptx/%.ptx: tests/ptx/%.cu
	$(call nvcc,$(B)/ptx)

$(B)/ptx/faults: $(B)/ptx/faults.o $(B)/ptx/libcuda.so
	$(call say,LD,$@)
	$(call ptx_link)

.SECONDARY: $(patsubst %,$(B)/ptx/%.ptx,$(ptx_units) faults)
checked: $(if $(plugin),$(if $(COV),,$(ptx)))
