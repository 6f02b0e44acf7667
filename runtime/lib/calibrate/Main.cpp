//===- Main.cpp - moe-calibrate -------------------------------------------===//

#include "calibrate/Main.h"
#include "calibrate/Calibrate.h"
#include "calibrate/Options.h"
#include "host/Kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <thread>

namespace moert::calibrate {
namespace {

enum ExitStatus { Done = 0, CheckFailed = 1, BadInput = 2 };

int fail(std::ostream &err, const std::string &message, int status) {
  err << "moe-calibrate: error: " << message << "\n";
  return status;
}

template <class Fits> std::string fitText(const char *what, const Fits &fits) {
  double r2 = 1, error = 0;
  for (const auto &fit : fits) {
    r2 = std::min(r2, fit.fit.r2);
    error += fit.fit.relativeError / static_cast<double>(fits.size());
  }
  char text[128];
  std::snprintf(text, sizeof text, "%zu %s, R^2 at least %.3f, mean relative error %.1f%%\n", fits.size(), what, r2,
                100 * error);
  return text;
}

int run(const Options &options, std::ostream &out, std::ostream &err, bool isTerminal) {
  // Before minutes go into what cannot be written.
  std::ofstream file;
  if (options.output != "-") {
    file.open(options.output, std::ios::app);
    if (!file)
      return fail(err, "'" + options.output + "': cannot be written", BadInput);
    file.close();
  }
  Settings settings;
  settings.workers = options.workers ? options.workers : std::max(1u, std::thread::hardware_concurrency());
  settings.quick = options.quick;
  settings.progress = isTerminal ? &err : nullptr;
  host::initialiseThread();
  Profile profile;
  if (Status status = calibrate(settings, profile); !status.ok())
    return fail(err, status.message, status.code == MOERT_ERROR_OUT_OF_MEMORY ? BadInput : CheckFailed);
  if (isTerminal)
    err << fitText("kernels", profile.kernels) << fitText("collectives", profile.exchanges);
  if (options.output == "-") {
    writeProfile(profile, out);
    return Done;
  }
  file.open(options.output, std::ios::trunc);
  writeProfile(profile, file);
  file.close();
  return file ? Done : fail(err, "'" + options.output + "': cannot be written", BadInput);
}

} // namespace

int runMain(const std::vector<std::string> &arguments, std::ostream &out, std::ostream &err, bool isTerminal) {
  Options options;
  if (Status status = parseOptions(arguments, options); !status.ok())
    return fail(err, status.message, BadInput);
  if (options.help) {
    out << kHelpText;
    return Done;
  }
  try {
    return run(options, out, err, isTerminal);
  } catch (const std::exception &error) {
    return fail(err, error.what(), BadInput);
  }
}

} // namespace moert::calibrate
