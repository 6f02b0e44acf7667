//===- ShardedState.cpp - the ranks' values in a sharded checkpoint -------===//

#include "run/checkpoint/ShardedState.h"
#include "core/OutputFile.h"
#include "run/checkpoint/Checkpoint.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace fs = std::filesystem;

namespace moert::run {
namespace {

/// Most bytes of a value that are in memory.
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

/// Calls visit(rank, index of the argument, block of the rank's part, bytes of an element) for each block that the
/// ranks of this process hold.
template <class Visit> Status forEachOwnBlock(Runner &runner, const KeepValue &keep, Visit visit) {
  for (int64_t rank : runner.ranks) {
    const Program &program = runner.programs[programIndex(runner.programs, rank)];
    for (size_t i = 0; i < program.arguments.size(); ++i) {
      const Value &value = program.arguments[i];
      for (const PartBlock &block : keep(value) ? blocksOfPart(value, runner.groups, rank) : std::vector<PartBlock>())
        MOERT_RETURN_IF_ERROR(
            visit(rank, static_cast<int64_t>(i), block, static_cast<int64_t>(dtypeSize(value.dtype))));
    }
  }
  return {};
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

Status readShards(Runner &runner, ShardedCheckpoint &checkpoint, const KeepValue &keep) {
  std::vector<char> buffer;
  return forEachOwnBlock(runner, keep, [&](int64_t rank, int64_t index, const PartBlock &block, int64_t width) {
    return forEachChunk(block.region.count * width, [&](int64_t begin, int64_t bytes) {
      buffer.resize(static_cast<size_t>(bytes));
      Region wanted = block.region.part(begin / width, bytes / width);
      MOERT_RETURN_IF_ERROR(checkpoint.read(block.tensor, wanted, buffer.data()));
      return checked(
          moert_world_write_range(runner.world.get(), rank, index, block.at * width + begin, buffer.data(), bytes));
    });
  });
}

} // namespace moert::run
