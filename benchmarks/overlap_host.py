#!/usr/bin/env python3
"""Measures the gain of 1f1b-overlap over 1f1b on the host backend with slow links, against the prediction of moe-sim.

Usage: overlap_host.py --bin DIR [--cluster=FILE] [--rounds=N] [--steps=N] [--only=TEXT]. Ranks on two cores train a small Mixtral. Two ranks
have no pipeline: the forward of a micro-batch is then beside the backward of the one before. Four ranks are two stages of two ranks. Links
are emulated, as mpipemoe_host.py describes. The exchanges of experts' rows take 0.5 and 1 times as long as the computation of a step, or
hardly any time. Where they take none, overlap can gain nothing and must not lose.

`moe-sim --emulate-links` predicts steps on the profile of this machine (--cluster, by moe-calibrate, with nothing else running). A gain is
t(1f1b) / t(1f1b-overlap) - 1. In each round both plans run one after the other, and the median of each plan's steps counts. A measured gain
is the median of the rounds' gains.

Claims: wherever the measured gain is more than 3% or less than -3%, the predicted one has its sign. In the mean, the measured ratio of both
steps is within 10% of the predicted ratio.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile

from layers import LinkedPlans, load_profile, report, run, write_profile

ALPHA = 0.5e-3
SIGN, MEAN = 0.03, 0.1
ORDERS = ("1f1b", "1f1b-overlap")
# Hidden and intermediate size and tokens of a micro-batch, then stages, stages on each device and micro-batches, then exchange time over
# computation time.
CASES = [(shape, steps, ratio) for shape in ((320, 640, 256), (240, 960, 384)) for steps in ((1, 1, 2), (1, 1, 5), (2, 1, 5), (2, 2, 4))
         for ratio in (0.0, 0.5, 1.0)]


def describe(case):
    (hidden, wide, tokens), (pp, chunks, count), ratio = case
    return f"M={hidden} H={wide} B={tokens} pp={pp} VPP={chunks} GA={count} links x{ratio:g}"


def write_model(path, hidden, wide):
    config = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": hidden, "intermediate_size": wide,
              "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 4, "num_local_experts": 4,
              "num_experts_per_tok": 2, "vocab_size": 512, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1e6,
              "max_position_embeddings": 4096, "tie_word_embeddings": False, "sliding_window": None}
    with open(path, "w") as file:
        json.dump(config, file)
    return path


def write_links(path, ranks, beta):
    """Writes a cluster of devices about as fast as a core. Only exchanges of experts' rows take time on its links."""
    profile = load_profile("mpipemoe-a100")
    source = "made up by benchmarks/overlap_host.py"
    profile["name"], profile["nodes"], profile["devices_per_node"] = "emulated-links", 1, ranks
    profile["device"]["memory_bytes_per_s"] = 1e10
    for rate in profile["device"]["rates"]:
        rate["flop_per_s"] = 1e11
    profile["collectives"] = [{"collective": kind, "members": members, "per_node": members, "alpha_s": ALPHA,
                               "beta_s_per_byte": beta if kind == "all_to_all" else 1e-12, "source": source}
                              for kind in ("all_to_all", "all_gather", "all_reduce", "reduce_scatter", "broadcast")
                              for members in {2, ranks}]
    return write_profile(profile, path)


class Case(LinkedPlans):
    """Plans of a training step, by order."""

    def __init__(self, options, folder, number, case):
        super().__init__(options, folder, number)
        (hidden, wide, self.tokens), (self.pp, self.chunks, self.count), ratio = case
        self.model = write_model(self.path("model.json"), hidden, wide)
        self.links = self.path("links.json")
        self.write(1e-12)
        mean = self.predict(ORDERS[0])["mean"]
        if ratio:
            # Each micro-batch and block of the rank has four exchanges, with two choices of each token.
            exchanges = 4 * self.count * 4 / self.pp
            self.write(max(1e-12, (ratio * mean["compute_s"] / exchanges - ALPHA) / (4 * 2 * self.tokens * hidden)))
        self.prepare(ORDERS)

    def write(self, beta):
        write_links(self.links, 2 * self.pp, beta)

    def compile(self, order, path, *flags):
        run([os.path.join(self.options.bin, "moe-compile"), self.model, "--whole-model", "--batch=1", f"--seq={self.tokens}",
             "--dtype=f32", f"--parallel=pp={self.pp},dp=2,ep=2", f"--interleave={self.chunks}", f"--micro-batches={self.count}",
             "--capacity-factor=2", "--order=program", f"--pipeline={order}", f"--cluster={self.links}", "--reference=false", *flags,
             "-o", path])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the tools")
    parser.add_argument("--cluster", default="localhost", help="profile of this machine, by moe-calibrate")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each plan")
    parser.add_argument("--steps", type=int, default=4, help="steps of each run, after one that does not count")
    parser.add_argument("--only", default="", help="only cases whose description contains this text")
    options = parser.parse_args()
    print(f"{'ms; predicted in brackets':<48} {'1f1b':>17} {'1f1b-overlap':>17} {'gain':>16}")
    gains = []
    with tempfile.TemporaryDirectory() as folder:
        for number, shape in enumerate(case for case in CASES if options.only in describe(case)):
            case = Case(options, folder, number, shape)
            for _ in range(options.rounds):
                case.measure()
            gains.append((case.get_gain(ORDERS[1]) - 1, case.get_predicted_gain(ORDERS[1]) - 1))
            print(f"{describe(shape):<48} " + " ".join(f"{1e3 * case.get_seconds(order):7.1f} "
                                                        f"({1e3 * case.predicted[order]['step_s']:7.1f})" for order in ORDERS)
                  + f" {100 * gains[-1][0]:6.1f}% ({100 * gains[-1][1]:5.1f}%)", flush=True)
    clear = [(measured, predicted) for measured, predicted in gains if abs(measured) > SIGN]
    right = sum(measured * predicted > 0 for measured, predicted in clear)
    errors = [abs((1 + measured) / (1 + predicted) - 1) for measured, predicted in gains]
    print()
    ok = report(right == len(clear), f"the sign of the gain is right in {right} of {len(clear)} cases in which it is more than {SIGN:.0%}")
    ok &= report(statistics.fmean(errors) <= MEAN, f"the gain is as predicted within {100 * statistics.fmean(errors):.1f}% in the mean of "
                 f"{len(gains)} cases, {100 * max(errors):.1f}% at worst; wanted {MEAN:.0%}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
