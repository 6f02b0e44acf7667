//===- DeviceBench.h - calls on a device, by its clock --------------------===//
//
// Calls are launched behind a product that is long enough for the host to be ahead: else the device would wait for the
// host, and that would be measured. Where a call reads counts, one like it runs before, for the host to know them.
// What its clock says of a call that does nothing is subtracted.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CALIBRATE_DEVICEBENCH_H
#define MOERT_CALIBRATE_DEVICEBENCH_H

#include "calibrate/Measure.h"
#include "calibrate/Ranks.h"

namespace moert::calibrate {

/// Calls on the compute stream of the first rank of this process.
class DeviceBench final : public Bench {
public:
  /// `ranks`, whose arenas have `arenaBytes`, must outlive the bench. Operands have `coldBytes`, more than the device's
  /// caches; a call may have `callBytes` of them, or as many where that is 0.
  static Status create(Ranks &ranks, int64_t arenaBytes, int64_t coldBytes, std::unique_ptr<DeviceBench> &result,
                       int64_t callBytes = 0);

  Ranks &ranks() { return owner; }
  Status allocate(int64_t bytes, void *&data) override { return allocateIn(MOERT_SPACE_DEVICE, bytes, data); }
  Status allocateIn(int32_t space, int64_t bytes, void *&data);
  void write(void *to, const void *from, int64_t bytes) override;
  /// Issues a product in the arena that takes at least kAhead seconds. Returns a moert_status.
  int32_t issueBallast(moert_rank_t rank) const;

  /// Seconds of each call of a step by the device's clock, the ballast first. Before that one the calls of `before`
  /// run.
  Status timeStep(const std::vector<Call> &before, const std::vector<Call> &calls, std::vector<double> &seconds);

  /// Seconds that the device's clock says, without what it says of a call that does nothing.
  double withoutClock(double seconds) const;

  static constexpr double kAhead = 5e-4;

protected:
  Status timeBatch(const MakeCall &make, int count, double &seconds) override;

private:
  DeviceBench(Ranks &ranks, int64_t coldBytes, int64_t callBytes)
      : Bench({coldBytes, coldBytes, callBytes ? callBytes : coldBytes}), owner(ranks) {}
  Status findBallast(int64_t arenaBytes);

  Ranks &owner;
  int64_t ballast = 16; ///< rows, columns and depth
  double nothing = 0;   ///< seconds that the clock says of a call that does nothing
  Status failure;       ///< of write
};

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_DEVICEBENCH_H
