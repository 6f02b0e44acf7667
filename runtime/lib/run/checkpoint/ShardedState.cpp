//===- ShardedState.cpp - the ranks' values in a sharded checkpoint -------===//

#include "run/checkpoint/ShardedState.h"
#include "core/OutputFile.h"
#include "run/checkpoint/Checkpoint.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <ranges>

namespace fs = std::filesystem;

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

/// Calls visit(rank, index of the argument, the argument, block of the rank's part) for each block that the ranks hold.
template <class Ranks, class Visit>
Status forEachBlock(std::span<const Program> programs, const std::vector<Group> &groups, const Ranks &ranks,
                    const KeepValue &keep, Visit visit) {
  for (int64_t rank : ranks) {
    const Program &program = programs[programIndex(programs, rank)];
    for (size_t i = 0; i < program.arguments.size(); ++i) {
      const Value &value = program.arguments[i];
      for (PartBlock &block : keep(value) ? blocksOfPart(value, groups, rank) : std::vector<PartBlock>())
        MOERT_RETURN_IF_ERROR(visit(rank, static_cast<int64_t>(i), value, block));
    }
  }
  return {};
}

int64_t widthOf(const Value &value) { return static_cast<int64_t>(dtypeSize(value.dtype)); }

AllHeld findHolders(std::span<const Program> programs, const std::vector<Group> &groups, int64_t ranks,
                    const KeepValue &keep) {
  AllHeld all;
  auto add = [&](int64_t rank, int64_t argument, const Value &value, PartBlock &block) {
    Held &held = all[{block.tensor, block.region}];
    held.dtype = fileDtype(value.dtype);
    held.shape = std::move(block.shape);
    held.holders.push_back({rank, argument, block.at * widthOf(value)});
    return Status{};
  };
  forEachBlock(programs, groups, std::views::iota(int64_t(0), ranks), keep, add);
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

namespace {

/// Largest number of bytes of a value that memory holds at a time.
constexpr int64_t kChunkBytes = 4 << 20;

/// Calls visit(begin, size) for chunks that divide `bytes` bytes into whole elements.
template <class Visit> Status forEachChunk(int64_t bytes, Visit visit) {
  for (int64_t begin = 0; begin < bytes; begin += kChunkBytes)
    MOERT_RETURN_IF_ERROR(visit(begin, std::min(kChunkBytes, bytes - begin)));
  return {};
}

std::string headerOf(const ShardFile &file) {
  auto header = nlohmann::ordered_json::object();
  int64_t offset = 0;
  for (const ShardFile::Block &block : file.blocks) {
    header[blockName(block.tensor, block.region)] = {
        {"dtype", block.dtype}, {"shape", blockShape(block.region)}, {"data_offsets", {offset, offset + block.bytes}}};
    offset += block.bytes;
  }
  return headOf(header.dump());
}

Status writeBlock(Runner &runner, int64_t rank, const ShardFile::Block &block, std::vector<char> &buffer,
                  OutputFile &file) {
  return forEachChunk(block.bytes, [&](int64_t begin, int64_t bytes) {
    buffer.resize(static_cast<size_t>(bytes));
    MOERT_RETURN_IF_ERROR(checked(
        moert_world_read_range(runner.world.get(), rank, block.argument, block.begin + begin, buffer.data(), bytes)));
    file.write(buffer.data(), bytes);
    return Status{};
  });
}

Status writeFile(Runner &runner, const std::string &path, const ShardFile &file) {
  OutputFile out;
  MOERT_RETURN_IF_ERROR(out.open(path));
  out << headerOf(file);
  std::vector<char> buffer;
  for (const ShardFile::Block &block : file.blocks)
    MOERT_RETURN_IF_ERROR(writeBlock(runner, file.rank, block, buffer, out));
  MOERT_RETURN_IF_ERROR(out.sync());
  return out.close();
}

Status writeOwnFiles(Runner &runner, const fs::path &folder, const ShardLayout &layout) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return invalid("'" + folder.string() +
                   "' is not there: expected all processes to see the folder that process 0 made");
  for (const ShardFile &file : layout.files)
    if (std::ranges::count(runner.ranks, file.rank) > 0)
      MOERT_RETURN_IF_ERROR(writeFile(runner, (folder / file.name).string(), file));
  return {};
}

Status writeIndex(const fs::path &folder, const ShardIndex &index) {
  OutputFile out;
  MOERT_RETURN_IF_ERROR(out.open((folder / kShardIndexName).string()));
  out << index.json();
  MOERT_RETURN_IF_ERROR(out.sync());
  return out.close();
}

} // namespace

