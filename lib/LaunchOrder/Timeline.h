//===- Timeline.h - a quick look at how an order would run ------*- C++ -*-===//
//
// One rank's streams in virtual time, as moe/Simulator/Simulator.h has them in closed form, without what that needs to
// explain itself: the search asks thousands of times. Where links are shared or processors are, this is a guess.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_LAUNCHORDER_TIMELINE_H
#define MOE_LIB_LAUNCHORDER_TIMELINE_H

#include "Graph.h"

#include <limits>

namespace mlir::moe {

/// Sums of times differ in their last digits by the order of their terms: relative.
inline constexpr double kTimeTolerance = 1e-9;

/// Tasks of each stream in order.
using Sequences = std::vector<Order>;

Sequences getSequences(const Graph &graph, ArrayRef<unsigned> order);

struct Ends {
  /// When the last task ends; infinity where the streams wait for each other.
  double seconds = 0;
  /// Of all tasks' ends: of two orders that take equally long, the one that does more earlier.
  double sumOfEnds = 0;
};

struct Timeline : Ends {
  /// Tasks as they begin. A dependence's tasks stand in its order.
  Order order;
  /// By task: the one whose end it waited for last, -1 where it waited for none, and whether that was because it is the
  /// one before on its stream.
  std::vector<int32_t> cause;
  std::vector<bool> waitedForStream;
  /// A task that ends last.
  int32_t last = -1;
};

/// Runs one graph many times.
class TimelineRunner {
public:
  explicit TimelineRunner(const Graph &graph);

  /// Each stream in its order.
  const Timeline &run(const Sequences &sequences);
  /// Each stream takes the ready task of the least rank; `rank` by task, no two the same.
  const Timeline &run(ArrayRef<unsigned> rank);

  /// As run(), and keeps what rerun() begins from.
  const Timeline &runToChange(const Sequences &sequences);
  /// What run() says of `sequences`, which are those of runToChange() but for `stream` from `place` on. Infinite
  /// seconds where it gives up, since they are more than `limit`.
  Ends rerun(const Sequences &sequences, unsigned stream, unsigned place, double limit);
  /// Whether run() would take at most `limit` seconds.
  bool isWithin(const Sequences &sequences, double limit);

private:
  struct Stream {
    enum class State : uint8_t { Idle, Issuing, Working } state = State::Idle;
    unsigned task = 0;
    double until = 0;     ///< when it is issued, or ends as long as the speed holds
    double remaining = 0; ///< seconds alone
    double speed = 0;     ///< until the next time
    double left = 0;      ///< seconds alone of all tasks that have not begun
    double free = 0;      ///< since when
    int32_t last = -1;    ///< task
    size_t head = 0;      ///< into its sequence
  };
  /// What decides how a run goes on.
  struct State {
    SmallVector<Stream, 4> streams;
    std::vector<unsigned> missing; ///< by task: those before it that have not ended
    std::array<unsigned, kNumResources> busy{};
    unsigned mask = 0;
    size_t begun = 0;           ///< tasks
    double now = 0, issued = 0; ///< the present time, and when the last task is issued
    Ends ends;
  };

  void start(double most);
  const Timeline &run();
  Ends finish();
  void findTails();
  void keep();
  void makeReady(unsigned task);
  bool takeNext(Stream &stream, unsigned index);
  void begin(Stream &stream);
  void work(Stream &stream);
  void end(Stream &stream);
  double getSpeed(const Stream &stream) const;
  bool step();

  const Graph &graph;
  State initial;        ///< of all runs
  double mostSpeed = 1; ///< of any task
  const Sequences *sequences = nullptr;
  ArrayRef<unsigned> rank;
  double limit = 0; ///< a run that takes more is given up
  bool isTooLong = false;
  State state;
  Timeline timeline;
  std::vector<std::vector<std::pair<unsigned, unsigned>>> ready; ///< by stream: rank and task, a heap
  std::vector<double> readyAt;

  bool keeps = false;
  std::vector<State> kept; ///< before each step, `numKept` of them
  size_t numKept = 0;
  std::vector<std::vector<size_t>> asked; ///< by stream and place: the step that first asks for the task there
  /// By task, once a run has kept its steps: the least seconds from its begin to the end of what waits for it.
  std::vector<double> tails;
};

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_TIMELINE_H
