//===- Chakra.h - a step as Chakra execution traces -------------*- C++ -*-===//
//
// MLCommons' form of what each rank of a training step does, which ASTRA-sim simulates or replays. docs/CostModel.md,
// "Chakra execution traces", says what each node and attribute means.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_REPORT_CHAKRA_H
#define MOE_REPORT_CHAKRA_H

#include "moe/Simulator/Report.h"

#include <memory>

namespace mlir::moe {

class ChakraStep;

/// The traces of all ranks of a step. Where one rank was simulated for several, all of them have its times.
class ChakraTraces {
public:
  /// `step` has all iterations (writeOut), and outlives the traces. Fails where members of a group meet on streams of
  /// different names.
  static llvm::Expected<ChakraTraces> create(const SimHeader &header, const SimResult &step);
  ChakraTraces(ChakraTraces &&);
  ~ChakraTraces();

  int64_t getNumRanks() const;
  /// Writes the trace of a rank, and returns its bytes.
  uint64_t write(int64_t rank, llvm::raw_ostream &os) const;
  /// Of all traces, about: ranks that do the same differ by some bytes.
  uint64_t getBytes() const;
  /// Writes the communicators as ASTRA-sim reads them: {"ID": [RANK, ..], ..}.
  void writeGroups(llvm::raw_ostream &os) const;
  /// Sentences on what ASTRA-sim does not simulate as it is meant.
  std::vector<std::string> getNotes() const;

private:
  explicit ChakraTraces(std::unique_ptr<ChakraStep> step);
  std::unique_ptr<ChakraStep> step;
};

} // namespace mlir::moe

#endif // MOE_REPORT_CHAKRA_H
