"""The loss of an iteration is the mean over all that it counts, or the step is refused: padded labels and their kin."""

import os
import sys
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..", ".."), os.path.dirname(__file__)]

import torch
from torch import nn
from torch.nn import functional

import weir
from plans import plan_of, recomputed
from ranks import on_ranks, setUpModule, tearDownModule  # noqa: F401
from weir.torch import pipeline, verify

LAYERS = ["words", *(f"layers.{layer}" for layer in range(4)), "head"]
WEIGHTS = torch.arange(1.0, 12.0)


def cross_entropy(logits, labels, **more):
    return functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), **more)


def each(logits, labels):
    """Of each label its loss and whether it counts."""
    loss = cross_entropy(logits, labels, reduction="none")
    return loss, (labels.flatten() != -100).float()


def masked(logits, labels):
    loss, mask = each(logits, labels)
    return (loss * mask).sum() / mask.sum()


def times_reciprocal(logits, labels):
    loss, mask = each(logits, labels)
    return ((loss * mask) / mask.sum()).sum() * 0.5


def selected(logits, labels):
    loss, mask = each(logits, labels)
    return loss[mask > 0].mean()


def selected_labels(logits, labels):
    return cross_entropy(logits[labels != -100], labels[labels != -100])


def by_halves(logits, labels):
    return (cross_entropy(logits, labels) + masked(logits, labels)) / 2


def of_sentences(logits, labels):
    """Of each row its own mean, and the mean of these: as it is in each micro-batch."""
    loss, mask = each(logits, labels)
    return ((loss * mask).view(len(labels), -1).sum(1) / mask.view(len(labels), -1).sum(1)).mean()


# Each is the mean over something of all samples, which micro-batches have more or less of.
RIGHT = {
    "padded": cross_entropy,
    "weighted": lambda logits, labels: cross_entropy(logits, labels, weight=WEIGHTS),
    "smoothed": lambda logits, labels: cross_entropy(logits, labels, label_smoothing=0.1),
    "both": lambda logits, labels: cross_entropy(logits, labels, weight=WEIGHTS / 7, label_smoothing=0.1),
    "as a class": lambda logits, labels: nn.CrossEntropyLoss()(logits.transpose(1, 2), labels),
    "nll": lambda logits, labels: functional.nll_loss(logits.log_softmax(-1).flatten(0, 1), labels.flatten()),
    "masked": masked, "times": times_reciprocal, "selected": selected, "labels": selected_labels, "halves": by_halves,
    "without": lambda logits, labels: cross_entropy(logits, labels) + 0.0 * logits.mean(),
    "rows": of_sentences,
}

# No weights make their mean that of the whole batch.
REFUSED = {
    "auxiliary": lambda logits, labels: cross_entropy(logits, labels) + 0.1 * logits.square().mean(),
    "two": lambda logits, labels: cross_entropy(logits, labels) + cross_entropy(logits, labels.clamp(min=0)),
    "root": lambda logits, labels: cross_entropy(logits, labels) + logits.square().mean().sqrt(),
    "deviation": lambda logits, labels: cross_entropy(logits, labels, reduction="sum") / logits.detach().std(),
    "factor": lambda logits, labels: cross_entropy(logits, labels) * logits.detach().std(),
    "by numbers": lambda logits, labels: (each(logits, labels)[0] * logits.detach().amax(-1).flatten()).sum() /
    logits.detach().amax(-1).sum(),
}


class Words(nn.Module):
    """Computes its own loss, where it is handed labels."""

    def __init__(self, loss=None):
        super().__init__()
        torch.manual_seed(1)
        self.words, self.head, self.loss = nn.Embedding(11, 16), nn.Linear(16, 11), loss
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, ids, labels=None):
        x = self.words(ids)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x) if labels is None else self.loss(self.head(x), labels)


