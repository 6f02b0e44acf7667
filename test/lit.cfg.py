# Configuration of all lit tests.
import os
import platform
import sys

import lit.formats

config.name = "moe"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Unit", "oracle", "Inputs"]
config.test_source_root = os.path.join(config.moe_source_dir, "test")
config.test_exec_root = os.path.join(config.moe_binary_dir, "test")

path = [os.path.join(config.moe_binary_dir, "bin"), config.llvm_tools_dir, os.environ["PATH"]]
config.environment["PATH"] = os.path.pathsep.join(path)
config.environment["FILECHECK_OPTS"] = "-enable-var-scope --allow-unused-prefixes=false"
config.substitutions.append(("%python", sys.executable))
config.substitutions.append(("%share", os.path.join(config.moe_source_dir, "share")))
# A CPU of another architecture than this machine's.
config.substitutions.append(("%other_cpu", "grace" if platform.machine() == "x86_64" else "x86-64-v3"))
