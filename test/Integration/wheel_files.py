#!/usr/bin/env python3
"""A wheel has or names all that it needs: its programs and libraries load with older systems' libraries, look in no folder of the machine
that built them, name none, and come with the licences of all parts. scripts/wheel_check.sh runs it.

Usage: wheel_files.py FOLDER     the folder has the wheels of scripts/wheel.sh
"""

import glob
import os
import re
import sys
import tempfile
import zipfile

from standalone import NEEDED, check, find_new_symbols, read_elf

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Libraries of the machine that a backend names, and libraries of the other wheel.
OF_BACKENDS = re.compile(r"libmoert\.so|libmpi\.so\.40|libcublas(Lt)?\.so\.13")
FOLDERS = re.compile(b"|".join(re.escape(folder.encode()) + rb"[\w/.-]{0,100}" for folder in (SOURCE + "/", "/root/", "/home/")))
MOST_MB = 80
# Files of licences, by what a file of the wheel is or contains.
LICENCES = {
    r"moeplan/bin/moeplan": ["llvm-19-dev", "libmlir-19-dev", "liblld-19-dev", "libprotobuf-dev", "libzstd-dev", "zlib1g-dev", "libgcc-12-dev"],
    r"moeplan/bin/moe-run": ["libcli11-dev"],
    r"moeplan/lib/libmoert\.": ["nlohmann-json3-dev"],
    r"moeplan/lib/libmoert-cuda": ["nvidia_cutlass", "nvidia_cudnn_frontend", "nvidia_cuda_runtime"],
    r"moeplan/_runtime\..*so": ["nanobind"],
    r"libOpenCL": ["ocl-icd-libopencl1"],
    r"libdnnl": ["libdnnl2"],
    r"libgfortran": ["libgfortran5"],
    r"libgomp": ["libgomp1"],
    r"libopenblas": ["libopenblas0-pthread"],
    r"libquadmath": ["libquadmath0"],
}


def find_licences(name):
    """The licences of the parts that are in a file of a wheel, or None if its parts are not known."""
    for pattern, licences in LICENCES.items():
        if re.search(pattern, name):
            return licences
    return [] if re.search(r"moeplan/(bin/moe-calibrate|lib/libmoert-mpi)", name) else None


def check_file(wheel, name, own):
    """Checks a program or library of the unpacked wheel, which has the files `own`."""
    path = os.path.join(wheel, name)
    others = [needed for needed in read_elf(path, "-p", r"NEEDED +(\S+)")
              if needed not in own and not NEEDED.match(needed) and not OF_BACKENDS.match(needed)]
    good = check(f"{name} needs nothing else", not others, others)
    new = find_new_symbols(path)
    good &= check(f"{name} loads with older libraries", not new, new)
    searched = [folder for folders in read_elf(path, "-p", r"(?:RPATH|RUNPATH) +(\S+)") for folder in folders.split(":")]
    good &= check(f"{name} looks in folders of wheels", all(folder.startswith("$ORIGIN") for folder in searched), searched)
    with open(path, "rb") as file:
        named = FOLDERS.findall(file.read())
    good &= check(f"{name} names no folder of the build", not named, named[:3])
    licences = find_licences(name)
    missing = [licence for licence in licences or [] if not os.path.getsize(os.path.join(wheel, "moeplan", "licenses", licence + ".txt"))]
    return good & check(f"{name} has its licences", licences is not None and not missing, missing or "its parts are not known")


def check_wheel(path):
    megabytes = os.path.getsize(path) / 1e6
    good = check(f"{os.path.basename(path)} has {megabytes:.1f} of at most {MOST_MB} MB", megabytes <= MOST_MB)
    with tempfile.TemporaryDirectory(prefix="moeplan-") as wheel:
        with zipfile.ZipFile(path) as file:
            file.extractall(wheel)
        names = sorted(os.path.relpath(os.path.join(top, name), wheel) for top, _, names in os.walk(wheel) for name in names)
        for name in names:
            with open(os.path.join(wheel, name), "rb") as file:
                if file.read(4) == b"\x7fELF":
                    good &= check_file(wheel, name, {os.path.basename(one) for one in names})
        good &= check("its own licence", any(re.search(r"dist-info/licenses/LICENSE$", name) for name in names))
    return good


def main():
    wheels = sorted(glob.glob(os.path.join(sys.argv[1], "*.whl"))) if len(sys.argv) == 2 else []
    if not wheels:
        sys.exit("usage: wheel_files.py FOLDER, where FOLDER has wheels")
    return 0 if all([check_wheel(path) for path in wheels]) else 1


if __name__ == "__main__":
    sys.exit(main())
