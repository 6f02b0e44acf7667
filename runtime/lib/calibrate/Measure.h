//===- Measure.h - clocks, cold memory and repetition ---------------------===//
//
// The host's kernels never wait, so their time is the CPU time of their thread. On a quiet machine it is the same as
// wall time, and on a busy one preemption does not disturb it. Kernels of a device are timed by the device's clock
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

/// CPU seconds of the calling thread and of the whole process.
double threadSeconds();
double processSeconds();

/// Bytes that push everything else out of this machine's last-level cache. A plan's weights are that far when they are
/// used again.
int64_t coldBytes();
/// Bytes that are used between two uses of a plan's activations: more than the cache of one core, less than the
/// last-level cache.
constexpr int64_t kRecentBytes = int64_t(8) << 20;

/// Call of a kernel with these operands, without attributes.
Call callOf(Kind kind, std::initializer_list<View> views);
/// Copy of `bytes` bytes.
Call copyOf(void *from, void *to, int64_t bytes);
/// Makes a kernel call on fresh operands.
using MakeCall = std::function<Call()>;

/// Runs and times calls.
class Bench {
public:
  /// Numbers of bytes.
  struct Reach {
    int64_t cold;   ///< bytes used to push everything else out of the caches
    int64_t recent; ///< bytes used between two uses of a plan's activations
    int64_t call;   ///< most bytes of the inputs of one call, or of its outputs
  };
  const Reach reach;

  virtual ~Bench() = default;
  /// Allocates memory for operands, which lives as long as the bench.
  virtual Status allocate(int64_t bytes, void *&data) = 0;
  /// Writes to such memory. The next time() returns an error of it.
  virtual void write(void *to, const void *from, int64_t bytes) = 0;
  /// Measures one call. Short calls are timed several at once, because reading a clock takes as long as they do.
  Status time(const MakeCall &make, double &seconds);

protected:
  explicit Bench(Reach reach) : reach(reach) {}
  /// Measures one of `count` calls, which are all made before the first one runs.
  virtual Status timeBatch(const MakeCall &make, int count, double &seconds) = 0;
};

/// Runs the host's kernels in the calling thread.
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

/// Memory for the operands of calls, in rings: the next operand takes the part that was used longest ago. Inputs and
/// outputs have different memory, so that the values of inputs stay.
class Pool {
public:
  /// Allocates memory for inputs, filled with numbers of both signs between 0.1 and 1 in size, and as much for outputs.
  /// Another call with the same bench fills it again.
  Status create(Bench &bench, int32_t dtype);
  /// Sets the length of the rings of inputs and outputs, at most Reach::cold.
  void setReach(int64_t bytes) { reach = bytes; }
  /// Begins a call. Its operands do not overlap. Its inputs have at most Reach::call bytes in all, and so have its
  /// outputs.
  void beginCall();
  View input(std::vector<int64_t> dims) { return take(inputs, dtype, dims); }
  View output(std::vector<int64_t> dims) { return take(outputs, dtype, dims); }
  View outputOf(int32_t type, std::vector<int64_t> dims) { return take(outputs, type, dims); }
  /// Values of the type of accumulators: f32 in plans with 16-bit floats (docs/Models.md).
  View wideInput(std::vector<int64_t> dims) { return take(inputs, wideType(), dims); }
  View wideOutput(std::vector<int64_t> dims) { return take(outputs, wideType(), dims); }
  /// Makes i32 input values by their index.
  View integers(std::vector<int64_t> dims, const std::function<int64_t(int64_t)> &valueAt);
  int32_t type() const { return dtype; }
  Bench &bench() const { return *owner; }

private:
  struct Ring {
    char *data = nullptr;
    int64_t at = 0;
  };
  int32_t wideType() const { return isNarrow(dtype) ? MOERT_F32 : dtype; }
  View take(Ring &ring, int32_t type, const std::vector<int64_t> &dims);

  Bench *owner = nullptr;
  Ring inputs, outputs;
  Ring tables; ///< ring of integers; a batch of calls needs less than Reach::call
  int64_t reach = 0;
  int32_t dtype = MOERT_F32;
};

/// Prints the progress of a long measurement on `out`, unless that is null.
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

/// Median, the lower of two; `seconds` is not empty. A few disturbed measurements do not change it.
double typical(std::vector<double> seconds);

/// Measures the typical seconds of each call in `passes` rounds through all of them. Stops at the first error. Prints
/// the progress of `what` on `progress`, unless that is null.
Status measureKernels(Bench &bench, const std::vector<MakeCall> &calls, int passes, std::vector<double> &seconds,
                      std::ostream *progress = nullptr, const std::string &what = "");

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_MEASURE_H
