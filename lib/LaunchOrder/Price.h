//===- Price.h - orders in the simulator ------------------------*- C++ -*-===//
#ifndef MOE_LIB_LAUNCHORDER_PRICE_H
#define MOE_LIB_LAUNCHORDER_PRICE_H

#include "Graph.h"

#include "moe/Simulator/Simulator.h"

namespace mlir::moe {

/// Bytes of device memory that hold values, arguments left out.
struct LiveBytes {
  int64_t peak = 0; ///< the most at one launch
  double sum = 0;   ///< over all launches

  bool operator<(const LiveBytes &other) const { return std::pair(peak, sum) < std::pair(other.peak, other.sum); }
};

/// Prices orders of one program without touching it: what the simulator sees of an order does not need the IR.
class Pricer {
public:
  /// `program` is `dependences`' one, on streams, without waits. Of `routing` all iterations count alike; null is even.
  Pricer(SimProgram program, const plan::Dependences &dependences, const CostModel &model, const RoutingTrace *routing)
      : program(std::move(program)), dependences(dependences), model(model), routing(routing) {}

  const SimProgram &getProgram() const { return program; }
  /// Seconds of a step in an order that the dependences allow, with the waits that plan-assign-streams would make.
  llvm::Expected<double> getSeconds(ArrayRef<unsigned> order);
  /// By launch, in the order of the program: what it takes where it takes longest, of an exchange from its last
  /// member's arrival on.
  llvm::Expected<std::vector<double>> getLaunchSeconds();
  LiveBytes getLiveBytes(ArrayRef<unsigned> order) const;

private:
  /// An order that was simulated.
  struct Known {
    Order order;
    double seconds;
    /// By launch: when it could have begun, on the first rank that could.
    std::vector<double> ready;
  };

  llvm::Expected<SimResult> run(ArrayRef<unsigned> order, int64_t iteration);
  SimProgram reorder(ArrayRef<unsigned> order) const;
  void noteReady(const SimResult &step, Known &known) const;
  /// Whether a step in another order is the same: every stream does the same, and never waits for a launch to be issued
  /// that is issued at another time.
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
