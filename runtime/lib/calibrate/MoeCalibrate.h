//===- MoeCalibrate.h - moe-calibrate without its main function -*- C++ -*-===//
#ifndef MOERT_CALIBRATE_MOECALIBRATE_H
#define MOERT_CALIBRATE_MOECALIBRATE_H

#include "calibrate/Calibrate.h"

namespace moert::calibrate {

struct Options : Settings {
  std::string output;
  std::string products;    ///< file for the methods of products, in place of a profile
  std::string information; ///< text for --help, --help-hidden or --version; empty: the machine is measured
};

/// Parses arguments, without the program's name.
Status parseOptions(const std::vector<std::string> &arguments, Options &options);

/// Runs moe-calibrate with `arguments`, which do not have the program's name. The profile goes to a file, or to `out`
/// if the file is "-". Messages go to `err`, and progress too if `isTerminal`. Returns the exit status.
int runMain(const std::vector<std::string> &arguments, std::ostream &out, std::ostream &err, bool isTerminal);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_MOECALIBRATE_H
