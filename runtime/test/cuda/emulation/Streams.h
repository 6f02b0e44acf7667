//===- Streams.h - enqueued work, and its order ---------------------------===//
//
// Streams are queues of tasks. Tasks only run while a thread waits: one by one, each from a randomly chosen stream
// whose first task may run, until the awaited work is done.
//
// Captures are as strict as CUDA's ("Stream Capture", CUDA Programming Guide). CUDA does not list the calls that it
// counts as unsafe. Here those are all that allocate, free, wait or ask, as NCCL and PyTorch assume, too.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_TEST_CUDA_EMULATION_STREAMS_H
#define MOERT_TEST_CUDA_EMULATION_STREAMS_H

#include "Grid.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

/// A captured graph: tasks, each after some of those before it.
struct CUgraph_st {
  struct Node {
    std::function<void()> run;
    std::vector<size_t> after;
    std::function<bool()> hasArrived; ///< may be empty
  };
  std::vector<Node> nodes;
  cudaStream_t origin = nullptr;
  // Mode and thread of the capture, and whether a call has invalidated it.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool isInvalid = false;
};
struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;
};

namespace moert::emulation {

struct EventState {
  int64_t issued = 0;    ///< number of records
  int64_t completed = 0; ///< last record that streams have reached
  std::chrono::steady_clock::time_point time;
};

struct Task {
  std::function<void()> run;
  std::shared_ptr<EventState> event; ///< event that the task waits for, or null
  int64_t version = 0;
  std::function<bool()> hasArrived; ///< arrival of data from another process, or empty

  bool isNext() const { return !event || event->completed >= version; }
  bool isReady() const { return isNext() && (!hasArrived || hasArrived()); }
};

} // namespace moert::emulation

struct CUevent_st {
  std::shared_ptr<moert::emulation::EventState> state = std::make_shared<moert::emulation::EventState>();
  bool hasTime = true;
  // Graph of an event that was last recorded in a capture.
  CUgraph_st *graph = nullptr;
  std::vector<size_t> nodes;
};

struct CUstream_st {
  int device = 0;
  int priority = 0; ///< noted alone: streams run in random order
  std::deque<moert::emulation::Task> tasks;
  // Graph that captures the stream, and the nodes before its next one.
  CUgraph_st *graph = nullptr;
  std::vector<size_t> last;
};

namespace moert::emulation {

/// All devices. Callers of its functions hold `mutex`.
class Machine {
public:
  static Machine &get();

  /// Returns the stream, or the current device's default stream for null.
  CUstream_st &resolve(cudaStream_t stream);
  cudaStream_t createStream();
  void destroyStream(cudaStream_t stream);
  /// Enqueues a task on the stream, or in the graph that captures it. It runs when `hasArrived`.
  cudaError_t enqueue(CUstream_st &stream, std::function<void()> run, std::function<bool()> hasArrived = {});
  /// Runs tasks until `isDone`. Ends the process if no task can run.
  template <class Done> void runUntil(Done isDone) {
    while (!isDone())
      if (!runOne())
        waitForOthers();
  }
  /// Runs one task of any stream. Returns false if none can run.
  bool runOne();
  void drain();
  /// Runs all tasks of the current device.
  void drainDevice();
  void runGraph(const CUgraph_st &graph);
  /// Begins and ends the capture of a graph.
  void beginCapture(CUstream_st &stream, cudaStreamCaptureMode mode);
  void endCapture(const CUgraph_st *graph);
  /// Refuses a call that is unsafe during a capture, and invalidates the captures that forbid it to this thread.
  cudaError_t checkUnsafe();
  bool isCaptured(const CUgraph_st *graph) const {
    return std::find(captures.begin(), captures.end(), graph) != captures.end();
  }
  /// Refuses to wait for a device one of whose streams is captured, in every mode, and invalidates the captures.
  cudaError_t checkNoCapture();
  /// Number in the machine of a device that the process sees.
  int numberOf(int device) const;

  std::mutex mutex;
  std::mt19937_64 random;
  int devices = 2;
  size_t memory = 0; ///< bytes of each device
  cudaError_t failure = cudaSuccess;
  /// Number of enqueued kernels, copies, sets and functions of the host, of the host's waits, of allocations, and of
  /// grouped kernels that leave multiprocessors free. Written to the file CUDA_EMULATION_COUNTS of the environment when
  /// the process ends.
  int64_t launches = 0, waits = 0, allocations = 0, smallGrids = 0;
  int64_t queues = 8; ///< queues of the device, as the environment says at the first use

private:
  Machine();
  ~Machine();
  void readVisible();
  /// Lets other threads run for a moment if data of another process may still come.
  void waitForOthers();
  void pause();
  [[noreturn]] void failDeadlock();

  std::vector<std::unique_ptr<CUstream_st>> streams;
  std::vector<CUgraph_st *> captures; ///< graphs that are captured now
  bool isInGraph = false;
  std::map<int, cudaStream_t> defaults; ///< by device
  std::vector<int> visible;             ///< numbers of the devices that the process sees, or empty for all
};

/// Notes an error for cudaGetLastError of the calling thread.
cudaError_t noted(cudaError_t error);
/// Error that a test injected with failNext, once.
cudaError_t injected(Machine &machine);
/// Device of the calling thread.
int &currentDevice();
/// Mode of the calling thread during captures.
cudaStreamCaptureMode &threadMode();
/// Makes memory the current device's own, and undoes that when no work uses it any more. `disown` returns its bytes, or
/// 0 if it is not the device's.
cudaError_t adopt(void *data, size_t bytes);
size_t disown(void *data);

} // namespace moert::emulation

#endif // MOERT_TEST_CUDA_EMULATION_STREAMS_H
