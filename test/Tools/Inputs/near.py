"""near.py SAMPLED WHOLE PERCENT: fails unless two JSON files of moe-sim have steps and memory that differ by at most PERCENT."""
import json
import sys

sampled, whole = (json.load(open(path)) for path in sys.argv[1:3])
limit = float(sys.argv[3]) / 100
seconds = sampled["step_s"] / whole["step_s"] - 1
memory = sampled["peak_bytes"] / whole["memory"]["peak_bytes"] - 1
if abs(seconds) > limit or abs(memory) > 0.1:
    sys.exit(f"the step differs by {seconds:+.2%}, its memory by {memory:+.2%}")
