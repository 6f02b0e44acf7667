//===- Tools.h - the tools, as functions of one program ---------*- C++ -*-===//
#ifndef MOE_TOOLS_TOOLS_H
#define MOE_TOOLS_TOOLS_H

namespace mlir::moe {

/// Run a tool as `main` does, and return its exit status. A process runs one of them, once.
int runCompile(int argc, char **argv);
int runImport(int argc, char **argv);
int runOpt(int argc, char **argv);
int runPlan(int argc, char **argv);
int runSim(int argc, char **argv);

} // namespace mlir::moe

#endif // MOE_TOOLS_TOOLS_H
