"""What is kept between a forward and its backward: by hand, and by PyTorch's allocator."""

import unittest

import torch
from torch import nn

import models
from capturing import document, made, square
from weir.capture.document import own_bytes
from weir.capture.memory import count_bytes, levels_of_allocator
from weir.capture.parts import parts
from weir.capture.recording import caches_off
from weir.capture.replay import Loss, Replay

torch.set_num_threads(1)


class Kept(unittest.TestCase):
    """What is kept between a forward and its backward, by hand and by the allocator."""

    def layers(self, *modules, sample=None, **how):
        sample = torch.randn(32, 64) if sample is None else sample
        return document(nn.Sequential(*modules), sample, depth=1, **how)["layers"]

    def test_a_linear_keeps_its_input_for_its_weights(self):
        layer = self.layers(nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64))[1]
        self.assertEqual(("weight", 0), (layer["input_kept"], layer["saved_bytes"]))
        self.assertEqual(32 * 64 * 4, layer["output_bytes"])
        self.assertEqual(32 * 64 * 4, layer["held_for_weight_bytes"])  # its output's gradient

    def test_a_layer_norm_keeps_its_input_for_both_and_two_numbers_of_each_row(self):
        layer = self.layers(nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 64))[1]
        self.assertEqual(("both", 2 * 256), (layer["input_kept"], layer["saved_bytes"]))

    def test_an_output_that_its_reader_keeps_is_not_counted_twice(self):
        kept, alone = self.layers(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Softmax(1))[1:4:2]
        self.assertEqual(("none", 0), (kept["input_kept"], kept["saved_bytes"]))
        self.assertEqual(("none", 32 * 64 * 4), (alone["input_kept"], alone["saved_bytes"]))

    def test_a_dropout_keeps_its_mask(self):
        layer = self.layers(nn.Linear(64, 64), nn.Dropout(0.5), nn.Softmax(1))[1]
        self.assertEqual("none", layer["input_kept"])
        self.assertIn(layer["saved_bytes"], (32 * 64, 32 * 64 * 4))  # of bytes, or of numbers

    def test_the_sample_is_the_first_layers_own(self):
        layer = self.layers(nn.Linear(64, 64), nn.Linear(64, 64))[0]
        self.assertEqual(("none", 32 * 64 * 4), (layer["input_kept"], layer["saved_bytes"]))

    def test_a_tied_layer_lends_nothing_and_shares_nothing_else(self):
        model, sample = made("gpt")
        layers = document(model, sample)["layers"]
        self.assertEqual([[32, 64], [256, 64]], sorted(layers[0]["shapes"]))
        self.assertNotIn("shapes", layers[5])

    def test_bf16_autocast_keeps_less(self):
        model, sample = made("gpt")
        plain = document(model, sample)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            mixed = document(model, sample)
        self.assertLess(mixed["layers"][1]["saved_bytes"], plain["layers"][1]["saved_bytes"])
        self.assertIn("autocast to bfloat16", mixed["notes"])

    def test_parts_keep_what_the_allocator_counts_of_the_whole(self):
        """PyTorch's own record of allocations in the forward of the whole model is the twin."""
        for name in models.SEVEN:
            with self.subTest(model=name):
                try:
                    model, sample = models.mlp(width=256, batch=64) if name == "mlp" else made(name)
                except unittest.SkipTest as skip:
                    self.skipTest(str(skip))
                counted, allocated = self.counted(model, sample), self.allocated(model, sample)
                self.assertLess(abs(counted - allocated), 0.05 * allocated, f"{counted} and {allocated}")

    @staticmethod
    def counted(model, sample):
        whole = parts(model, sample)
        books = count_bytes(Replay(whole, sample, Loss(whole, square, None)), torch.device("cpu"))
        kept = {value for book in books for value in book.kept_inputs}
        own = sum(own_bytes(book, kept, book.saved) for book in books)
        inputs = sum(book.outputs[value][2] for book in books for value in book.outputs if value in kept)
        sample_bytes = sum(book.saved[storage] for book in books for storage in book.sample if storage in book.saved)
        return own + inputs - sample_bytes

    @staticmethod
    def allocated(model, sample):
        def forward(around):
            with caches_off(model):
                return around("F", lambda: square(model(**sample) if isinstance(sample, dict) else model(sample)))

        return levels_of_allocator(forward)[1]["F"].end


if __name__ == "__main__":
    unittest.main()
