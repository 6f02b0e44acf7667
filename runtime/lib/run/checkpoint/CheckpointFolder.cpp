//===- CheckpointFolder.cpp - the checkpoints of a training, in one folder ===//

#include "run/checkpoint/CheckpointFolder.h"
#include "run/checkpoint/Replace.h"
#include "run/checkpoint/ShardedCheckpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

namespace fs = std::filesystem;

namespace moert::run {
namespace {

constexpr const char *kLatest = "latest", *kPrefix = "step-";

/// Step in a folder's name, or -1.
int64_t stepOf(const std::string &name) {
  int64_t step = -1;
  if (!name.starts_with(kPrefix))
    return -1;
  const char *begin = name.data() + std::string(kPrefix).size(), *end = name.data() + name.size();
  auto [last, error] = std::from_chars(begin, end, step);
  return error == std::errc() && last == end ? step : -1;
}

/// Removes a checkpoint, the index first: the rest must not look like a whole checkpoint after a kill.
std::error_code removeCheckpoint(const std::string &path) {
  std::error_code error;
  fs::remove(fs::path(path) / kShardIndexName, error);
  fs::remove_all(path, error);
  return error;
}

} // namespace

bool CheckpointFolder::isMeant(const std::string &path) {
  std::error_code error;
  return path.ends_with('/') || fs::is_directory(path, error);
}

Status CheckpointFolder::find(const std::string &path, std::string &checkpoint) {
  std::error_code error;
  checkpoint.clear();
  if (fs::exists(fs::path(path) / kShardIndexName, error))
    checkpoint = path;
  if (!checkpoint.empty() || !fs::exists(fs::path(path) / kLatest, error))
    return {};
  CheckpointFolder folder;
  Status status = folder.open(path);
  checkpoint = folder.latest();
  return status;
}

std::string CheckpointFolder::latestFile() const { return (fs::path(folder) / kLatest).string(); }

std::string CheckpointFolder::folderOf(int64_t step) const {
  char name[64];
  std::snprintf(name, sizeof name, "%s%08lld", kPrefix, static_cast<long long>(step));
  return (fs::path(folder) / name).string();
}

std::vector<CheckpointFolder::Entry> CheckpointFolder::list() const {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (int64_t step = stepOf(it->path().filename().string()); step >= 0)
      entries.push_back({step, it->path().string(), fs::exists(it->path() / kShardIndexName)});
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) { return a.step < b.step; });
  return entries;
}

std::string CheckpointFolder::otherText() const {
  std::string names;
  for (const Entry &entry : list())
    if (entry.isWhole && entry.path != current)
      names += (names.empty() ? "'" : ", '") + fs::path(entry.path).filename().string() + "'";
  return names.empty() ? ""
                       : "; to go on from another checkpoint, write its name into '" + latestFile() + "': " + names;
}

Status CheckpointFolder::open(const std::string &path) {
  folder = path;
  while (folder.size() > 1 && folder.ends_with('/'))
    folder.pop_back();
  std::error_code error;
  if (!fs::exists(latestFile(), error)) {
    // If the first save was interrupted, there is nothing to lose.
    std::string others = otherText();
    return others.empty() ? Status{}
                          : invalid("'" + latestFile() + "': expected a file with the name of a checkpoint" + others);
  }
  std::ifstream file(latestFile());
  std::string name;
  std::getline(file, name);
  current = (fs::path(folder) / name).string();
  if (stepOf(name) < 0 || !fs::is_directory(current, error))
    return invalid("'" + latestFile() + "': expected the name of a folder beside it but got '" + name + "'" +
                   otherText());
  return {};
}

Status CheckpointFolder::begin(int64_t step) {
  std::string path = folderOf(step);
  if (path == current)
    return invalid("'" + path + "': expected a later step than that of the latest checkpoint");
  std::error_code error = removeCheckpoint(path);
  if (!error)
    fs::create_directories(path, error);
  return error ? invalid("'" + path + "': cannot be made: " + error.message()) : Status{};
}

void CheckpointFolder::discard(int64_t step) const { removeCheckpoint(folderOf(step)); }

Status CheckpointFolder::commit(int64_t step, int64_t keep, std::ostream &log) {
  std::string path = folderOf(step);
  auto write = [&](OutputFile &file) {
    file << fs::path(path).filename().string() << "\n";
    return Status{};
  };
  // The folders' own entries must be on the disk before the name that leads to them.
  for (const std::string &made : {path, folder})
    MOERT_RETURN_IF_ERROR(syncFolder(made));
  MOERT_RETURN_IF_ERROR(writePartial(latestFile(), write));
  MOERT_RETURN_IF_ERROR(renamePartial(latestFile()));
  MOERT_RETURN_IF_ERROR(syncFolder(folder));
  current = path;
  std::vector<Entry> entries = list();
  int64_t kept = 0;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    // Checkpoints of later steps stay: the user went back from them, and may need them.
    bool isKept = entry->isWhole && (entry->step > step || kept++ < keep);
    if (std::error_code error = isKept ? std::error_code() : removeCheckpoint(entry->path); error)
      log << "moe-run: warning: '" << entry->path << "': cannot be removed: " << error.message() << "\n";
  }
  return {};
}

} // namespace moert::run
