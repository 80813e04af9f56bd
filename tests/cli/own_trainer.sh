# A trainer of somebody else's: plain C layers, one header, one library.
set -eu
"$WEIR_BUILD/examples/own_trainer" >printed
grep -q '^the pipeline.s weights equal the plain loop.s, bit for bit$' printed
grep -q '"format": "weir.simulation"' printed
