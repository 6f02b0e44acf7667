//===- Overlaps.h - calls that run beside transfers -----------------------===//
#ifndef MOERT_CUDA_OVERLAPS_H
#define MOERT_CUDA_OVERLAPS_H

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace moert::cuda {

/// Finds the calls of a rank that may run at the same time as a transfer on another stream, by the events between the
/// streams. Transfers that a step issues after a call are known from what was noted before: steps, and a program that
/// is only listed. Used by one thread at a time.
class Overlaps {
public:
  Overlaps(size_t streams, size_t events);

  void beginStep();
  /// Notes an event of a stream, and that a stream waits for it.
  void record(int64_t event, int64_t stream);
  void wait(int64_t event, int64_t stream);
  /// Notes a transfer.
  void noteTransfer(int64_t stream);
  /// Notes another call of the program's op. Returns whether a transfer may run beside it.
  bool noteCall(int32_t op, int64_t stream);

private:
  /// Calls of each stream that are done before a point in the step.
  using Done = std::vector<int64_t>;
  struct Issued {
    int32_t op;
    int64_t number; ///< number of the call on its stream, from 1
  };

  Done &at(int64_t stream) { return done[static_cast<size_t>(stream)]; }

  std::vector<Done> done;                  ///< by stream: what its next call waits for, and its own calls
  std::vector<Done> recorded;              ///< by event
  std::vector<int64_t> lastTransfer;       ///< by stream: number of its last transfer
  std::vector<std::vector<Issued>> issued; ///< by stream: this step's calls that are no transfers
  std::set<int32_t> besideLater;           ///< ops that ran beside a transfer that was issued after them
};

} // namespace moert::cuda

#endif // MOERT_CUDA_OVERLAPS_H
