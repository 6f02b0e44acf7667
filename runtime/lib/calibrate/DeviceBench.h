//===- DeviceBench.h - calls on a device, by its clock --------------------===//
//
// Calls are launched after a product that is long enough for the host to be ahead. Otherwise the device would wait for
// the host, which would be measured. If a call reads counts, an equal call runs before, so that the host knows them.
// The clock's time for a call that does nothing is subtracted.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CALIBRATE_DEVICEBENCH_H
#define MOERT_CALIBRATE_DEVICEBENCH_H

#include "calibrate/Measure.h"
#include "calibrate/Ranks.h"

namespace moert::calibrate {

/// Times calls on the compute stream of the first rank of this process.
class DeviceBench final : public Bench {
public:
  /// Creates a bench on `ranks`, whose arenas have `arenaBytes`, and which must outlive it. Operands have `coldBytes`,
  /// more than the device's caches. A call may have `callBytes` of them, or all if that is 0.
  static Status create(Ranks &ranks, int64_t arenaBytes, int64_t coldBytes, std::unique_ptr<DeviceBench> &result,
                       int64_t callBytes = 0);

  Ranks &ranks() { return owner; }
  Status allocate(int64_t bytes, void *&data) override { return allocateIn(MOERT_SPACE_DEVICE, bytes, data); }
  Status allocateIn(int32_t space, int64_t bytes, void *&data);
  void write(void *to, const void *from, int64_t bytes) override;
  /// Issues a product in the arena that takes at least kAhead seconds. Returns a moert_status.
  int32_t issueBallast(moert_rank_t rank) const;

  /// Measures each call of a step by the device's clock, the ballast first. The calls of `before` run earlier.
  Status timeStep(const std::vector<Call> &before, const std::vector<Call> &calls, std::vector<double> &seconds);

  /// Seconds by the device's clock without those of a call that does nothing.
  double withoutClock(double seconds) const;

  static constexpr double kAhead = 5e-4;

protected:
  Status timeBatch(const MakeCall &make, int count, double &seconds) override;

private:
  DeviceBench(Ranks &ranks, int64_t coldBytes, int64_t callBytes)
      : Bench({coldBytes, coldBytes, callBytes ? callBytes : coldBytes}), owner(ranks) {}
  Status findBallast(int64_t arenaBytes);

  Ranks &owner;
  int64_t ballast = 16; ///< rows, columns and depth of the ballast
  double nothing = 0;   ///< seconds of a call that does nothing
  Status failure;       ///< error of write()
};

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_DEVICEBENCH_H
