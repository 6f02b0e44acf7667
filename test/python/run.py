#!/usr/bin/env python3
"""Runs the tests of the Python package moeplan: all test_*.py of this folder, or the modules and classes that are named.

Usage: run.py PACKAGE_FOLDER [--left-out=REASON] [NAME..]

PACKAGE_FOLDER is the folder that has moeplan/. Exit status 77, which ctest counts as skipped, if the package was left out of
the build, or if all tests are skipped.
"""

import argparse
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", help="the folder that has moeplan/")
    parser.add_argument("--left-out", default="", help="why the package was not built")
    parser.add_argument("names", nargs="*", help="modules of this folder")
    options = parser.parse_args()
    if options.left_out:
        print(f"skipped: the Python package is left out of this build: {options.left_out}")
        return 77
    sys.path[:0] = [os.path.abspath(options.package), HERE]
    # Processes that the tests start also find the package.
    os.environ["PYTHONPATH"] = os.path.abspath(options.package)
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(options.names) if options.names else loader.discover(HERE)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    if result.testsRun and len(result.skipped) == result.testsRun:
        print(f"skipped: {'; '.join(sorted({reason for _, reason in result.skipped}))}")
        return 77
    return 0 if result.wasSuccessful() and result.testsRun else 1


if __name__ == "__main__":
    sys.exit(main())
