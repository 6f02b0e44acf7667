//===- PlanTable.cpp - what a plan does, in words -------------------------===//
#include "moe/Report/PlanReport.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Format.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Dialect/Plan/IR/RankProgram.h"
#include "moe/Dialect/Plan/Transforms/MemoryReport.h"
#include "moe/Planner/Explanation.h"

using namespace mlir;
using namespace mlir::moe;

static std::string getText(StringAttr text) { return text ? text.str() : "-"; }

static void printLaunch(plan::LaunchOp launch, int64_t index, llvm::raw_ostream &os) {
  OpCost cost = launch.getOpCost();
  GroupAttr group = launch.getGroupAttr();
  constexpr double giga = 1e9, mega = 1e6;
  os << llvm::format("%5lld  %-20s %-16s %-11s %-8s %10.3f %10.3f %10.3f\n", static_cast<long long>(index),
                     launch.getKernel().str().c_str(), getText(launch.getLabelAttr()).c_str(),
                     getText(launch.getStreamAttr()).c_str(), group ? group.getName().str().c_str() : "-",
                     cost.flops / giga, static_cast<double>(cost.getBytesMoved()) / mega,
                     static_cast<double>(launch.getBytesSent()) / mega);
}

/// Prints every term of Eq. 13 and 14, and the choice between them.
static void printChoice(DictionaryAttr choice, llvm::raw_ostream &os) {
  constexpr double milli = 1e3, mega = 1e-6, milliPerMb = 1e9;
  auto number = [&](StringRef name) { return choice.getAs<FloatAttr>(name).getValueAsDouble(); };
  auto printTerm = [&](StringRef name, StringRef text, StringRef bytesName) {
    auto term = llvm::map_to_vector(choice.getAs<ArrayAttr>(name).getAsRange<FloatAttr>(),
                                    [](FloatAttr value) { return value.getValueAsDouble(); });
    os << llvm::format("    %-28s %9.3f ms = %.4f ms + %s %.3f MB x %.5f ms/MB\n", text.str().c_str(), term[3] * milli,
                       term[0] * milli, bytesName.str().c_str(), term[2] * mega, term[1] * milliPerMb);
  };
  double t1 = number("s1"), t2 = number("s2");
  StringRef obstacle = choice.getAs<StringAttr>("obstacle");
  os << "  " << choice.getAs<StringAttr>("layer").getValue() << ": "
     << (choice.getAs<StringAttr>("chosen") == "s1" ? "S1, since t1 <= t2"
         : obstacle.empty()                         ? StringRef("S2, since t1 > t2")
                                                    : StringRef("S2, since S1 cannot be: "))
     << obstacle << "\n"
     << llvm::format("    t1 %9.3f ms = 2 EP&ESP-AlltoAll(y) + MP-AllGather(BLM)\n", t1 * milli)
     << llvm::format("    t2 %9.3f ms = EP&ESP-AlltoAll(y) + overlapped(y)\n", t2 * milli);
  printTerm("all_to_all", "EP&ESP-AlltoAll(y)", "y");
  printTerm("all_gather", "MP-AllGather(BLM)", "BLM");
  printTerm("overlapped", "AlltoAll with AllGather(y)", "y");
}

/// Prints the schedules that were compared for an open one.
static void printCompared(ArrayRef<Candidate> compared, llvm::raw_ostream &os) {
  constexpr double milli = 1e3, mega = 1e6;
  os << "schedules compared: a predicted step, what a rank needs with Adam's states, MPipeMoE's Eq. 10\n"
     << "     schedule                           ms         MB    Eq. 10, ms\n";
  for (const Candidate &one : compared) {
    os << llvm::format("%-4s %-28s %10.3f %10.1f", one.verdict == Verdict::Chosen ? "  *" : "", one.schedule.c_str(),
                       one.whole.seconds * milli, static_cast<double>(one.whole.bytes) / mega);
    if (one.equation10)
      os << llvm::format("%14.3f", *one.equation10 * milli);
    os << "\n";
  }
  os << "  * taken\n\n";
}

static void printProgram(func::FuncOp program, llvm::raw_ostream &os) {
  if (auto ranks = program->getAttrOfType<DenseI64ArrayAttr>(plan::kRanksAttrName))
    os << "ranks " << ranks[0] << " to " << ranks[0] + ranks[1] - 1 << ":\n";
  os << "   op  kernel               layer            stream      group         GFLOP   MB moved    MB sent\n";
  int64_t index = 0;
  for (Operation &op : program.getOps())
    if (auto loop = dyn_cast<plan::LoopOp>(op)) {
      os << "   in a loop of " << loop.getCount() << " iterations:\n";
      for (auto launch : loop.getBody().getOps<plan::LaunchOp>())
        printLaunch(launch, index++, os);
      os << "   behind the loop:\n";
    } else if (auto launch = dyn_cast<plan::LaunchOp>(op)) {
      printLaunch(launch, index++, os);
    }
  os << "\n";
  plan::printMemory(program, os);
}

LogicalResult mlir::moe::printReport(ModuleOp plan, llvm::raw_ostream &os) {
  SmallVector<func::FuncOp> programs = plan::getRankPrograms(plan);
  if (programs.empty())
    return plan.emitError() << "expected a rank program '@rank'";
  if (auto choices = programs.front()->getAttrOfType<ArrayAttr>(kScheduleChoicesAttrName)) {
    os << "Algorithm 1 (Parm, section V): times of a layer's exchanges, forward\n";
    for (auto choice : choices.getAsRange<DictionaryAttr>())
      printChoice(choice, os);
    os << "\n";
  }
  if (std::optional<std::vector<Candidate>> compared = getCompared(plan))
    printCompared(*compared, os);
  llvm::interleave(programs, [&](func::FuncOp program) { printProgram(program, os); }, [&] { os << "\n"; });
  return success();
}
