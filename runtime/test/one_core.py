"""Checks that backends in libraries of their own use the core of libmoert, and have no second copy of its functions and data.

Usage: one_core.py NM LIBMOERT BACKEND..
"""
import subprocess
import sys


def defined(nm, path, *options):
    """(kind, name) of each symbol that the library defines."""
    lines = subprocess.run([nm, "--defined-only", *options, path], check=True, capture_output=True, text=True).stdout.splitlines()
    return {tuple(line.split()[1:3]) for line in lines if len(line.split()) == 3}


def main():
    nm, core, *backends = sys.argv[1:]
    # Both may have inline functions.
    names = {name for kind, name in defined(nm, core, "-D") if kind in "TDBR"}
    errors = [] if len(names) > 500 else [f"{core}: expected the functions of the core but got {len(names)}"]
    for backend in backends:
        copies = sorted(name for _, name in defined(nm, backend) if name in names)
        if copies:
            errors.append(f"{backend}: has {len(copies)} functions of the core, such as {copies[0]}")
    print("\n".join(errors) or f"{len(names)} functions of the core, none in {len(backends)} backends")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
