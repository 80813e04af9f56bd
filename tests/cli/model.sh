# `weir model` lists the models and a model's layers; its document is the one docs/formats/model.md shows.
weir model
weir model gpt-nano,blocks=1,dropout=0.1
awk '/^```json$/ { on = 1; next } /^```$/ { on = 0 } on' "$ROOT/docs/formats/model.md" > page.json
weir model mlp,micro_batch=1,sequence=2,width=4,blocks=1 --json | cmp - page.json && echo "as the page shows it"
echo "# widths of pictures"
for model in resnet18,width=8 unet,width=16,blocks=3 fashion-cnn; do
    weir model $model --json | grep -E '^  "(model|width|blocks)"'
done
weir model resnet18,pixels=28,channels=1,classes=10,stem=3x3s2,fused=no | tail -5
exec 2>&1
weir model gpt-5; echo "exit $?"
weir model gpt-nano,heads=3; echo "exit $?"
weir model --json; echo "exit $?"
weir model mlp mlp | head -1
weir model resnet18,sequence=4; echo "exit $?"
weir model resnet18,stem=5x5; echo "exit $?"
weir model resnet18,fused=maybe; echo "exit $?"
