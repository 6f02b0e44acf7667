//===- Price.h - orders in the simulator ------------------------*- C++ -*-===//
#ifndef MOE_LIB_LAUNCHORDER_PRICE_H
#define MOE_LIB_LAUNCHORDER_PRICE_H

#include "Graph.h"

#include "moe/Simulator/Simulator.h"

namespace mlir::moe {

/// Bytes of device memory that hold values, without arguments.
struct LiveBytes {
  int64_t peak = 0; ///< most bytes at one launch
  double sum = 0;   ///< sum over all launches

  bool operator<(const LiveBytes &other) const { return std::pair(peak, sum) < std::pair(other.peak, other.sum); }
};

/// Simulates the step time of orders of one program. The simulator takes an order as a list, so the IR stays as it is.
class Pricer {
public:
  /// `program` is the program of `dependences`. It has streams and no waits. All iterations of `routing` have the same
  /// weight; null is even routing.
  Pricer(SimProgram program, const plan::Dependences &dependences, const CostModel &model, const RoutingTrace *routing)
      : program(std::move(program)), dependences(dependences), model(model), routing(routing) {}

  const SimProgram &getProgram() const { return program; }
  /// Seconds of a step in an order that the dependences allow, with the waits that plan-assign-streams makes.
  llvm::Expected<double> getSeconds(ArrayRef<unsigned> order);
  /// Seconds of each launch, in program order, on the rank where it takes longest. An exchange counts from its last
  /// member's arrival.
  llvm::Expected<std::vector<double>> getLaunchSeconds();
  LiveBytes getLiveBytes(ArrayRef<unsigned> order) const;

private:
  /// A simulated order.
  struct Known {
    Order order;
    double seconds;
    /// Earliest time at which each launch could begin on any rank.
    std::vector<double> ready;
  };

  llvm::Expected<SimResult> run(ArrayRef<unsigned> order, int64_t iteration);
  SimProgram reorder(ArrayRef<unsigned> order) const;
  void noteReady(const SimResult &step, Known &known) const;
  /// Whether a step in another order takes the same time: every stream has the same tasks and never waits for the issue
  /// of a launch whose issue has moved.
  bool isSameStep(const Known &known, ArrayRef<unsigned> order) const;

  SimProgram program;
  const plan::Dependences &dependences;
  const CostModel &model;
  const RoutingTrace *routing;
  KnownCosts costs;
  std::vector<Known> simulated;
};

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_PRICE_H
