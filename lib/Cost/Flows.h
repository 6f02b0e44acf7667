//===- Flows.h - flows that share links max-min fairly ----------*- C++ -*-===//
//
// The engine of the link-level form. A flow sends bytes along a path of directed links; at any time the rates of all
// flows are max-min fair: none can grow without taking from one that is not faster. Numbers are seconds, bytes and
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

/// Time never runs backwards between calls.
class FlowEngine {
public:
  explicit FlowEngine(std::vector<double> bandwidths) : links(bandwidths.size()), bandwidths(std::move(bandwidths)) {}

  /// Starts a flow whose first byte moves `latency` after `now`; until then it takes nothing from others. `path` has to
  /// live as long as the flow. Returns its number; numbers of ended flows are used again.
  uint32_t start(double now, llvm::ArrayRef<uint32_t> path, double bytes, double latency, double speed);
  /// From `now` on the flow moves at `speed` times its fair rate; what it leaves over goes to nobody.
  void setSpeed(double now, uint32_t flow, double speed);
  /// When the next flow begins to move or ends; infinity where there is none.
  double getNextTime();
  /// Moves on to `now`, which is at most getNextTime(), and appends the flows that end then.
  void advance(double now, llvm::SmallVectorImpl<uint32_t> &ended);
  /// The fair rate of a flow that moves.
  double getRate(uint32_t flow);

private:
  static constexpr uint32_t kNone = ~0u;
  struct Flow {
    llvm::ArrayRef<uint32_t> path;
    double speed = 1;
    double remaining = 0; ///< bytes, at `since`
    double since = 0;
    double rate = 0;             ///< fair, from `since` on
    double newRate = 0;          ///< while rates are computed
    uint32_t bottleneck = kNone; ///< a full link of the path on which no flow is faster
    bool moving = false, chosen = false;
  };
  struct LinkState {
    llvm::SmallVector<uint32_t, 8> flows;
    uint32_t place = kNone; ///< in `filling`
    bool changed = false;   ///< a flow began or ended here
  };
  /// A link while rates are computed.
  struct Filling {
    uint32_t link;
    uint32_t left; ///< chosen flows without a rate
    double room;   ///< for those
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
  /// When each flow begins to move or ends; infinity for numbers that are free.
  std::vector<double> events;
  double next = std::numeric_limits<double>::infinity(); ///< the first of them, or earlier where it may be later
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
