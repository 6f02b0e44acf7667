//===- Options.h - the command line of moe-run ----------------------------===//
#ifndef MOERT_RUN_OPTIONS_H
#define MOERT_RUN_OPTIONS_H

#include "core/View.h"
#include "moert/world.h"

#include <string>
#include <vector>

namespace moert::run {

/// Options of --train.
struct TrainOptions {
  bool enabled = false;
  std::string data, checkpoint, log;
  std::string dataType; ///< name of run/TokenData.h; empty: not given
  int64_t steps = 100;
  int64_t warmup = 0;
  int64_t checkpointEvery = 100;
  int64_t keep = 2; ///< number of checkpoints in a folder
  double rate = 1e-3;
  double finalRate = -1; ///< negative: the rate stays
};

struct Options {
  std::string plan;
  std::string backend = "host";
  int64_t batch = 0; ///< 0: not given
  int64_t seq = 0;   ///< 0: not given
  int64_t iters = 1;
  bool givesIters = false; ///< whether the user chose the number of steps
  int64_t workers = 0;     ///< 0: one for each core
  uint64_t seed = 0;
  double timeout = 0;             ///< seconds, 0: none
  std::vector<std::string> loads; ///< files; an argument comes from the first that has it
  std::string save, saveCheckpoint, trace;
  int64_t shardBytes = 5'000'000'000; ///< most bytes in a file of a checkpoint
  std::string routing, recordRouting;
  TrainOptions train;
  std::string emulateLinks; ///< name or path of the profile of a cluster; empty: not given
  std::string digest;       ///< expected SHA-256 of the plan, in hexadecimal; empty: not given
  bool allowMissing = false;
  bool allowNan = false;
  bool noGraph = false; ///< launch each step call by call on backend cuda
  bool tf32 = false;    ///< compute f32 products in tf32 on GPUs
  bool verify = false;
  bool gradients = false; ///< compare gradients with difference quotients instead
  bool verifies() const { return verify || gradients; }
  moert_wide wide = MOERT_WIDE_NONE; ///< type in which --verify runs the plan and its reference
  bool reference = false;
  bool json = false;
  std::string information; ///< text for --help, --help-hidden or --version; empty: the plan is run
  /// Number of this process. Process 0 alone prints, compares and writes files.
  int64_t process = 0;
  int64_t processes = 1;
  /// Text that all processes must have alike (run/Agreement.h).
  std::string agreement = {};

  bool isFirst() const { return process == 0; }
};

/// Parses arguments, without the program's name.
Status parseOptions(const std::vector<std::string> &arguments, Options &options);

} // namespace moert::run

#endif // MOERT_RUN_OPTIONS_H
