//===- ProgramMemory.cpp - what a plan needs on a device ------------------===//
#include "moe/Dialect/Plan/IR/ProgramMemory.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"

using namespace mlir;
using namespace mlir::moe;

llvm::StringSet<> mlir::moe::getParameters(func::FuncOp program) {
  llvm::StringSet<> names;
  for (unsigned i = 0; i < program.getNumArguments(); ++i)
    if (auto name = program.getArgAttrOfType<StringAttr>(i, kNameAttrName),
        role = program.getArgAttrOfType<StringAttr>(i, kRoleAttrName);
        name && role && role.getValue() == kParameterRole)
      names.insert(name.getValue());
  return names;
}

ProgramMemory mlir::moe::getMemory(func::FuncOp program) {
  ProgramMemory memory;
  llvm::StringSet<> parameters = getParameters(program);
  for (BlockArgument argument : program.getArguments()) {
    auto name = program.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttrName);
    auto role = program.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kRoleAttrName);
    StringRef text = name ? name.getValue() : "";
    bool isGradient = role && role.getValue() == kGradientRole && text.consume_front("grad.");
    bool isState = role && role.getValue() == kStateRole;
    int64_t &kind = isState                      ? memory.states
                    : !parameters.contains(text) ? memory.values
                    : isGradient                 ? memory.gradients
                                                 : memory.parameters;
    kind += plan::getByteSize(argument);
  }
  memory.arena = plan::getArenaBytes(program, plan::Space::device).value_or(0);
  memory.pinned = plan::getArenaBytes(program, plan::Space::host_pinned).value_or(0);
  return memory;
}

func::FuncOp mlir::moe::getLargestProgram(ModuleOp plan) {
  SmallVector<func::FuncOp> programs = plan::getRankPrograms(plan);
  return *llvm::max_element(programs, [](func::FuncOp a, func::FuncOp b) {
    return getMemory(a).getDeviceBytes() < getMemory(b).getDeviceBytes();
  });
}

int64_t mlir::moe::getDeviceBytes(ModuleOp plan) { return getMemory(getLargestProgram(plan)).getDeviceBytes(); }
