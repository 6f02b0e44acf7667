//===- ShardedCheckpoint.h - reading parts of a sharded checkpoint --------===//
#ifndef MOERT_RUN_CHECKPOINT_SHARDEDCHECKPOINT_H
#define MOERT_RUN_CHECKPOINT_SHARDEDCHECKPOINT_H

#include "run/checkpoint/Safetensors.h"
#include "run/checkpoint/ShardIndex.h"

namespace moert::run {

/// Name of the index in the folder of a sharded checkpoint.
constexpr const char *kShardIndexName = "index.json";

/// Blocks of tensors that ranks wrote, in any layout. Only the index and headers of files are in memory.
class ShardedCheckpoint {
public:
  /// Opens `folder`, which has the index and its files.
  Status open(const std::string &folder);
  const std::string &path() const { return folder; }
  const ShardIndex &index() const { return contents; }

  /// Reads elements of `tensor`, which the index has, into bytes[0..count times its width). Only the parts of files
  /// with these elements are read, a few MB at a time. Fails if no block has an element.
  Status read(const std::string &tensor, const Region &wanted, char *bytes);

private:
  Status readBlock(const std::string &tensor, const ShardIndex::Block &block, const Region &wanted, char *bytes,
                   std::vector<std::pair<int64_t, int64_t>> &found);
  Status openBlock(const std::string &tensor, const ShardIndex::Block &block, SafetensorsFile *&file,
                   int64_t &firstByte);

  std::string folder;
  ShardIndex contents;
  std::map<int64_t, SafetensorsFile> opened; ///< opened files, by their index
};

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_SHARDEDCHECKPOINT_H
