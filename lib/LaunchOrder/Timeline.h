//===- Timeline.h - a quick look at how an order would run ------*- C++ -*-===//
//
// One rank's streams in virtual time, as in closed form in moe/Simulator/Simulator.h, but without data that explains
// the result. The search asks thousands of times. With shared links or processors this is only an estimate.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_LAUNCHORDER_TIMELINE_H
#define MOE_LIB_LAUNCHORDER_TIMELINE_H

#include "Graph.h"

#include <limits>

namespace mlir::moe {

/// Relative tolerance, because sums of times depend on the order of their terms.
inline constexpr double kTimeTolerance = 1e-9;

/// Tasks of each stream in order.
using Sequences = std::vector<Order>;

Sequences getSequences(const Graph &graph, ArrayRef<unsigned> order);

struct Ends {
  /// End of the last task; infinity if the streams wait for each other.
  double seconds = 0;
  /// Sum of all tasks' ends. The smaller one is better for orders that take equally long.
  double sumOfEnds = 0;
};

struct Timeline : Ends {
  /// Tasks in the order of their begins, which is consistent with dependences.
  Order order;
  /// Task whose end a task waited for last, -1 if none, and whether it was the previous one on its stream. By task.
  std::vector<int32_t> cause;
  std::vector<bool> waitedForStream;
  /// A task that ends last.
  int32_t last = -1;
};

/// Runs one graph many times.
class TimelineRunner {
public:
  explicit TimelineRunner(const Graph &graph);

  /// Runs each stream in its order.
  const Timeline &run(const Sequences &sequences);
  /// Lets each stream take the ready task of the least rank. Ranks, by task, are all different.
  const Timeline &run(ArrayRef<unsigned> rank);

  /// Like run(), and keeps the states from which rerun() starts.
  const Timeline &runToChange(const Sequences &sequences);
  /// Returns the result of run() for `sequences`, which differ from those of runToChange() only in `stream` from
  /// `place` on. Gives up with infinite seconds if they exceed `limit`.
  Ends rerun(const Sequences &sequences, unsigned stream, unsigned place, double limit);
  /// Whether run() would take at most `limit` seconds.
  bool isWithin(const Sequences &sequences, double limit);

private:
  struct Stream {
    enum class State : uint8_t { Idle, Issuing, Working } state = State::Idle;
    unsigned task = 0;
    double until = 0;     ///< time of issue, or of the end at the present speed
    double remaining = 0; ///< seconds alone that remain
    double speed = 0;     ///< speed until the next event
    double left = 0;      ///< seconds alone of tasks that have not begun
    double free = 0;      ///< time since which it is free
    int32_t last = -1;    ///< last task
    size_t head = 0;      ///< index in its sequence
  };
  /// State that determines the rest of a run.
  struct State {
    SmallVector<Stream, 4> streams;
    std::vector<unsigned> missing; ///< tasks before a task that have not ended, by task
    std::array<unsigned, kNumResources> busy{};
    unsigned mask = 0;
    size_t begun = 0;           ///< number of tasks that have begun
    double now = 0, issued = 0; ///< present time, and time at which the last task is issued
    Ends ends;
  };

  void start(double most);
  const Timeline &run();
  Ends finish();
  void makeReady(unsigned task);
  bool takeNext(Stream &stream, unsigned index);
  void begin(Stream &stream);
  void work(Stream &stream);
  void end(Stream &stream);
  double getSpeed(const Stream &stream) const;
  bool step();

  const Graph &graph;
  State initial;        ///< state at the begin of all runs
  double mostSpeed = 1; ///< highest speed of any task
  const Sequences *sequences = nullptr;
  ArrayRef<unsigned> rank;
  double limit = 0; ///< seconds at which a run is given up
  bool isTooLong = false;
  State state;
  Timeline timeline;
  std::vector<std::vector<std::pair<unsigned, unsigned>>> ready; ///< heap of ranks and tasks, by stream
  std::vector<double> readyAt;

  bool keeps = false;
  std::vector<State> kept; ///< states before each step; the first `numKept` are valid
  size_t numKept = 0;
  std::vector<std::vector<size_t>> asked; ///< step that first asks for a task, by stream and place
  /// Least seconds from the begin of a task to the end of the tasks that wait for it. By task, once a run has kept its
  /// steps.
  std::vector<double> tails;
};

} // namespace mlir::moe

#endif // MOE_LIB_LAUNCHORDER_TIMELINE_H
