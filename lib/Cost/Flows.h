//===- Flows.h - flows that share links max-min fairly ----------*- C++ -*-===//
//
// Engine of the link-level form. A flow sends bytes along a path of directed links. At any time the rates of all flows
// are max-min fair: a flow can only get more if a flow that is not faster gets less. Units are seconds, bytes and
// bytes/s.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_COST_FLOWS_H
#define MOE_LIB_COST_FLOWS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <limits>
#include <vector>

namespace mlir::moe {

/// Time must not decrease between calls.
class FlowEngine {
public:
  explicit FlowEngine(std::vector<double> bandwidths) : links(bandwidths.size()), bandwidths(std::move(bandwidths)) {}

  /// Starts a flow whose first byte moves `latency` after `now`; until then it uses no bandwidth. `path` must live as
  /// long as the flow. Returns its number. Numbers of ended flows are used again.
  uint32_t start(double now, llvm::ArrayRef<uint32_t> path, double bytes, double latency, double speed);
  /// From `now` on the flow moves at `speed` times its fair rate. No other flow gets the rest.
  void setSpeed(double now, uint32_t flow, double speed);
  /// Time at which the next flow begins to move or ends. Infinity if there is none.
  double getNextTime();
  /// Moves on to `now`, which is at most getNextTime(), and appends the flows that end.
  void advance(double now, llvm::SmallVectorImpl<uint32_t> &ended);
  /// Fair rate of a moving flow.
  double getRate(uint32_t flow);

private:
  static constexpr uint32_t kNone = ~0u;
  struct Flow {
    llvm::ArrayRef<uint32_t> path;
    double speed = 1;
    double remaining = 0; ///< bytes left at `since`
    double since = 0;
    double rate = 0;             ///< fair rate from `since` on
    double newRate = 0;          ///< new rate while rates are computed
    uint32_t bottleneck = kNone; ///< full link of the path on which no flow is faster
    bool moving = false, chosen = false;
  };
  struct LinkState {
    llvm::SmallVector<uint32_t, 8> flows;
    uint32_t place = kNone; ///< index in `filling`
    bool changed = false;   ///< whether a flow began or ended here
  };
  /// A link while rates are computed.
  struct Filling {
    uint32_t link;
    uint32_t left; ///< number of chosen flows without a rate
    double room;   ///< bandwidth for those flows
  };

  void setEvent(uint32_t flow, double when);
  void moveTo(double now);
  void begin(uint32_t flow);
  void end(uint32_t flow);
  void markChanged(llvm::ArrayRef<uint32_t> path);
  void choose(uint32_t flow);
  void computeRates();
  void fill();
  void giveRate(Flow &flow, uint32_t link, double rate);
  bool chooseMore();
  void setRate(uint32_t flow, double rate);

  std::vector<LinkState> links;
  std::vector<double> bandwidths;
  std::vector<Flow> flows;
  /// Time at which each flow begins to move or ends. Infinity for free numbers.
  std::vector<double> events;
  double next = std::numeric_limits<double>::infinity(); ///< lower bound of `events`
  bool mayBeLater = false;
  std::vector<uint32_t> freeFlows;
  double time = 0;
  bool isDirty = false;

  std::vector<uint32_t> changedLinks;
  std::vector<uint32_t> chosen;
  std::vector<Filling> filling;
  std::vector<double> shares; ///< room / left, by place in `filling`
};

} // namespace mlir::moe

#endif // MOE_LIB_COST_FLOWS_H
