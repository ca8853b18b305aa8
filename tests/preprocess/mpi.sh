# Sourced behind lib.sh by tests that start ranks: Open MPI on this machine only, or the test is skipped.
command -v mpirun >/dev/null || skip "mpirun (openmpi-bin) is not installed"
mpirun --version | grep -q 'Open MPI' || skip "mpirun is not Open MPI's"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_plm=isolated OMPI_MCA_oob_tcp_if_include=lo  # neither ssh nor a network is asked for
export OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_pml=ob1 OMPI_MCA_mpi_yield_when_idle=1
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"  # what Open MPI keeps to the end is not ours
export TMPDIR=$work                                                  # Open MPI's own files
timeout 120 mpirun -n 3 true >mpirun.log 2>&1 </dev/null || { cat mpirun.log; skip "mpirun cannot start three processes here"; }
