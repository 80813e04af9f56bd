# Processes of mpirun that nobody has told where rank 0 is: MPI does.
case $WEIR_BUILD in *asan* | *tsan*)
    echo '# skip: MPI itself leaks and races in the eyes of the sanitizers'
    exit 77 ;;
esac
if [ ! -e "$WEIR_BUILD/lib/weir-mpi.so" ] || ! command -v mpirun >/dev/null; then
    echo '# skip: weir-mpi.so is not built here (scons mpi=yes says what it lacks), or there is no mpirun'
    exit 77
fi
unset WEIR_PLUGINS  # it is found without
model="gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2"
weir profile "$model" -o profile.json >/dev/null
weir partition profile.json --cluster "3 devices, 1GiB, 10GB/s 1us" --schedule 1f1b --micro-batches 8 -o plan.json >/dev/null

verify() {  # VARIABLES.. of each process
    mpirun -n 3 env "$@" weir verify plan.json --device cpu:queued >out.txt 2>err.txt
    echo "exit $?, $(tail -n 1 out.txt)"
    grep '^weir' err.txt | sort -u | head -n 1
}
echo "one machine: $(verify ONE=1)"
echo "as if on three: $(verify OMPI_COMM_WORLD_LOCAL_SIZE=1)"
mkdir none
echo "without the plug-in: $(verify WEIR_PLUGINS=none)"
echo "and as if on three: $(verify WEIR_PLUGINS=none OMPI_COMM_WORLD_LOCAL_SIZE=1)"
echo "another's launcher: $(PMI_RANK=0 PMI_SIZE=3 MPI_LOCALNRANKS=3 weir verify plan.json --device cpu:queued 2>&1)"
