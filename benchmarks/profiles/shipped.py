"""Paths of shipped profiles, and the command that rewrites parts of them from measurements."""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from text import format_profile, parse_profile  # noqa: E402

CLUSTERS = pathlib.Path(__file__).resolve().parents[2] / "share" / "clusters"


def read_profile(name):
    return parse_profile((CLUSTERS / f"{name}.json").read_text())


def rewrite(doc, names, update):
    """Runs `script --measured=DIR [--out=DIR] [--only=NAME,..]`: update(name, profile, measured) returns the new profile."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--measured", required=True)
    parser.add_argument("--out", default=CLUSTERS, type=pathlib.Path)
    parser.add_argument("--only", default=",".join(names))
    options = parser.parse_args()
    for name in options.only.split(","):
        if name not in names:
            parser.error(f"--only: expected names of {', '.join(names)} but got '{name}'")
        profile = update(name, read_profile(name), options.measured)
        (options.out / f"{name}.json").write_text(format_profile(profile))
