//===- Calibrate.cpp - all measurements of the host, and the machine ------===//

#include "calibrate/Calibrate.h"
#include "core/Attributes.h"
#include "host/Kernels.h"

#include <ctime>
#include <fstream>
#include <unistd.h>

namespace moert::calibrate {
namespace {

/// Name of the processor in Linux, or "CPU" if it gives none.
std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos)
      return line.substr(colon + 2);
  }
  return "CPU";
}

void describeMachine(const Settings &settings, Profile &profile) {
  profile.name = "localhost";
  profile.deviceName = processorName();
  profile.processors = settings.workers;
  profile.memoryBytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  profile.description =
      "Ranks of the host runtime on " + std::to_string(settings.workers) + " processors of one machine";
  profile.source = measuredOn(settings, profile.deviceName);
}

} // namespace

std::string measuredOn(const Settings &settings, const std::string &device) {
  std::time_t now = std::time(nullptr);
  std::tm parts;
  char date[16];
  std::strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &parts));
  return "measured by moe-calibrate " + (settings.isDevice() ? "--backend=" + settings.backend + " " : "") + "on " +
         device + ", " + date + (settings.quick ? ", --quick" : "");
}

Status measureMemory(Pool &pool, const Settings &settings, double &bytesPerSecond) {
  constexpr int64_t kColumns = 512;
  constexpr int kPasses = 9;
  const int64_t rows = settings.isDevice() ? settings.device.kernelRows : 8192;
  pool.setReach(pool.bench().reach.cold);
  auto make = [&] {
    pool.beginCall();
    return callOf(Kind::RowDot,
                  {pool.input({rows, kColumns}), pool.input({rows, kColumns}), pool.wideOutput({rows, 1})});
  };
  std::vector<double> seconds;
  MOERT_RETURN_IF_ERROR(measureKernels(pool.bench(), {make}, kPasses, seconds));
  bytesPerSecond = static_cast<double>(2 * make().views[operands::RowDot::a].bytes()) / seconds[0];
  return {};
}

Status calibrateHost(const Settings &settings, Profile &profile) {
  host::initialiseThread();
  describeMachine(settings, profile);
  for (int32_t dtype : {MOERT_F32, MOERT_F64}) {
    HostBench bench;
    Pool pool;
    MOERT_RETURN_IF_ERROR(pool.create(bench, dtype));
    MOERT_RETURN_IF_ERROR(calibrateProducts(pool, settings, profile.rates.emplace_back()));
    MOERT_RETURN_IF_ERROR(calibrateKernels(pool, settings, profile.kernels));
    MOERT_RETURN_IF_ERROR(measureMemory(pool, settings, profile.memoryBytesPerSecond));
  }
  MOERT_RETURN_IF_ERROR(calibrateShares(settings, profile.exchanges));
  return calibrateExecutor(settings, profile);
}

} // namespace moert::calibrate