def batch(even=False):
    ids = torch.randint(0, 11, (8, 6), generator=torch.Generator().manual_seed(3))
    labels = ids.flip(1).clone()
    for row in range(8):
        labels[row, 4 if even else 6 - row // 2 - 1:] = -100
    return ids, labels


def refused(what):
    try:
        what()
    except weir.WeirError as error:
        return str(error)
    return "done"


def distance(pipe, whole):
    """Of the pipeline's gradients from those of the whole batch's loss."""
    theirs = dict(whole.named_parameters())
    return max(((mine.grad - theirs[name].grad).abs().max() / theirs[name].grad.abs().max()).item()
               for name, mine in pipe.named_parameters())


def both_ways(loss, plan, **more):
    """A model with that loss of its own, and one with that loss_fn: two steps without zero_grad between them."""
    ids, labels = batch()
    found = []
    for is_own in (True, False):
        whole = Words(loss)
        wanted = whole(ids, labels)
        wanted.backward()
        pipe = pipeline(Words(loss), plan, (ids[:2], labels[:2]) if is_own else ids[:2],
                        loss_fn=None if is_own else loss, **more)
        call, target = ((ids, labels), None) if is_own else ((ids,), labels)
        losses = pipe.step(*call, target=target)
        found.append(distance(pipe, whole))
        whole(ids, labels).backward()
        pipe.step(*call, target=target)
        found.append(distance(pipe, whole))
        evaluated = pipe.eval(*call, target=target).losses
        for all_losses in (losses, evaluated) if losses and pipe.replicas == 1 else ():
            found.append(abs(sum(all_losses) / len(all_losses) - wanted).item())
    return max(found)


def means(rank, plans):
    said = {name: both_ways(loss, plans["1f1b"]) for name, loss in RIGHT.items()}
    said.update((name, both_ways(cross_entropy, plan)) for name, plan in plans.items())
    return said


def refusals(rank, plans):
    ids, labels = batch()
    said = {}
    for name, loss in REFUSED.items():
        pipe = pipeline(Words(loss), plans["1f1b"], (ids[:2], labels[:2]))
        before = [parameter.grad for parameter in pipe.parameters()]
        said[name] = (refused(lambda: pipe.step(ids, labels)),
                      before == [parameter.grad for parameter in pipe.parameters()],
                      refused(lambda: pipeline(Words(), plans["1f1b"], ids[:2], loss_fn=loss).step(ids, target=labels)))
        even = pipeline(Words(loss), plans["1f1b"], (ids[:2], labels[:2]), average="micro-batches")
        said[name] += (refused(lambda: even.step(ids, labels)),)
    nothing = labels.clone()
    nothing[:2] = -100
    pipe = pipeline(Words(cross_entropy), plans["1f1b"], (ids[:2], labels[:2]))
    said["nothing"] = refused(lambda: pipe.step(ids, nothing)), refused(lambda: pipe.step(ids, labels))
    said["eval"] = refused(lambda: pipe.eval(ids, nothing))
    said["replicas"] = refused(lambda: pipeline(Words(REFUSED["two"]), plans["replicas"], (ids[:2], labels[:2]))
                               .step(ids, labels))
    one_sided = lambda *both: (cross_entropy(*both), 0.5) if rank == 0 else cross_entropy(*both)
    said["of one replica"] = refused(lambda: pipeline(Words(), plans["replicas"], ids[:2], loss_fn=one_sided)
                                     .step(ids, target=labels))
    said["average"] = refused(lambda: pipeline(Words(), plans["1f1b"], ids[:2], loss_fn=cross_entropy, average="sum"))
    return said


def counts(rank, plan):
    """What a loss_fn may return beside a loss."""
    ids, labels = batch()

    def step(second, first=lambda *both: cross_entropy(*both, reduction="sum")):
        return refused(lambda: pipeline(Words(), plan, ids[:2], loss_fn=lambda *both: (first(*both), second(*both)))
                       .step(ids, target=labels))

    right = lambda logits, labels: (logits.argmax(-1) == labels).sum()
    return {
        "accuracy": step(right, cross_entropy), "mean": step(lambda logits, labels: len(labels), cross_entropy),
        "scaled mean": step(lambda logits, labels: 12, lambda *both: cross_entropy(*both) * 12),
        "of one": step(lambda logits, labels: 1, lambda logits, labels: logits.square().mean()),
        "negative": step(lambda logits, labels: -1), "nothing": step(lambda logits, labels: 0),
        "float": step(lambda logits, labels: 0.5), "bool": step(lambda logits, labels: True),
        "error": own_error(lambda: step(lambda *_: [][0])),
        "some nothing": step(lambda logits, labels: (labels[:, 4] != -100).sum()),
    }


def own_error(what):
    """An error of loss_fn is raised as it is where it came, and said by a WeirError on the others."""
    try:
        return what()
    except IndexError as error:
        return f"IndexError: {error}"


def even_labels(rank, plan):
    """The same to the bit as one micro-batch after the other."""
    ids, labels = batch(even=True)
    found = verify(Words(cross_entropy), plan, (ids, labels), steps=2)
    padded = verify(Words(cross_entropy), plan, batch(), steps=2)
    return found.equal or str(found), padded.within(1e-5), str(padded)


def with_transformers(rank, names, plan):
    """What `labels=` makes of a padded batch; and, with a loss that has another part, num_items_in_batch."""
    from families import family
    torch.manual_seed(4)
    ids = torch.randint(3, 30, (8, 10))
    mask = (torch.arange(10) < torch.tensor([10, 9, 10, 8, 5, 4, 3, 5])[:, None]).long()
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}
    sample = {name: tensor[:2] for name, tensor in inputs.items()}
    whole = family("llama")
    plans = plan_of(names, "1f1b", 2, 4)
    whole(**inputs).loss.backward()
    pipe = pipeline(family("llama"), plans, sample)
    losses = pipe.step(**inputs)
    said = [distance(pipe, whole), abs(sum(losses) / 4 - whole(**inputs).loss).item() if losses else 0.0]
    count = (inputs["labels"][:, 1:] != -100).sum()
    pipe = pipeline(family("llama"), plans, {**sample, "num_items_in_batch": count / 4})
    pipe.step(**inputs, num_items_in_batch=count / 4)
    return [*said, distance(pipe, whole)]


