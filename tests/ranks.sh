# Of tests that run processes under mpirun: skips them all where there is none. Source it after lib.sh.
[ -z "$SAN" ] || skip_all "MPI is left out under the sanitizers (unit-comm and unit-lr-ranks have threads as ranks)"
command -v mpirun >/dev/null || skip_all "no mpirun"
[ -f "$CTR_BUILD/lib/ctr/ctr-mpi.so" ] || skip_all "a build without Open MPI"

OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=$W
OMPI_MCA_btl_vader_single_copy_mechanism=none # containers forbid a process to read the memory of another one
OMPI_MCA_pml=ob1 # to look for devices of other kinds takes .2 s of a run
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_btl_vader_single_copy_mechanism OMPI_MCA_pml TMPDIR
timeout 60 mpirun --oversubscribe -q -n 2 true >"$W/mpirun.out" 2>&1 </dev/null || skip_all "mpirun starts no processes here: $(head -n 1 "$W/mpirun.out")"
run() { # run RANKS COMMAND…
    _ranks=$1
    shift
    timeout 60 mpirun --oversubscribe -q -n "$_ranks" "$@" </dev/null
}
