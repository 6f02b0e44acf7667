//===- ProgramMemory.cpp - what a plan needs on a device ------------------===//
#include "moe/Dialect/Plan/Transforms/ProgramMemory.h"

#include "llvm/Support/Format.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/MemoryReport.h"

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
    kind += plan::getByteSize(cast<MemRefType>(argument.getType()));
  }
  auto arenas = program->getAttrOfType<DictionaryAttr>(plan::kArenasAttrName);
  for (NamedAttribute arena : arenas ? arenas.getValue() : ArrayRef<NamedAttribute>()) {
    bool isDevice = arena.getName() == plan::stringifySpace(plan::Space::device);
    (isDevice ? memory.arena : memory.pinned) += cast<IntegerAttr>(arena.getValue()).getInt();
  }
  return memory;
}

func::FuncOp mlir::moe::getLargestProgram(ModuleOp plan) {
  SmallVector<func::FuncOp> programs = plan::getRankPrograms(plan);
  return *llvm::max_element(programs, [](func::FuncOp a, func::FuncOp b) {
    return getMemory(a).getDeviceBytes() < getMemory(b).getDeviceBytes();
  });
}

static void printArena(plan::ArenaReport &arena, llvm::raw_ostream &os) {
  os << "arena '" << plan::stringifySpace(arena.space) << "': " << arena.arenaBytes << " bytes";
  if (!arena.peak) {
    os << "\n";
    return;
  }
  // Enough to see what to change; the rest is usually small.
  constexpr size_t shown = 10;
  os << ", at most " << arena.liveBytes << " alive, at " << arena.peak.describe() << ":\n";
  for (plan::LiveBuffer &buffer : llvm::MutableArrayRef(arena.live).take_front(shown))
    os << llvm::format("%14lld  %s\n", static_cast<long long>(buffer.bytes), buffer.writer.describe().c_str());
  if (arena.live.size() > shown)
    os << "                and " << arena.live.size() - shown << " smaller ones\n";
}

void mlir::moe::printMemory(func::FuncOp program, llvm::raw_ostream &os) {
  ProgramMemory memory = getMemory(program);
  os << "memory of one rank: " << memory.getPlanBytes() << " bytes, arguments and results included\n";
  auto print = [&](int64_t bytes, StringRef what) {
    if (bytes > 0)
      os << llvm::format("%14lld  ", static_cast<long long>(bytes)) << what << "\n";
  };
  print(memory.parameters, "parameters");
  print(memory.gradients, "their gradients");
  print(memory.states, "the optimizer's states");
  print(memory.values, "inputs, outputs and their gradients");
  print(memory.arena, "arena 'device'");
  if (memory.getOptimizerStates() > 0)
    os << "with Adam's two states of " << memory.parameters << " bytes: " << memory.getDeviceBytes() << " bytes\n";
  for (plan::ArenaReport &arena : plan::reportMemory(program))
    printArena(arena, os);
}
