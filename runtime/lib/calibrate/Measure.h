//===- Measure.h - clocks, cold memory and repetition ---------------------===//
//
// Kernels never wait, so what a kernel takes is the CPU time of its thread: the same as wall time on a quiet machine,
// and not disturbed by being preempted on a busy one.
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

/// Memory for the operands of calls, in a ring: what is taken next was touched longest ago. Inputs are not where
/// outputs are, so that their values stay.
class Pool {
public:
  /// Memory for inputs, filled with numbers of both signs between 0.1 and 1 in size, and as much for outputs.
  Status create(int32_t dtype);
  /// From here on the ring is `bytes` long, at most coldBytes().
  void setReach(int64_t bytes) { reach = bytes; }
  /// Begins a call, whose operands lie apart from each other. They may have kLargestCall bytes.
  void beginCall();
  View input(std::vector<int64_t> dims) { return take(inputs, dtype, dims); }
  View output(std::vector<int64_t> dims) { return take(outputs, dtype, dims); }
  View outputOf(int32_t type, std::vector<int64_t> dims) { return take(outputs, type, dims); }
  int32_t type() const { return dtype; }

private:
  struct Ring {
    host::Block block;
    int64_t at = 0;
  };
  static constexpr int64_t kLargestCall = int64_t(128) << 20;
  View take(Ring &ring, int32_t type, const std::vector<int64_t> &dims);

  Ring inputs, outputs;
  int64_t reach = 0;
  int32_t dtype = MOERT_F32;
};

/// Makes a kernel call on fresh operands.
using MakeCall = std::function<Call()>;

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
Status measureKernels(const std::vector<MakeCall> &calls, int passes, Progress &progress, std::vector<double> &seconds);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_MEASURE_H
