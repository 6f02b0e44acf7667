//===- MoeCalibrate.cpp - moe-calibrate without its main function ---------===//

#include "calibrate/MoeCalibrate.h"
#include "calibrate/ProductMethods.h"
#include "core/OutputFile.h"
#include "moert/world.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <thread>

namespace moert::calibrate {
namespace {

enum ExitStatus { Done = 0, CheckFailed = 1, BadInput = 2 };

int fail(std::ostream &err, const std::string &message, int status) {
  err << "moe-calibrate: error: " << message << "\n";
  return status;
}

int exitStatus(int32_t code) {
  bool isInput =
      code == MOERT_ERROR_OUT_OF_MEMORY || code == MOERT_ERROR_UNSUPPORTED || code == MOERT_ERROR_INVALID_ARGUMENT;
  return isInput ? BadInput : CheckFailed;
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

/// Whether the output can be written, which is checked before minutes of measurement. Only a file beside a table is
/// touched, because a table is complete at any time.
bool isWritable(const std::string &output, bool isTable) {
  if (output == "-")
    return true;
  const std::string touched = isTable ? output + ".new" : output;
  const bool isOpen = std::ofstream(touched, std::ios::app).is_open();
  if (isTable && isOpen)
    std::remove(touched.c_str());
  return isOpen;
}

int write(const std::string &output, const std::function<void(std::ostream &)> &print, std::ostream &out,
          std::ostream &err) {
  if (output == "-") {
    print(out);
    return Done;
  }
  OutputFile file;
  Status status = file.open(output);
  print(file);
  status = file.close();
  return status.ok() ? Done : fail(err, status.message, BadInput);
}

/// Measures a table of methods. A run that is killed leaves the products that were measured before.
int runMethods(const Options &options, std::ostream &out, std::ostream &err) {
  const bool isFile = options.products != "-";
  MethodTable table;
  const auto save = [&](const MethodTable &measured) {
    return isFile ? saveMethods(measured, options.products) : Status();
  };
  Status status = calibrateMethods(options, save, table);
  if (!status.ok())
    return fail(err, status.message, exitStatus(status.code));
  for (const std::string &text : table.leftOut)
    err << "moe-calibrate: note: --limit left out " << text << "\n";
  if (!isFile)
    writeMethods(table, out);
  status = save(table);
  return status.ok() ? Done : fail(err, status.message, BadInput);
}

int run(Options &options, std::ostream &out, std::ostream &err, bool isTerminal) {
  int64_t process = 0, processes = 1;
  if (options.backend == "cuda")
    if (int32_t code = moert_place(&process, &processes))
      return fail(err, moert_last_error(), exitStatus(code));
  const bool isFirst = process == 0;
  const bool isTable = !options.products.empty();
  if (isTable && processes > 1)
    return fail(err, "expected one process for --products but got " + std::to_string(processes), BadInput);
  const std::string &output = isTable ? options.products : options.output;
  if (isFirst && !isWritable(output, isTable))
    return fail(err, "'" + output + "': cannot be written: " + std::strerror(errno), BadInput);
  if (!options.workers)
    options.workers = std::max(1u, std::thread::hardware_concurrency());
  options.progress = isTerminal && isFirst ? &err : nullptr;
  if (isTable)
    return runMethods(options, out, err);
  Profile profile;
  Status status = options.isDevice() ? calibrateDevice(options, profile) : calibrateHost(options, profile);
  if (!status.ok())
    return fail(err, (isFirst ? "" : "rank " + std::to_string(process) + ": ") + status.message,
                exitStatus(status.code));
  if (!isFirst)
    return Done;
  if (isTerminal)
    err << fitText("kernels", profile.kernels) << fitText("collectives", profile.exchanges);
  if (profile.exchanges.empty())
    err << "moe-calibrate: note: one GPU was measured, without links or collectives: the profile is for plans of one "
           "rank; to measure several GPUs, start a process for each by torchrun, mpirun or srun\n";
  return write(output, [&](std::ostream &to) { writeProfile(profile, to); }, out, err);
}

} // namespace

int runMain(const std::vector<std::string> &arguments, std::ostream &out, std::ostream &err, bool isTerminal) {
  Options options;
  if (Status status = parseOptions(arguments, options); !status.ok())
    return fail(err, status.message, BadInput);
  if (!options.information.empty()) {
    out << options.information;
    return Done;
  }
  try {
    return run(options, out, err, isTerminal);
  } catch (const std::exception &error) {
    return fail(err, error.what(), BadInput);
  }
}

} // namespace moert::calibrate
