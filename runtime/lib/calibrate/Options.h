//===- Options.h - the command line of moe-calibrate ----------------------===//
#ifndef MOERT_CALIBRATE_OPTIONS_H
#define MOERT_CALIBRATE_OPTIONS_H

#include "core/View.h"

#include <string>
#include <vector>

namespace moert::calibrate {

struct Options {
  std::string backend = "host";
  std::string output;
  std::string products; ///< file for the methods of products of experts, in place of a profile
  int64_t workers = 0;  ///< number of workers; 0: one for each core
  bool quick = false;
  std::string information; ///< text for --help, --help-hidden or --version; empty: the machine is measured
};

/// Parses arguments, without the program's name.
Status parseOptions(const std::vector<std::string> &arguments, Options &options);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_OPTIONS_H
