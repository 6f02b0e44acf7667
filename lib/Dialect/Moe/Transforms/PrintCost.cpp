//===- PrintCost.cpp - print what each op needs ---------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include "moe/Dialect/Moe/IR/MoeInterfaces.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEPRINTCOST
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

namespace {
/// One line of the output.
struct Line {
  std::string op, label;
  OpCost cost;
  GroupAttr group;

  Line(MoeCostOpInterface priced);
  int64_t getMembers() const { return group ? group.getSize() : 1; }
  /// Bytes from a member that sends to one that receives.
  int64_t getBytesToPeer() const {
    if (cost.phases > 1)
      return cost.payload / (getMembers() / cost.phases);
    // A broadcast starts at the owner, and a reduce reaches it from the member before.
    int64_t members = getMembers(), owner = cost.root;
    return std::max(cost.getBytesToPeer(members, owner, (owner + 1) % members),
                    cost.getBytesToPeer(members, (owner + members - 1) % members, owner));
  }
};
} // namespace

/// A plan.launch names its call. Other ops have their own names.
Line::Line(MoeCostOpInterface priced)
    : op(priced->getName().getStringRef()), cost(priced.getOpCost()), group(priced.getCostGroup()) {
  if (auto kernel = priced->getAttrOfType<StringAttr>("kernel"))
    op += " " + kernel.str();
  if (auto name = priced->getAttrOfType<StringAttr>("label"))
    label = name.str();
  else if (auto layer = dyn_cast<NameLoc>(priced.getLoc()))
    label = layer.getName().str();
}

static void printText(const Line &line, llvm::raw_ostream &os) {
  constexpr double giga = 1e9, mega = 1e6;
  os << llvm::format("%-28s %-16s %-9s %11.3f %10.3f %10.3f  ", line.op.c_str(),
                     line.label.empty() ? "-" : line.label.c_str(), getName(line.cost.resource).str().c_str(),
                     line.cost.flops / giga, static_cast<double>(line.cost.bytesRead) / mega,
                     static_cast<double>(line.cost.bytesWritten) / mega);
  if (line.cost.collective == Collective::None)
    os << "-\n";
  else
    os << getName(line.cost.collective) << " over " << line.group.getName() << " (" << line.getMembers()
       << "): " << llvm::format("%.3f MB to each", static_cast<double>(line.getBytesToPeer()) / mega)
       << (line.cost.raggedRows ? ", ragged\n" : "\n");
}

static void printJson(StringRef function, const Line &line, llvm::raw_ostream &os) {
  llvm::json::OStream json(os);
  json.object([&] {
    json.attribute("function", function);
    json.attribute("op", line.op);
    json.attribute("label", line.label);
    json.attribute("resource", getName(line.cost.resource));
    json.attribute("flops", line.cost.flops);
    json.attribute("bytes_read", line.cost.bytesRead);
    json.attribute("bytes_written", line.cost.bytesWritten);
    json.attribute("rows", line.cost.raggedRows);
    if (line.cost.resource == Resource::Matrix)
      json.attribute("gemm", llvm::json::Array{line.cost.gemm.groups, line.cost.gemm.rows, line.cost.gemm.columns,
                                               line.cost.gemm.depth});
    if (line.cost.collective == Collective::None)
      return;
    json.attribute("collective", getName(line.cost.collective));
    json.attribute("group", line.group.getName());
    json.attribute("members", line.getMembers());
    json.attribute("payload", line.cost.payload);
    json.attribute("bytes_to_peer", line.getBytesToPeer());
    json.attribute("bytes_sent", line.cost.getBytesSent(line.getMembers()));
  });
  os << "\n";
}

static void printFunction(func::FuncOp function, bool asJson, llvm::raw_ostream &os) {
  if (!asJson)
    os << "@" << function.getName()
       << "\nop                           label            resource        GFLOP    MB read MB written  exchange\n";
  function.walk([&](MoeCostOpInterface priced) {
    Line line(priced);
    if (line.cost.resource == Resource::None)
      return;
    if (asJson)
      printJson(function.getName(), line, os);
    else
      printText(line, os);
  });
}

namespace {
/// Runs on a module, since passes over functions run in parallel and would print them in any order.
struct MoePrintCost : moe::impl::MoePrintCostBase<MoePrintCost> {
  using Base::Base;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      printFunction(function, json, llvm::errs());
    markAllAnalysesPreserved();
  }
};
} // namespace
