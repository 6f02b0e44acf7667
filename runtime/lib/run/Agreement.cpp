//===- Agreement.cpp - what all processes of a run must have alike --------===//

#include "run/Agreement.h"
#include "core/Digest.h"
#include "run/checkpoint/CheckpointFolder.h"
#include "run/checkpoint/ShardedCheckpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <vector>

namespace moert::run {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostHeader = int64_t(16) << 20, kPieces = 64, kPieceBytes = 4096;

/// Shortest text that is read as the same number.
std::string valueText(double value) {
  char digits[64];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}
std::string valueText(int64_t value) { return std::to_string(value); }
std::string valueText(bool value) { return value ? "yes" : "no"; }
std::string valueText(const std::string &value) { return value.empty() ? "none" : value; }
std::string isGiven(const std::string &path) { return path.empty() ? "none" : "given"; }

/// Files of a checkpoint, sorted by name, or the file itself.
std::vector<fs::path> filesOf(const fs::path &path) {
  std::error_code error;
  bool isIndex = path.string().ends_with(".safetensors.index.json");
  if (!isIndex && !fs::is_directory(path, error))
    return {path};
  fs::path folder = isIndex ? path.parent_path() : path;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(folder.empty() ? "." : folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"))
      files.push_back(it->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Adds `bytes` bytes of a file, which begin at byte `begin`.
bool addBytes(std::ifstream &file, int64_t begin, int64_t bytes, Sha256 &digest) {
  std::vector<char> buffer(static_cast<size_t>(bytes));
  file.seekg(begin);
  if (!file.read(buffer.data(), bytes))
    return false;
  digest.update(buffer.data(), buffer.size());
  return true;
}

/// Adds the sampled bytes of one file.
bool addFile(const fs::path &path, Sha256 &digest, int64_t &size) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file)
    return false;
  size = file.tellg();
  digest.update(path.extension().string() + " " + std::to_string(size) + "\n");
  uint64_t header = 0;
  file.seekg(0);
  if (size < int64_t(sizeof header) || !file.read(reinterpret_cast<char *>(&header), sizeof header))
    header = 0;
  int64_t head = 0;
  if (path.extension() == ".safetensors")
    head = static_cast<int64_t>(std::min<uint64_t>(header, kMostHeader)) + int64_t(sizeof header);
  else if (path.extension() == ".json")
    head = size;
  file.clear();
  if (!addBytes(file, 0, std::min(size, head), digest))
    return false;
  for (int64_t piece = 0; piece < kPieces; ++piece) {
    int64_t begin = static_cast<int64_t>(static_cast<double>(size) / kPieces * static_cast<double>(piece));
    if (!addBytes(file, begin, std::min(kPieceBytes, size - begin), digest))
      return false;
  }
  return true;
}

std::string sizeAndDigest(int64_t size, const Sha256::Digest &digest) {
  return std::to_string(size) + " bytes, SHA-256 " + hexOf(digest);
}

} // namespace

std::string wholeFileText(const std::string &path) {
  std::error_code error;
  uintmax_t size = fs::file_size(path, error);
  Sha256::Digest digest;
  if (error || !digestOfFile(path, digest).ok())
    return "cannot be read";
  return sizeAndDigest(static_cast<int64_t>(size), digest);
}

std::string sampledText(const std::string &path) {
  Sha256 digest;
  int64_t bytes = 0;
  for (const fs::path &file : filesOf(path)) {
    int64_t size = 0;
    if (!addFile(file, digest, size))
      return "cannot be read";
    bytes += size;
  }
  return sizeAndDigest(bytes, digest.finish());
}

/// Digest of a checkpoint to load or to resume from. For the folder of a training it covers the index alone.
static std::string checkpointText(const std::string &path) {
  std::string folder;
  if (Status status = CheckpointFolder::find(path, folder); !status.ok())
    return status.message;
  return folder.empty() ? sampledText(path) : wholeFileText((fs::path(folder) / kShardIndexName).string());
}

static std::string verifyText(const Options &options) {
  if (options.gradients)
    return "gradients";
  if (!options.verify)
    return "not given";
  return options.wide == MOERT_WIDE_F64 ? "f64" : options.wide == MOERT_WIDE_FIELD ? "exact" : "given";
}

std::string agreementText(const Options &options) {
  const TrainOptions &train = options.train;
  std::string lines;
  auto add = [&](const std::string &name, const auto &value) { lines += name + ": " + valueText(value) + "\n"; };
  add("--reference", options.reference);
  add("--verify", verifyText(options));
  add("--batch", options.batch);
  add("--seq", options.seq);
  add("--iters", options.iters);
  add("--emulate-links", options.emulateLinks);
  add("--seed", std::to_string(options.seed));
  for (const std::string &path : options.loads)
    add("--load '" + fs::path(path).filename().string() + "'", checkpointText(path));
  add("--allow-missing", options.allowMissing);
  add("--allow-nan", options.allowNan);
  add("--routing", options.routing.empty() ? "" : wholeFileText(options.routing));
  add("--record-routing", isGiven(options.recordRouting));
  add("--train", train.enabled);
  if (!train.enabled)
    return lines;
  add("--data", sampledText(train.data));
  add("--data-type", train.dataType);
  add("--steps", train.steps);
  add("--rate", train.rate);
  add("--warmup", train.warmup);
  add("--final-rate", train.finalRate);
  std::error_code error;
  bool resumes = !train.checkpoint.empty() && fs::exists(train.checkpoint, error);
  add("--checkpoint", resumes ? checkpointText(train.checkpoint) : isGiven(train.checkpoint));
  add("--checkpoint-every", train.checkpointEvery);
  add("--save-checkpoint", isGiven(options.saveCheckpoint));
  add("--shard-bytes", options.shardBytes);
  return lines;
}

} // namespace moert::run