class Means(unittest.TestCase):
    def test_what_micro_batches_count_weighs_their_losses(self):
        plans = {name: plan_of(LAYERS, name, 2, 4) for name in ("1f1b", "zb-v", "interleaved", "gpipe")}
        plans["replicas"] = plan_of(LAYERS, "1f1b", 2, 4, replicas=[2])
        plans["recomputed"] = recomputed(plan_of(LAYERS, "1f1b", 2, 4))
        for said in on_ranks(2, means, plans):
            self.assertEqual(len(RIGHT) + len(plans), len(said))
            for name, far in said.items():
                self.assertLess(far, 2e-5, name)

    def test_what_no_weights_make_right_is_refused(self):
        plans = {"1f1b": plan_of(LAYERS, "1f1b", 2, 4), "replicas": plan_of(LAYERS, "1f1b", 2, 4, replicas=[2])}
        for said in on_ranks(2, refusals, plans):
            self.assertIn("the loss of a micro-batch is the mean over nothing", said["eval"])
            self.assertIn("the loss of a micro-batch is the mean over nothing", said["nothing"][0])
            self.assertEqual("done", said["nothing"][1])
            self.assertIn("no weights make their mean", said["replicas"])
            self.assertIn("which is no whole number", said["of one replica"])
            self.assertIn("average is 'sum', and must be True, False or \"micro-batches\"", said["average"])
            for name in REFUSED:
                own, is_left, by_function, as_it_is = said[name]
                self.assertIn("and no weights make their mean that of the whole batch", own, name)
                self.assertIn("and no weights make their mean that of the whole batch", by_function, name)
                self.assertTrue(is_left, name)
                self.assertEqual("done", as_it_is, name)

    def test_a_whole_number_that_is_no_count_is_refused(self):
        for said in on_ranks(2, counts, plan_of(LAYERS, "1f1b", 2, 4)):
            for name in ("accuracy", "mean"):
                self.assertIn("loss_fn returns a mean and a whole number", said[name], name)
            for name in ("scaled mean", "of one", "some nothing"):
                self.assertEqual("done", said[name], name)
            for name in ("float", "bool"):
                self.assertIn("which is no whole number", said[name], name)
            self.assertIn("IndexError: list index out of range", said["error"])
            self.assertIn("the counts of an iteration are negative", said["negative"])
            self.assertIn("the counts of an iteration are nothing", said["nothing"])

    def test_equal_counts_change_no_bit(self):
        for equal, is_near, said in on_ranks(2, even_labels, plan_of(LAYERS, "1f1b", 2, 4)):
            self.assertIs(equal, True)
            self.assertTrue(is_near, said)

    def test_labels_of_transformers(self):
        from families import family
        try:
            import transformers  # pylint: disable=unused-import
        except ImportError:
            self.skipTest("transformers is not installed")
        names = [part.name for part in weir.capture.parts(family("llama"), {"input_ids": torch.ones(2, 10).long(),
                                                                         "labels": torch.ones(2, 10).long()})]
        for said in on_ranks(2, with_transformers, names, None):
            self.assertLess(max(said), 2e-5)


if __name__ == "__main__":
    unittest.main()
