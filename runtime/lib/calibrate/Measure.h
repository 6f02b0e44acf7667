//===- Measure.h - clocks, cold memory and repetition ---------------------===//
//
// The host's kernels never wait, so what one takes is the CPU time of its thread: the same as wall time on a quiet
// machine, and not disturbed by being preempted on a busy one. Those of a device take what the device's clock says
// (DeviceBench.h).
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CALIBRATE_MEASURE_H
#define MOERT_CALIBRATE_MEASURE_H

#include "core/Call.h"
#include "host/HostMemory.h"

#include <functional>
#include <ostream>
#include <vector>

namespace moert::calibrate {

/// CPU time, in seconds, of the calling thread and of the whole process.
double threadSeconds();
double processSeconds();

/// Bytes that push everything else out of this machine's last-level cache: where a plan's weights are when it is their
/// turn.
int64_t coldBytes();
/// Bytes that have been used since a plan's activations were: more than the cache of one core, less than the last one.
constexpr int64_t kRecentBytes = int64_t(8) << 20;

/// Makes a kernel call on fresh operands.
using MakeCall = std::function<Call()>;

/// What runs calls, and says how long they take.
class Bench {
public:
  /// In bytes.
  struct Reach {
    int64_t cold;   ///< of use that pushes everything else out of the caches
    int64_t recent; ///< that have been used since a plan's activations were
    int64_t call;   ///< the inputs of one call, or its outputs, at most
  };
  const Reach reach;

  virtual ~Bench() = default;
  /// Memory for operands, kept as long as the bench.
  virtual Status allocate(int64_t bytes, void *&data) = 0;
  /// To such memory. An error comes with the next time().
  virtual void write(void *to, const void *from, int64_t bytes) = 0;
  /// Seconds of one call. Short ones are timed several at once, because looking at a clock takes as long as they.
  Status time(const MakeCall &make, double &seconds);

protected:
  explicit Bench(Reach reach) : reach(reach) {}
  /// Seconds of one of `count` calls, all made before the first one runs.
  virtual Status timeBatch(const MakeCall &make, int count, double &seconds) = 0;
};

/// The host's kernels in the calling thread.
class HostBench final : public Bench {
public:
  HostBench() : Bench({coldBytes(), kRecentBytes, int64_t(128) << 20}) {}
  Status allocate(int64_t bytes, void *&data) override;
  void write(void *to, const void *from, int64_t bytes) override;

protected:
  Status timeBatch(const MakeCall &make, int count, double &seconds) override;

private:
  std::vector<host::Block> blocks;
};

/// Memory for the operands of calls, in rings: what is taken next was touched longest ago. Inputs are not where
/// outputs are, so that their values stay.
class Pool {
public:
  /// Memory for inputs, filled with numbers of both signs between 0.1 and 1 in size, and as much for outputs. Another
  /// call, with the same bench, fills it anew.
  Status create(Bench &bench, int32_t dtype);
  /// From here on the rings of inputs and outputs are `bytes` long, at most Reach::cold.
  void setReach(int64_t bytes) { reach = bytes; }
  /// Begins a call, whose operands lie apart from each other. They may have Reach::call bytes.
  void beginCall();
  View input(std::vector<int64_t> dims) { return take(inputs, dtype, dims); }
  View output(std::vector<int64_t> dims) { return take(outputs, dtype, dims); }
  View outputOf(int32_t type, std::vector<int64_t> dims) { return take(outputs, type, dims); }
  /// What plans with values of the type sum up: f32 beside 16-bit floats (docs/Models.md).
  View wideInput(std::vector<int64_t> dims) { return take(inputs, wideType(), dims); }
  View wideOutput(std::vector<int64_t> dims) { return take(outputs, wideType(), dims); }
  /// i32 input values by their index.
  View integers(std::vector<int64_t> dims, const std::function<int64_t(int64_t)> &valueAt);
  int32_t type() const { return dtype; }
  Bench &bench() const { return *owner; }

private:
  struct Ring {
    char *data = nullptr;
    int64_t at = 0;
  };
  Status allocate();
  int32_t wideType() const { return isNarrow(dtype) ? MOERT_F32 : dtype; }
  View take(Ring &ring, int32_t type, const std::vector<int64_t> &dims);

  Bench *owner = nullptr;
  Ring inputs, outputs;
  Ring tables; ///< integers, of which a batch of calls needs less than Reach::call
  int64_t reach = 0;
  int32_t dtype = MOERT_F32;
};

/// Says how far a long measurement is, on `out` unless that is null.
class Progress {
public:
  Progress(std::ostream *out, std::string what, size_t total) : out(out), what(std::move(what)), total(total) {}
  ~Progress();
  void step();

private:
  std::ostream *out;
  std::string what;
  size_t total, done = 0, shown = 101;
};

/// The middle one, the lower of two; not empty. A few disturbed measurements do not move it.
double typical(std::vector<double> seconds);

/// Seconds of each of the calls: the typical ones of `passes` rounds through all of them. Stops at the first error.
Status measureKernels(Bench &bench, const std::vector<MakeCall> &calls, int passes, Progress &progress,
                      std::vector<double> &seconds);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_MEASURE_H
