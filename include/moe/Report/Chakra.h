//===- Chakra.h - a step as Chakra execution traces -------------*- C++ -*-===//
//
// MLCommons' form of each rank's operations in a training step, which ASTRA-sim simulates or replays.
// docs/Outputs.md, "Chakra execution traces", explains each node and attribute.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_REPORT_CHAKRA_H
#define MOE_REPORT_CHAKRA_H

#include "moe/Simulator/Report.h"

#include <memory>

namespace mlir::moe {

class ChakraStep;

/// The traces of all ranks of a step. Ranks that share a simulated rank share its times.
class ChakraTraces {
public:
  /// Fails if members of a group meet on streams of different names. `step` has all iterations (writeOut), and outlives
  /// the traces.
  static llvm::Expected<ChakraTraces> create(const SimHeader &header, const SimResult &step);
  ChakraTraces(ChakraTraces &&);
  ~ChakraTraces();

  int64_t getNumRanks() const;
  /// Writes the trace of a rank, and returns its bytes.
  uint64_t write(int64_t rank, llvm::raw_ostream &os) const;
  /// Approximate bytes of all traces: ranks that do the same differ by some bytes.
  uint64_t getBytes() const;
  /// Writes the communicators as ASTRA-sim reads them: {"ID": [RANK, ..], ..}.
  void writeGroups(llvm::raw_ostream &os) const;
  /// Sentences about the differences between the plan and ASTRA-sim's simulation of it.
  std::vector<std::string> getNotes() const;

private:
  explicit ChakraTraces(std::unique_ptr<ChakraStep> step);
  std::unique_ptr<ChakraStep> step;
};

} // namespace mlir::moe

#endif // MOE_REPORT_CHAKRA_H
