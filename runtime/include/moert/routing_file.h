//===- routing_file.h - files of routing ------------------------*- C++ -*-===//
//
// JSON lines, one object for each iteration and MoE layer, in any order; `choices` may be left out. moe-run records and
// forces them, and the simulator takes their counts (docs/Routing.md, docs/MoeRun.md).
//   {"iteration": 0, "layer": 0, "counts": [[rank 0's choices of expert 0, 1, ..], [rank 1's ..], ..],
//    "choices": [[rank 0's experts, token by token, best first], [rank 1's], ..]}
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_ROUTING_FILE_H
#define MOERT_ROUTING_FILE_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

struct RoutingLine {
  int64_t number = 0; ///< line number in the file, from 1 on
  int64_t iteration = 0;
  int64_t layer = 0;
  std::vector<std::vector<int32_t>> counts;  ///< by rank, by expert; none is empty
  std::vector<std::vector<int32_t>> choices; ///< by rank; empty if the file has no choices
};

/// Reads lines one after the other. It checks that no number is negative, but not that lines agree with each other.
class RoutingReader {
public:
  /// `text` is a whole file, which must outlive the reader.
  explicit RoutingReader(std::string_view text) : rest(text) {}

  /// Reads the next line that is not blank. Returns false at the end and after an error.
  bool next(RoutingLine &line);
  /// Error in line `number()`; empty if there is none.
  const std::string &error() const { return message; }
  /// Number of the line read last.
  int64_t number() const { return lines; }

private:
  std::string_view rest;
  int64_t lines = 0;
  bool hasLine = false;
  std::string message;
};

/// Text of the line, with its line break.
std::string routingText(const RoutingLine &line);

} // namespace moert

#endif // MOERT_ROUTING_FILE_H
