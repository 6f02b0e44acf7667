//===- Device.h - the two seams between the runtime and a backend ---------===//
//
// A backend is a Device (memory, streams, events, kernels) and a Communicator (collectives on a group). Both get a
// step's calls one by one, in the order in which each rank issues them. They run calls at any time that keeps the order
// of each stream and of events.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_DEVICE_H
#define MOERT_CORE_DEVICE_H

#include "core/Call.h"
#include "core/Metadata.h"
#include "core/Processes.h"
#include "moert/world.h"

#include <functional>
#include <memory>
#include <optional>

namespace moert {

/// Times of an op of a step, in nanoseconds since the step began.
struct OpTime {
  int32_t op = 0;
  int64_t rows = -1; ///< rows that a ragged op used, or -1
  int64_t begin = 0;
  int64_t end = 0;
  int64_t received = -1; ///< bytes that a collective received from other members, or -1
};

class Device {
public:
  virtual ~Device() = default;

  /// Fails if `bytes` more are not available; the error says how many are.
  virtual Status checkAvailable(int64_t bytes, const std::string &what) = 0;
  /// Allocates memory of rank `rank` in `space` (MOERT_SPACE_DEVICE or _HOST_PINNED), aligned to 256. The device frees
  /// it.
  virtual Status allocate(int64_t rank, int32_t space, int64_t bytes, const std::string &what, void *&data) = 0;
  /// Copies between the caller's memory and a device allocation, while no step runs.
  virtual Status write(void *to, const void *from, int64_t bytes) = 0;
  virtual Status read(void *to, const void *from, int64_t bytes) = 0;

  /// Sets the device's name and the bytes of its memory, if the backend knows them.
  virtual Status describe(std::string & /*name*/, int64_t & /*memoryBytes*/) { return {}; }

  /// Fails if the device cannot run calls of a kind; the error names the kinds that it can run.
  virtual Status checkKernel(Kind) const { return {}; }

  /// Names for forceRaggedMethod; empty if the device has one method.
  virtual std::vector<std::string> raggedMethods() const { return {}; }
  /// Makes the next steps compute all products of experts with varying rows by one method. Empty: the device chooses.
  virtual Status forceRaggedMethod(const std::string & /*name*/) { return {}; }
  /// Makes the matmuls of the next steps take an algorithm of the device's library, by the number of the library's
  /// proposal from 1, or the last if there are fewer. 0: the device chooses.
  virtual void forceProposal(int64_t /*number*/) {}
  /// Gets the name of a matmul's algorithm in a table of products; empty if its library has only one.
  virtual Status describeAlgorithm(const Call &, std::string &algorithm) {
    algorithm.clear();
    return {};
  }

  /// Whether prepare() gets the calls of this process's programs before the first step.
  virtual bool wantsCalls() const { return false; }
  /// Makes what a call of these shapes needs, so that no step waits for it. There is no memory at its addresses.
  virtual Status prepare(const Call &) { return {}; }
  /// Get the events between these calls.
  virtual void prepareRecord(int64_t /*event*/, int64_t /*stream*/) {}
  virtual void prepareWait(int64_t /*event*/, int64_t /*stream*/) {}

  /// Ranks that this process runs.
  virtual const std::vector<int64_t> &ranks() const = 0;

  /// `issue` in runStep calls the three functions below, for each rank from one thread.
  virtual Status launch(int64_t rank, int64_t stream, const Call &call) = 0;
  virtual Status record(int64_t rank, int64_t event, int64_t stream) = 0;
  virtual Status wait(int64_t rank, int64_t event, int64_t stream) = 0;

  /// Gets the value of `times` (one i32) when everything that was issued on `stream` is done; `issue` calls it, too. No
  /// value if the device cannot tell while calls are issued. It then skips calls whose Repetition is over.
  virtual Status readTimes(int64_t /*rank*/, int64_t /*stream*/, const View & /*times*/,
                           std::optional<int64_t> & /*count*/) {
    return {};
  }

  /// Runs one step: `issue(rank)` for each rank of this process, perhaps from several threads, then the issued calls.
  /// Returns the first error, when nothing runs any more. `timeout` is in seconds; 0: no limit.
  virtual Status runStep(const std::function<Status(int64_t)> &issue, double timeout) = 0;
  /// Waits for the end of a step that runStep only enqueued, if the device does so. Returns its error.
  virtual Status finishStep() { return {}; }
  /// Whether something of a step that was given up still runs. The device and its arguments then cannot be destroyed.
  virtual bool isStuck() const { return false; }
  /// Says that from now on routing ops may be forced or recorded in each step.
  virtual void lookIntoSteps() {}
  /// Gets the device memory that this process took besides what was allocated: workspaces and memory of libraries.
  virtual Status otherBytes(int64_t &bytes) {
    bytes = 0;
    return {};
  }
  /// Gets the last step's seconds by the device's own clock, or 0 if it has none.
  virtual Status deviceSeconds(double &seconds) {
    seconds = 0;
    return {};
  }
  /// Number of steps so far that were launches of one graph.
  virtual int64_t graphSteps() const { return 0; }
  /// Says whether steps note the times of their ops, as they do at first. A device for which that costs nothing always
  /// does.
  virtual void timeOps(bool isTimed) {}
  /// Times of the ops on a stream in the last step, in order.
  virtual const std::vector<OpTime> &timeline(int64_t rank, int64_t stream) const = 0;
};

class Communicator {
public:
  virtual ~Communicator() = default;

  /// Checks a collective's operands and enqueues it on `stream`. call.group names the group.
  virtual Status issue(int64_t rank, int64_t stream, Call call) = 0;
};

/// Turns a call that one rank of a program issued into the call of another rank; see bindCall in core/World.h.
using BindCall = std::function<Status(int64_t rank, Call &call)>;

class Instrument;

struct BackendOptions {
  int64_t workers = 0;              ///< threads; 0: one for each core
  bool verify = false;              ///< check values that are assumed replicated
  double timeout = 0;               ///< seconds that processes wait for each other; 0: no limit
  Instrument *instrument = nullptr; ///< for backend host; null in production
  int64_t wholeBytes = 1 << 17;     ///< on the host, one thread moves an exchange of at most these bytes
  /// An op with seconds in the metadata takes at least these, from its last member's arrival to its end.
  bool emulate = false;
  bool tf32 = false;   ///< f32 products by tensor cores that round to tf32, on devices that have them
  bool graphs = false; ///< launch steps as one graph, if the device and the plan allow it
  /// Text that all processes must have alike, such as the plan's digest; empty if nothing is compared.
  std::string identity;
  /// For backend "caller".
  const moert_communicator *communicator = nullptr;
  /// For backend "cuda" on a caller's stream.
  const moert_cuda_caller *cudaCaller = nullptr;
  /// For backends that run many ranks in this process and keep their common calls once.
  BindCall bind;
  bool times = true; ///< whether steps note the times of ops
  /// One rank of a program issues for all, on backend host. Nothing checks then that all ranks issue the same.
  bool issuesOnce = false;
  /// Lists the channels of all ranks, for backends that connect them before a step.
  std::function<Status(std::vector<std::array<int64_t, 2>> &)> listChannels;
};

struct Backend {
  std::shared_ptr<Processes> processes; ///< null if all ranks run in this process
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> communicator;
};

/// Makes the backend called `name` for `world` ranks that run `programs`, in the order of their ranks. The programs and
/// groups must outlive it.
Status createBackend(const std::string &name, std::span<const Program> programs, const std::vector<Group> &groups,
                     int64_t world, const BackendOptions &options, Backend &backend);

} // namespace moert

#endif // MOERT_CORE_DEVICE_H
