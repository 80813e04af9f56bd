# The environment with PyTorch is made once, anew where its requirements have changed, and what pip cannot get is a sentence.
python3 -c 'import ensurepip, venv' 2>/dev/null || { echo '# skip: this Python makes no virtual environments'; exit 77; }
mkdir -p tools python/tests/torch
cp "$ROOT/tools/make-torch" tools
export PIP_NO_INDEX=1 PIP_FIND_LINKS=
echo '# nothing' > python/tests/torch/requirements.txt
tools/make-torch
build/torch/bin/python -c 'print("runs")'
touch build/torch/mark
tools/make-torch && ls build/torch/mark
echo no-such-package > python/tests/torch/requirements.txt
tools/make-torch 2>&1; echo "exit $?"
ls build/torch/made-of.txt 2>/dev/null || echo "the next call tries again"
ls build/torch/mark 2>/dev/null || echo "made anew"
