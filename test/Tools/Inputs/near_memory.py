"""near_memory.py ANSWER WORST PERCENT: fails unless the memory with the worst routing in an answer of moe-plan differs by at most PERCENT from the memory of a plan with room for it."""
import json
import sys

answer, plan = (json.load(open(path)) for path in sys.argv[1:3])
limit = float(sys.argv[3]) / 100
worst = next(one["bytes"] for one in answer["memory_by_routing"] if one["routing"] == "worst")
difference = worst / plan["memory_bytes"] - 1
if abs(difference) > limit:
    sys.exit(f"the memory differs by {difference:+.2%}")
