//===- ShardIndex.h - what is where in a sharded checkpoint ---------------===//
//
// The parsed and checked form of `index.json` (docs/Runtime.md). No other part reads or writes the JSON itself.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_RUN_CHECKPOINT_SHARDINDEX_H
#define MOERT_RUN_CHECKPOINT_SHARDINDEX_H

#include "core/View.h"
#include "run/checkpoint/Region.h"

#include <map>

namespace moert::run {

/// How far training is: what decides which tokens come next.
struct TrainingPosition {
  int64_t step = 0;       ///< steps that are done
  uint64_t seed = 0;      ///< of the places of sequences
  int64_t tokens = 0;     ///< of the data
  int64_t stepTokens = 0; ///< of one step
};

struct ShardIndex {
  struct Block {
    int64_t file = 0; ///< index into `files`
    Region region;
  };
  struct Tensor {
    std::string dtype; ///< as safetensors names it
    std::vector<int64_t> shape;
    std::vector<Block> blocks; ///< together all elements; some may be in several blocks
  };

  TrainingPosition position;
  std::vector<std::string> files; ///< names in the index's folder
  std::map<std::string, Tensor> tensors;

  std::string json() const;
  /// Every error begins with 'path' and names the key and what was expected.
  static Status parse(const std::string &path, const std::string &text, ShardIndex &index);
};

/// What a file calls its block of a tensor.
inline std::string blockName(const std::string &tensor, const Region &region) { return tensor + region.text(); }
/// The shape of that block in the file: the box, or one dimension where it is a range of a box.
inline std::vector<int64_t> blockShape(const Region &region) {
  return region.isBox() ? region.lengths : std::vector<int64_t>{region.count};
}

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_SHARDINDEX_H
