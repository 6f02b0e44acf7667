"""Code that campaigns of random tests share. Each draw has a number, and depends only on this number and a seed."""

import argparse
import concurrent.futures


def parser(description, drawn, count):
    """Options of a campaign. `drawn` is the plural of what is drawn."""
    result = argparse.ArgumentParser(description=description.splitlines()[0], allow_abbrev=False)
    result.add_argument("--bin", required=True, metavar="DIR", help="the folder of the tools")
    result.add_argument("--jobs", type=int, default=2, help=f"{drawn} at a time (default 2)")
    result.add_argument("--seed", type=int, default=0)
    result.add_argument("--first", type=int, default=0, metavar="N", help=f"number of the first of the {drawn} (default 0)")
    result.add_argument("--count", type=int, default=count, help=f"{drawn} (default {count})")
    return result


def outcomes(options, try_one):
    """(number, try_one(number)) for each draw, in order."""
    numbers = range(options.first, options.first + options.count)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        yield from zip(numbers, pool.map(try_one, numbers))
