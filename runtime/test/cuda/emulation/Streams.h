//===- Streams.h - what is enqueued, and when it runs ---------------------===//
//
// Streams are queues of tasks. Nothing runs until somebody waits; then tasks run one by one, each from a stream that
// chance chooses among those whose first task may run, until what was waited for is done.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_TEST_CUDA_EMULATION_STREAMS_H
#define MOERT_TEST_CUDA_EMULATION_STREAMS_H

#include "Grid.h"

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

/// A captured graph: what runs, each task after some of those before it.
struct CUgraph_st {
  struct Node {
    std::function<void()> run;
    std::vector<size_t> after;
    std::function<bool()> hasArrived; ///< or empty
  };
  std::vector<Node> nodes;
  cudaStream_t origin = nullptr;
};
struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;
};

namespace moert::emulation {

struct EventState {
  int64_t issued = 0;    ///< how often it was recorded
  int64_t completed = 0; ///< the last of these that streams came to
  std::chrono::steady_clock::time_point time;
};

struct Task {
  std::function<void()> run;
  std::shared_ptr<EventState> event; ///< that it waits for, or null
  int64_t version = 0;
  std::function<bool()> hasArrived; ///< what comes from another process; empty: nothing does

  bool isNext() const { return !event || event->completed >= version; }
  bool isReady() const { return isNext() && (!hasArrived || hasArrived()); }
};

} // namespace moert::emulation

struct CUevent_st {
  std::shared_ptr<moert::emulation::EventState> state = std::make_shared<moert::emulation::EventState>();
  bool hasTime = true;
  // Of one that was last recorded in a capture.
  CUgraph_st *graph = nullptr;
  std::vector<size_t> nodes;
};

struct CUstream_st {
  int device = 0;
  std::deque<moert::emulation::Task> tasks;
  // Of one that is captured: the graph, and the nodes that the next one comes after.
  CUgraph_st *graph = nullptr;
  std::vector<size_t> last;
};

namespace moert::emulation {

/// All devices. Whoever calls one of its functions holds `mutex`.
class Machine {
public:
  static Machine &get();

  /// The stream itself, or the current device's default stream for null.
  CUstream_st &resolve(cudaStream_t stream);
  cudaStream_t createStream();
  void destroyStream(cudaStream_t stream);
  /// To the stream, or to the graph that captures it. It runs when `hasArrived`.
  cudaError_t enqueue(CUstream_st &stream, std::function<void()> run, std::function<bool()> hasArrived = {});
  /// Runs tasks until `isDone`; ends the process where none can run any more.
  template <class Done> void runUntil(Done isDone) {
    while (!isDone())
      if (!runOne())
        waitForOthers();
  }
  /// One task of any stream; false where none can run.
  bool runOne();
  void drain();
  void runGraph(const CUgraph_st &graph);
  /// Lets go of all streams that `graph` captures.
  void endCapture(const CUgraph_st *graph);
  /// Of a device that the process sees, among those of the machine.
  int numberOf(int device) const;

  std::mutex mutex;
  std::mt19937_64 random;
  int devices = 2;
  size_t memory = 0; ///< of each device
  cudaError_t failure = cudaSuccess;
  /// Kernels, copies, sets and functions of the host that were enqueued, and how often the host waited. Written to the
  /// file CUDA_EMULATION_COUNTS of the environment when the process ends.
  int64_t launches = 0, waits = 0;

private:
  Machine();
  ~Machine();
  void readVisible();
  /// Lets other threads in for a moment, if anything of another process may still come.
  void waitForOthers();
  void pause();
  [[noreturn]] void failDeadlock();

  std::vector<std::unique_ptr<CUstream_st>> streams;
  bool isInGraph = false;
  std::map<int, cudaStream_t> defaults; ///< by device
  std::vector<int> visible;             ///< numbers of the devices that the process sees; empty: all
};

/// Notes an error for cudaGetLastError of the calling thread.
cudaError_t noted(cudaError_t error);
/// What a test asked for with failNext, once.
cudaError_t injected(Machine &machine);
/// The device of the calling thread.
int &currentDevice();

} // namespace moert::emulation

#endif // MOERT_TEST_CUDA_EMULATION_STREAMS_H
