//===- Calibrate.h - what is measured -------------------------------------===//
#ifndef MOERT_CALIBRATE_CALIBRATE_H
#define MOERT_CALIBRATE_CALIBRATE_H

#include "calibrate/Measure.h"
#include "calibrate/Profile.h"

namespace moert::calibrate {

struct Settings {
  int64_t workers = 0;              ///< processors of the profile; 0: one for each core
  bool quick = false;               ///< fewer points and repetitions
  std::ostream *progress = nullptr; ///< null: silent
};

/// Matrix products of the pool's type over a grid of shapes.
Status calibrateProducts(Pool &pool, const Settings &settings, Rate &rate);
/// Every kernel that is no product, over sizes, on values of the pool's type.
Status calibrateKernels(Pool &pool, const Settings &settings, std::vector<KernelFit> &fits);
/// Every collective over sizes and group sizes; sums by type.
Status calibrateExchanges(const Settings &settings, std::vector<ExchangeFit> &fits);
/// What launches cost, and how processors slow each other.
Status calibrateExecutor(const Settings &settings, Profile &profile);

/// All of that. settings.workers must not be 0.
Status calibrate(const Settings &settings, Profile &profile);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_CALIBRATE_H
