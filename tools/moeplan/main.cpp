//===- main.cpp - all tools in one program --------------------------------===//
//
// The program's name chooses the tool, so that MLIR and LLVM are installed once. `moeplan compile ..` is `moe-compile
// ..`.
//
//===----------------------------------------------------------------------===//
#include "../BeginTool.h"
#include "../Tools.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir::moe;

namespace {
struct Tool {
  llvm::StringLiteral name; ///< without "moe-"
  int (*run)(int argc, char **argv);
};
} // namespace

static constexpr Tool tools[] = {
    {"compile", runCompile}, {"import", runImport}, {"opt", runOpt}, {"plan", runPlan}, {"sim", runSim}};

static const Tool *findTool(llvm::StringRef name) {
  const auto *tool = llvm::find_if(tools, [&](const Tool &one) { return one.name == name; });
  return tool == std::end(tools) ? nullptr : tool;
}

int main(int argc, char **argv) {
  llvm::StringRef program = llvm::sys::path::filename(argv[0]);
  if (program.consume_front("moe-"))
    if (const Tool *tool = findTool(program))
      return tool->run(argc, argv);
  const Tool *tool = argc > 1 ? findTool(argv[1]) : nullptr;
  if (tool) {
    // The tool's messages have its own name.
    std::string name = ("moe-" + tool->name).str();
    argv[1] = name.data();
    return tool->run(argc - 1, argv + 1);
  }
  llvm::errs() << "error: expected compile, import, opt, plan or sim, as in 'moeplan plan mixtral-8x7b 64 hgx-h100'"
               << (argc > 1 ? std::string(" but got '") + argv[1] + "'" : std::string()) << "\n";
  return 2;
}
