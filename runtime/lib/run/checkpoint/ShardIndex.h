//===- ShardIndex.h - what is where in a sharded checkpoint ---------------===//
//
// The parsed and checked form of `index.json` (docs/Checkpoints.md). No other part reads or writes the JSON itself.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_RUN_CHECKPOINT_SHARDINDEX_H
#define MOERT_RUN_CHECKPOINT_SHARDINDEX_H

#include "core/View.h"
#include "run/checkpoint/Region.h"

#include <map>

namespace moert::run {

/// Position of a training, which decides the next tokens.
struct TrainingPosition {
  int64_t step = 0;       ///< number of steps that are done
  uint64_t seed = 0;      ///< seed of the places of sequences
  int64_t tokens = 0;     ///< number of tokens of the data
  int64_t stepTokens = 0; ///< number of tokens of one step
};

struct ShardIndex {
  struct Block {
    int64_t file = 0; ///< index into `files`
    Region region;
  };
  struct Tensor {
    std::string dtype; ///< name in safetensors
    std::vector<int64_t> shape;
    std::vector<Block> blocks; ///< blocks that have all elements; some may be in several blocks
  };

  TrainingPosition position;
  std::vector<std::string> files; ///< names in the folder of the index
  std::map<std::string, Tensor> tensors;

  std::string json() const;
  /// Parses an index. Every error begins with 'path' and names the key and what was expected.
  static Status parse(const std::string &path, const std::string &text, ShardIndex &index);
};

/// Name of a tensor's block in a file.
inline std::string blockName(const std::string &tensor, const Region &region) { return tensor + region.text(); }
/// Shape of that block in the file: the box, or one dimension for a range of a box.
inline std::vector<int64_t> blockShape(const Region &region) {
  return region.isBox() ? region.lengths : std::vector<int64_t>{region.count};
}

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_SHARDINDEX_H