bool isTrainingState(const Value &value) { return value.updated || value.role == "parameter"; }

Status writeShards(Runner &runner, const std::string &folder, const KeepValue &keep, int64_t fileBytes,
                   const TrainingPosition &position) {
  ShardLayout layout =
      layOutShards(runner.programs, runner.groups, static_cast<int64_t>(runner.everyone.size()), fileBytes, keep);
  layout.index.position = position;
  MOERT_RETURN_IF_ERROR(runner.meet(writeOwnFiles(runner, folder, layout)));
  return runner.meet(runner.options.isFirst() ? writeIndex(folder, layout.index) : Status{});
}

Status checkShards(const Runner &runner, const ShardedCheckpoint &checkpoint, const KeepValue &keep,
                   std::ostream &log) {
  const ShardIndex wanted =
      layOutShards(runner.programs, runner.groups, static_cast<int64_t>(runner.everyone.size()), INT64_MAX, keep).index;
  const auto &there = checkpoint.index().tensors;
  std::string where = "'" + checkpoint.path() + "': ";
  std::vector<std::string> missing, unused;
  for (const auto &[name, tensor] : wanted.tensors) {
    auto it = there.find(name);
    if (it == there.end())
      missing.push_back(name);
    else if (it->second.dtype != tensor.dtype || it->second.shape != tensor.shape)
      return invalid(where + "tensor '" + name + "': expected " + tensor.dtype + " " + shapeText(tensor.shape) +
                     " but got " + it->second.dtype + " " + shapeText(it->second.shape) +
                     "; a checkpoint fits plans of the same model, types and optimizer");
  }
  if (!missing.empty())
    return invalid(where + "expected all of the plan's " + std::to_string(wanted.tensors.size()) +
                   " values but it lacks " + std::to_string(missing.size()) + ": " + firstNames(missing) +
                   "; a checkpoint fits plans of the same model, types and optimizer");
  for (const auto &[name, tensor] : there)
    if (!wanted.tensors.count(name))
      unused.push_back(name);
  if (!unused.empty())
    log << "moe-run: the plan has no use for " << unused.size() << " of the " << there.size() << " tensors of '"
        << checkpoint.path() << "': " << firstNames(unused) << "\n";
  return {};
}

Status readShards(Runner &runner, ShardedCheckpoint &checkpoint, const KeepValue &keep, bool allowNan) {
  std::vector<char> buffer;
  auto readBlock = [&](int64_t rank, int64_t index, const Value &value, const PartBlock &block) {
    const int64_t width = widthOf(value);
    return forEachChunk(block.region.count * width, [&](int64_t begin, int64_t bytes) {
      buffer.resize(static_cast<size_t>(bytes));
      Region wanted = block.region.part(begin / width, bytes / width);
      MOERT_RETURN_IF_ERROR(checkpoint.read(block.tensor, wanted, buffer.data()));
      if (auto found = allowNan ? std::nullopt : findNotFinite(buffer.data(), value.dtype, bytes / width))
        return invalid("'" + value.name + "' of '" + checkpoint.path() + "' holds NaN or Inf at " +
                       wanted.part(*found, 1).text() + "; with --allow-nan such values are taken");
      return checked(
          moert_world_write_range(runner.world.get(), rank, index, block.at * width + begin, buffer.data(), bytes));
    });
  };
  return forEachBlock(runner.programs, runner.groups, runner.ranks, keep, readBlock);
}

} // namespace moert::run
