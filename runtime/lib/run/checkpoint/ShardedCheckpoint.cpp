//===- ShardedCheckpoint.cpp - reading parts of a sharded checkpoint ------===//

#include "run/checkpoint/ShardedCheckpoint.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace fs = std::filesystem;

namespace moert::run {
namespace {

constexpr size_t kMostOpenFiles = 256;

/// Reads many runs of a file by few calls: neighbouring runs are read at once, and the gaps between them are dropped.
class RunReader {
public:
  RunReader(SafetensorsFile &file, int64_t firstByte, char *to) : file(file), firstByte(firstByte), to(to) {}

  /// Adds a run of `bytes` bytes, from byte `from` of the block to byte `at`. `from` rises from call to call.
  void add(int64_t from, int64_t at, int64_t bytes) {
    if (!runs.empty() && (from - end() > kMostGap || from + bytes - runs.front().from > kMostBytes))
      flush();
    runs.push_back({from, at, bytes});
  }

  Status finish() {
    flush();
    return status;
  }

private:
  struct Run {
    int64_t from, at, bytes;
  };
  static constexpr int64_t kMostGap = 64 << 10, kMostBytes = 4 << 20;

  int64_t end() const { return runs.back().from + runs.back().bytes; }

  void flush() {
    if (runs.empty() || !status.ok())
      return runs.clear();
    int64_t begin = runs.front().from;
    if (runs.size() == 1) {
      status = file.readBytes(firstByte + begin, runs[0].bytes, to + runs[0].at);
    } else {
      buffer.resize(static_cast<size_t>(end() - begin));
      status = file.readBytes(firstByte + begin, end() - begin, buffer.data());
      for (const Run &run : runs)
        std::memcpy(to + run.at, buffer.data() + (run.from - begin), static_cast<size_t>(run.bytes));
    }
    runs.clear();
  }

  SafetensorsFile &file;
  int64_t firstByte;
  char *to;
  std::vector<Run> runs;
  std::vector<char> buffer;
  Status status;
};

/// Adds [first, end) to `ranges`, or extends the last one that it continues.
void addRange(std::vector<std::pair<int64_t, int64_t>> &ranges, int64_t first, int64_t end) {
  if (!ranges.empty() && ranges.back().second == first)
    ranges.back().second = end;
  else
    ranges.emplace_back(first, end);
}

/// First element below `count` that no range has, or `count`.
int64_t firstMissing(std::vector<std::pair<int64_t, int64_t>> &ranges, int64_t count) {
  std::sort(ranges.begin(), ranges.end());
  int64_t end = 0;
  for (const auto &[first, last] : ranges)
    if (first <= end)
      end = std::max(end, last);
  return std::min(end, count);
}

} // namespace

Status ShardedCheckpoint::open(const std::string &path) {
  folder = path;
  std::string name = (fs::path(folder) / kShardIndexName).string();
  std::ifstream file(name, std::ios::binary);
  if (!file)
    return invalid("'" + name + "': cannot be opened for reading");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return ShardIndex::parse(name, text, contents);
}

Status ShardedCheckpoint::openBlock(const std::string &tensor, const ShardIndex::Block &block, SafetensorsFile *&file,
                                    int64_t &firstByte) {
  std::string path = (fs::path(folder) / contents.files[static_cast<size_t>(block.file)]).string();
  auto it = opened.find(block.file);
  if (it == opened.end()) {
    if (opened.size() >= kMostOpenFiles)
      opened.clear();
    it = opened.try_emplace(block.file).first;
    if (Status status = it->second.open(path); !status.ok()) {
      opened.erase(it);
      return status;
    }
  }
  file = &it->second;
  std::string name = blockName(tensor, block.region);
  auto entry = file->entries().find(name);
  const std::string &dtype = contents.tensors.at(tensor).dtype;
  if (entry == file->entries().end() || entry->second.dtype != dtype || entry->second.shape != blockShape(block.region))
    return invalid("'" + path + "': expected tensor '" + name + "' of type " + dtype + " and shape " +
                   shapeText(blockShape(block.region)) + ", as '" + kShardIndexName + "' says, but it is not there");
  firstByte = entry->second.begin;
  return {};
}

Status ShardedCheckpoint::readBlock(const std::string &tensor, const ShardIndex::Block &block, const Region &wanted,
                                    char *bytes, std::vector<std::pair<int64_t, int64_t>> &found) {
  int64_t width = fileDtypeSize(contents.tensors.at(tensor).dtype);
  std::optional<RunReader> reader;
  Status status;
  // A file without wanted elements is not opened.
  forEachCommonRun(block.region, wanted, [&](int64_t from, int64_t at, int64_t count) {
    if (!reader && status.ok()) {
      SafetensorsFile *file = nullptr;
      int64_t firstByte = 0;
      status = openBlock(tensor, block, file, firstByte);
      if (status.ok())
        reader.emplace(*file, firstByte, bytes);
    }
    if (reader)
      reader->add(from * width, at * width, count * width);
    addRange(found, at, at + count);
  });
  return status.ok() && reader ? reader->finish() : status;
}

Status ShardedCheckpoint::read(const std::string &tensor, const Region &wanted, char *bytes) {
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const ShardIndex::Block &block : contents.tensors.at(tensor).blocks)
    MOERT_RETURN_IF_ERROR(readBlock(tensor, block, wanted, bytes, found));
  int64_t missing = firstMissing(found, wanted.count);
  if (missing == wanted.count)
    return {};
  return invalid("'" + folder + "': no block of tensor '" + tensor + "' has element " + std::to_string(missing) +
                 " of " + wanted.text());
}

} // namespace moert::run
