//===- RoutingTrace.h - files of routing ------------------------------------===//
//
// JSON lines, one object for each iteration and MoE layer, in any order; `choices` may be left out. The simulator reads
// and writes the same files (docs/CostModel.md).
//   {"iteration": 0, "layer": 0, "counts": [[rank 0's choices of expert 0, 1, ..], [rank 1's ..], ..],
//    "choices": [[rank 0's experts, token by token, best first], [rank 1's], ..]}
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_RUN_ROUTINGTRACE_H
#define MOERT_RUN_ROUTINGTRACE_H

#include "core/View.h"

#include <ostream>
#include <vector>

namespace moert::run {

struct RoutingLine {
  int64_t number = 0; ///< in the file, from 1 on
  int64_t iteration = 0;
  int64_t layer = 0;
  std::vector<std::vector<int32_t>> counts;  ///< by rank, by expert
  std::vector<std::vector<int32_t>> choices; ///< by rank; none where the file does not have them
};

/// Reads a file; whether it suits a plan is not asked. An error begins with "PATH:LINE: ".
Status readRoutingTrace(const std::string &path, std::vector<RoutingLine> &lines);

void writeRoutingLine(const RoutingLine &line, std::ostream &out);

} // namespace moert::run

#endif // MOERT_RUN_ROUTINGTRACE_H
