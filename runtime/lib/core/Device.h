//===- Device.h - the two seams between the runtime and a backend ---------===//
//
// A backend is a Device (memory, streams, events, kernels) and a Communicator (collectives on a group). Both are told
// about a step's calls one by one, in the order in which each rank issues them, and run them when they like, keeping
// the order of each stream and what events say.
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

/// When an op of a step ran, in nanoseconds since the step began.
struct OpTime {
  int32_t op = 0;
  int64_t rows = -1; ///< rows a ragged op used, or -1
  int64_t begin = 0;
  int64_t end = 0;
  int64_t received = -1; ///< bytes that a collective got from other members, or -1
};

class Device {
public:
  virtual ~Device() = default;

  /// Whether `bytes` more can be had; an error says how much there is.
  virtual Status checkAvailable(int64_t bytes, const std::string &what) = 0;
  /// Memory of rank `rank` in `space` (MOERT_SPACE_DEVICE or _HOST_PINNED), aligned to 256. Freed with the device.
  virtual Status allocate(int64_t rank, int32_t space, int64_t bytes, const std::string &what, void *&data) = 0;
  /// Copies between the caller's memory and a device allocation, while no step runs.
  virtual Status write(void *to, const void *from, int64_t bytes) = 0;
  virtual Status read(void *to, const void *from, int64_t bytes) = 0;

  /// What the device is called, and the bytes of its memory; as given where the backend does not know.
  virtual Status describe(std::string & /*name*/, int64_t & /*memoryBytes*/) { return {}; }

  /// Whether the device can run calls of a kind; an error says which it has.
  virtual Status checkKernel(Kind) const { return {}; }

  /// The names for BackendOptions::raggedMethod; none where the device has one method.
  virtual std::vector<std::string> raggedMethods() const { return {}; }
  /// What a table of products calls the algorithm of a matmul; empty where its library has only one.
  virtual Status describeAlgorithm(const Call &, std::string &algorithm) {
    algorithm.clear();
    return {};
  }

  /// Whether prepare() is to be told the calls of this process's programs, before the first step.
  virtual bool wantsCalls() const { return false; }
  /// Makes what a call of these shapes needs and a step should not wait for. Nothing lies at its addresses.
  virtual Status prepare(const Call &) { return {}; }

  /// The ranks that this process runs.
  virtual const std::vector<int64_t> &ranks() const = 0;

  /// The three below are called by `issue` in runStep, for each rank from one thread.
  virtual Status launch(int64_t rank, int64_t stream, const Call &call) = 0;
  virtual Status record(int64_t rank, int64_t event, int64_t stream) = 0;
  virtual Status wait(int64_t rank, int64_t event, int64_t stream) = 0;

  /// What `times` (one i32) is when all that was issued on `stream` is done; called by `issue`, too. None where the
  /// device cannot tell while calls are issued. It then passes over calls whose Repetition is over.
  virtual Status readTimes(int64_t /*rank*/, int64_t /*stream*/, const View & /*times*/,
                           std::optional<int64_t> & /*count*/) {
    return {};
  }

  /// Runs one step: `issue(rank)` for each rank of this process, perhaps from several threads, then all that was
  /// issued. Returns the first error, when nothing runs any more. `timeout` is in seconds, 0 for none.
  virtual Status runStep(const std::function<Status(int64_t)> &issue, double timeout) = 0;
  /// Waits for the end of a step that runStep only enqueued, on a device that does so, and returns its error.
  virtual Status finishStep() { return {}; }
  /// Whether something of a step that was given up still runs. Then the device and what it was given cannot be
  /// destroyed.
  virtual bool isStuck() const { return false; }
  /// From here on routing ops are told, step by step, what to choose, or say what they chose.
  virtual void lookIntoSteps() {}
  /// Device memory that this process took besides what was allocated: workspaces, and what libraries have.
  virtual Status otherBytes(int64_t &bytes) {
    bytes = 0;
    return {};
  }
  /// Whether steps note when their ops run, as they do at first; a device for which that costs nothing always does.
  virtual void timeOps(bool isTimed) {}
  /// What ran on a stream in the last step, in order.
  virtual const std::vector<OpTime> &timeline(int64_t rank, int64_t stream) const = 0;
};

class Communicator {
public:
  virtual ~Communicator() = default;

  /// Checks a collective's operands and enqueues it on `stream`. call.group names the group.
  virtual Status issue(int64_t rank, int64_t stream, Call call) = 0;
};

/// Makes of a call that one rank of a program issued the one that another rank issued; see bindCall in core/Issue.h.
using BindCall = std::function<Status(int64_t rank, Call &call)>;

class Instrument;

struct BackendOptions {
  int64_t workers = 0;              ///< threads; 0: one for each core
  bool verify = false;              ///< check what is assumed replicated
  double timeout = 0;               ///< seconds that processes wait for each other; 0: without end
  Instrument *instrument = nullptr; ///< of backend host; null in production
  int64_t wholeBytes = 1 << 17;     ///< the host lets one thread move an exchange of at most so many
  /// An op that the metadata gives seconds takes at least as long, from its last member's arrival to its end.
  bool emulate = false;
  bool tf32 = false;   ///< f32 products by tensor cores that round to tf32, on devices that have them
  bool graphs = false; ///< launch steps as one graph, on devices that can, where the plan allows it
  /// The method of all products of experts whose rows vary, of Device::raggedMethods; empty: the device chooses.
  std::string raggedMethod;
  /// Which of its library's algorithms each matmul takes, from 1, the library's own choice. 0: the device chooses.
  int64_t denseProposal = 0;
  /// What all processes must have alike, such as the plan; empty: nothing is known of it.
  std::string identity;
  /// Of backend "caller".
  const moert_communicator *communicator = nullptr;
  /// Of backend "cuda" on a caller's stream.
  const moert_cuda_caller *cudaCaller = nullptr;
  /// For backends that run many ranks in this process, and keep what they have in common once.
  BindCall bind;
  bool times = true; ///< whether steps note when ops ran
  /// One rank of a program issues for all, on backend host. Nothing checks then that all ranks issue the same.
  bool issuesOnce = false;
  /// Lists the channels of all ranks, for backends that make them before a step.
  std::function<Status(std::vector<std::array<int64_t, 2>> &)> listChannels;
};

struct Backend {
  std::shared_ptr<Processes> processes; ///< null where all ranks run in this process
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> communicator;
};

/// Makes the backend called `name` for `world` ranks that run `programs`, which stand in the order of their ranks. The
/// programs and groups must outlive it.
Status createBackend(const std::string &name, std::span<const Program> programs, const std::vector<Group> &groups,
                     int64_t world, const BackendOptions &options, Backend &backend);

} // namespace moert

#endif // MOERT_CORE_DEVICE_H
