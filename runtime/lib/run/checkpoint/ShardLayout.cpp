//===- ShardLayout.cpp - which rank writes what of a sharded checkpoint ---===//

#include "run/checkpoint/ShardLayout.h"
#include "run/checkpoint/Safetensors.h"

#include <algorithm>
#include <cstdio>

namespace moert::run {
namespace {

/// Least share to divide among replicas, so that blocks are large and the index small.
constexpr int64_t kLeastShare = 16 << 20;

/// Place of a block on a rank.
struct Holder {
  int64_t rank, argument, begin; ///< rank, argument, and offset in bytes
};

/// Block, and all ranks that hold it.
struct Held {
  std::string dtype;
  std::vector<int64_t> shape; ///< shape of the tensor
  std::vector<Holder> holders;
};

using AllHeld = std::map<std::pair<std::string, Region>, Held>;

AllHeld findHolders(std::span<const Program> programs, const std::vector<Group> &groups, int64_t ranks,
                    const KeepValue &keep) {
  AllHeld all;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Program &program = programs[programIndex(programs, rank)];
    for (size_t i = 0; i < program.arguments.size(); ++i) {
      const Value &value = program.arguments[i];
      if (!keep(value))
        continue;
      for (PartBlock &block : blocksOfPart(value, groups, rank)) {
        Held &held = all[{block.tensor, block.region}];
        held.dtype = fileDtype(value.dtype);
        held.shape = std::move(block.shape);
        held.holders.push_back(
            {rank, static_cast<int64_t>(i), block.at * static_cast<int64_t>(dtypeSize(value.dtype))});
      }
    }
  }
  return all;
}

/// Share of a block that one of its holders writes.
struct Share {
  const std::string *tensor;
  const Held *held;
  Region region;
  int64_t first, width; ///< first element in the block, and bytes of an element

  int64_t bytes() const { return region.count * width; }
};

/// Adds the shares of a block: enough that none is larger than a file, and that all replicas write.
void addShares(const std::string &tensor, const Region &region, const Held &held, int64_t fileBytes,
               std::vector<Share> &shares) {
  int64_t width = fileDtypeSize(held.dtype), most = std::max<int64_t>(1, fileBytes / width);
  int64_t even = std::min<int64_t>(static_cast<int64_t>(held.holders.size()), region.count * width / kLeastShare);
  int64_t count = std::max({int64_t(1), even, (region.count + most - 1) / most});
  for (int64_t i = 0; i < count && region.count > 0; ++i) {
    int64_t first = region.count * i / count, end = region.count * (i + 1) / count;
    shares.push_back({&tensor, &held, region.part(first, end - first), first, width});
  }
}

/// Assigns shares to ranks, the largest first, each to the holder with the least bytes so far. The result is by rank,
/// in the order of tensors.
std::vector<std::vector<ShardFile::Block>> assign(std::vector<Share> shares, int64_t ranks) {
  std::stable_sort(shares.begin(), shares.end(), [](const Share &a, const Share &b) { return a.bytes() > b.bytes(); });
  std::vector<int64_t> load(static_cast<size_t>(ranks));
  std::vector<std::vector<ShardFile::Block>> blocks(load.size());
  for (Share &share : shares) {
    const std::vector<Holder> &holders = share.held->holders;
    auto writer = std::min_element(holders.begin(), holders.end(), [&](const Holder &a, const Holder &b) {
      return load[static_cast<size_t>(a.rank)] < load[static_cast<size_t>(b.rank)];
    });
    auto rank = static_cast<size_t>(writer->rank);
    load[rank] += share.bytes();
    int64_t bytes = share.bytes(), begin = writer->begin + share.first * share.width;
    blocks[rank].push_back({*share.tensor, std::move(share.region), share.held->dtype, writer->argument, begin, bytes});
  }
  for (std::vector<ShardFile::Block> &own : blocks)
    std::sort(own.begin(), own.end(), [](const ShardFile::Block &a, const ShardFile::Block &b) {
      return std::tie(a.tensor, a.region) < std::tie(b.tensor, b.region);
    });
  return blocks;
}

std::string fileName(int64_t rank, int64_t number) {
  char name[64];
  std::snprintf(name, sizeof name, "rank-%05lld-%05lld.safetensors", static_cast<long long>(rank),
                static_cast<long long>(number));
  return name;
}

void addFiles(int64_t rank, std::vector<ShardFile::Block> blocks, int64_t fileBytes, ShardLayout &layout) {
  int64_t number = 0, bytes = 0;
  for (ShardFile::Block &block : blocks) {
    if (number == 0 || bytes + block.bytes > fileBytes) {
      layout.files.push_back({fileName(rank, ++number), rank, {}});
      layout.index.files.push_back(layout.files.back().name);
      bytes = 0;
    }
    bytes += block.bytes;
    auto file = static_cast<int64_t>(layout.files.size()) - 1;
    layout.index.tensors.at(block.tensor).blocks.push_back({file, block.region});
    layout.files.back().blocks.push_back(std::move(block));
  }
}

} // namespace

ShardLayout layOutShards(std::span<const Program> programs, const std::vector<Group> &groups, int64_t ranks,
                         int64_t fileBytes, const KeepValue &keep) {
  const AllHeld all = findHolders(programs, groups, ranks, keep);
  ShardLayout layout;
  std::vector<Share> shares;
  for (const auto &[block, held] : all) {
    layout.index.tensors[block.first] = {held.dtype, held.shape, {}};
    addShares(block.first, block.second, held, fileBytes, shares);
  }
  std::vector<std::vector<ShardFile::Block>> blocks = assign(std::move(shares), ranks);
  for (int64_t rank = 0; rank < ranks; ++rank)
    addFiles(rank, std::move(blocks[static_cast<size_t>(rank)]), fileBytes, layout);
  return layout;
}

} // namespace moert::run
