//===- Order.cpp - plan-order ---------------------------------------------===//
#include "moe/LaunchOrder/Order.h"

#include "Search.h"

#include "moe/Dialect/Plan/Transforms/AssignStreams.h"
#include "moe/LaunchOrder/Passes.h"
#include "moe/Simulator/Simulator.h"

#include <numeric>

namespace mlir::moe {
#define GEN_PASS_DEF_PLANORDER
#include "moe/LaunchOrder/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

/// Checks that the launches of the program can be reordered.
static LogicalResult checkProgram(func::FuncOp program, OrderPolicy policy) {
  if (failed(plan::verifyRankProgram(program)))
    return failure();
  if (policy == OrderPolicy::Search && program->hasAttr(plan::kRanksAttrName))
    return program.emitError() << "expected one program for all ranks: a search cannot time the programs of stages";
  for (Operation &op : program.getOps()) {
    if (isa<plan::LoopOp>(op))
      return op.emitOpError("expected no loop in a program whose launches are put into order");
    if (isa<plan::RecordOp, plan::WaitOp>(op))
      return op.emitOpError("expected no waits before launches are put into order");
    if (auto buffer = dyn_cast<plan::BufferOp>(op); buffer && buffer.getOffset())
      return op.emitOpError(
          "expected no offset before launches are put into order: the order decides which buffers share memory");
  }
  return success();
}

/// Moves an op and the ops that define its operands, unless they have moved before.
static void moveBefore(Operation *op, Operation *end, llvm::DenseSet<Operation *> &moved) {
  for (Value value : op->getOperands())
    if (Operation *source = value.getDefiningOp(); source && moved.insert(source).second)
      moveBefore(source, end, moved);
  op->moveBefore(end);
}

static void apply(func::FuncOp program, ArrayRef<plan::LaunchOp> launches, ArrayRef<unsigned> order) {
  if (llvm::is_sorted(order))
    return;
  llvm::DenseSet<Operation *> moved;
  for (unsigned launch : order)
    moveBefore(launches[launch], program.getBody().front().getTerminator(), moved);
}

static LogicalResult report(func::FuncOp program, llvm::Error error) {
  return program.emitError() << llvm::toString(std::move(error));
}

/// Iteration of synthetic routing for plans that depend on uneven routing. By then some experts are popular. Several
/// routings are used, because one may not be typical.
static constexpr int64_t typicalIteration = 400, numTypical = 3;

/// Whether routing changes the bytes of broadcasts, or of the phases of an exchange.
static bool dependsOnRouting(const SimProgram &program) {
  return llvm::any_of(program.launches, [](const SimLaunch &launch) {
    return launch.cost.raggedRows > 0 && (launch.cost.collective == Collective::Broadcast || launch.cost.phases > 1);
  });
}

/// Makes typical uneven routing. None if even routing is as good, or if uneven routing takes too long to simulate.
static std::optional<RoutingTrace> makeTypicalRouting(const SimProgram &program, int64_t ranks) {
  if (ranks > kMaxUnevenRanks || !dependsOnRouting(program))
    return std::nullopt;
  llvm::Expected<RoutedShape> shape = getRoutedShape(program);
  if (!shape) {
    llvm::consumeError(shape.takeError());
    return std::nullopt;
  }
  SyntheticRouting synthetic;
  synthetic.preset = kUnbalancedRouting;
  synthetic.first = typicalIteration;
  auto layers = static_cast<int64_t>(program.routedLayers.size());
  RoutingTrace trace,
      generated = synthetic.generate(ranks, numTypical * layers, shape->experts, shape->tokens, shape->topK);
  for (int64_t layer = 0; layer < numTypical * layers; ++layer)
    trace.setCounts(layer / layers, layer % layers, ranks, shape->experts,
                    *generated.getCounts(typicalIteration, layer));
  return trace;
}

static FailureOr<Order> search(func::FuncOp program, const plan::Dependences &dependences, Graph &graph,
                               const PaperOrders &papers, ArrayRef<Order> bars, const CostModel &model) {
  llvm::Expected<SimProgram> sim = makeSimProgram(program, model.getNumRanks());
  if (!sim)
    return report(program, sim.takeError());
  std::optional<RoutingTrace> routing = makeTypicalRouting(*sim, model.getNumRanks());
  Pricer pricer(std::move(*sim), dependences, model, routing ? &*routing : nullptr);
  llvm::Expected<std::vector<double>> seconds = pricer.getLaunchSeconds();
  if (!seconds)
    return report(program, seconds.takeError());
  for (auto [task, its, launch] : llvm::zip_equal(graph.tasks, *seconds, pricer.getProgram().launches)) {
    task.seconds = its;
    task.resource = launch.cost.resource;
    task.issueSeconds = model.getProfile().host.getLaunchSeconds(launch.kernel, task.resource);
  }
  graph.setSpeeds(model);
  llvm::Expected<Order> order = searchOrder(graph, papers, pricer, bars, !dependences.getRings().empty());
  if (!order)
    return report(program, order.takeError());
  return std::move(*order);
}

LogicalResult mlir::moe::orderPlan(func::FuncOp program, OrderPolicy policy, const CostModel *model) {
  if (failed(checkProgram(program, policy)))
    return failure();
  plan::assignStreams(program);
  plan::Dependences dependences(program);
  Graph graph(dependences);
  PaperOrders papers(dependences);
  std::vector<Order> bars;
  for (OrderPolicy its : {OrderPolicy::Program, OrderPolicy::MPipeMoe, OrderPolicy::FasterMoe})
    if (its == policy || policy == OrderPolicy::Search)
      bars.push_back(makePossible(graph, papers.getPreference(its)));
  if (graph.size() > 0 && bars.front().empty())
    return program.emitError()
           << "expected an order of the launches in which the buffers of each ring take turns, but there is none";
  if (policy != OrderPolicy::Search || graph.numStreams < 2) {
    apply(program, dependences.getLaunches(), bars.front());
    return success();
  }
  if (!model)
    return program.emitError() << "expected a cluster: the search for an order needs its times";
  FailureOr<Order> order = search(program, dependences, graph, papers, bars, *model);
  if (succeeded(order))
    apply(program, dependences.getLaunches(), *order);
  return order;
}

namespace {
struct PlanOrder : public moe::impl::PlanOrderBase<PlanOrder> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp program = getOperation();
    if (plan::isRankProgram(program) && failed(order(program)))
      signalPassFailure();
  }

  LogicalResult order(func::FuncOp program) {
    if (policy != OrderPolicy::Search || cluster.empty())
      return orderPlan(program, policy, /*model=*/nullptr);
    llvm::Expected<ClusterProfile> profile = ClusterProfile::load(cluster);
    if (!profile)
      return report(program, profile.takeError());
    int64_t ranks = plan::getWorld(program);
    if (ranks == 0)
      return program.emitError() << "expected " << kParallelAttrName << ", which gives the number of ranks";
    llvm::Expected<std::unique_ptr<CostModel>> model = CostModel::create(*profile, ranks, CostForm::ClosedForm);
    if (!model)
      return report(program, model.takeError());
    return orderPlan(program, policy, model->get());
  }
};
} // namespace
