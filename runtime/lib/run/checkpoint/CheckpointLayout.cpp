//===- CheckpointLayout.cpp - the files of a checkpoint of Hugging Face ---===//

#include "run/checkpoint/CheckpointLayout.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>

namespace fs = std::filesystem;

namespace moert::run {
namespace {

using Json = nlohmann::ordered_json;

int64_t bytesOf(const SafetensorsFile::Entry &entry) {
  int64_t bytes = fileDtypeSize(entry.dtype);
  for (int64_t dim : entry.shape)
    bytes *= dim;
  return bytes;
}

/// Name of a file as transformers counts, "model-00001-of-00003.safetensors".
std::string nameOf(size_t index, size_t count) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return count == 1 ? kOneFileName : name;
}

bool isNumbered(const std::string &name) {
  unsigned index = 0, count = 0;
  return std::sscanf(name.c_str(), "model-%5u-of-%5u.safetensors", &index, &count) == 2 && index > 0 &&
         name == nameOf(index - 1, count);
}

std::string headOf(const CheckpointFile &file) {
  // transformers refuses a file without this format.
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  for (const auto &[name, entry] : file.tensors)
    header[name] = {{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  return moert::run::headOf(header.dump());
}

} // namespace

CheckpointLayout layOutCheckpoint(const std::map<std::string, SafetensorsFile::Entry> &tensors, int64_t fileBytes) {
  CheckpointLayout layout;
  Json weightMap = Json::object();
  int64_t offset = 0, total = 0;
  for (const auto &[name, entry] : tensors) {
    int64_t bytes = bytesOf(entry);
    if (layout.files.empty() || (offset > 0 && bytes > fileBytes - offset)) {
      layout.files.emplace_back();
      offset = 0;
    }
    layout.files.back().tensors.push_back({name, {entry.dtype, entry.shape, offset, offset + bytes}});
    offset += bytes;
    total += bytes;
  }
  for (size_t i = 0; i < layout.files.size(); ++i) {
    CheckpointFile &file = layout.files[i];
    file.path = nameOf(i, layout.files.size());
    file.head = headOf(file);
    for (const auto &[name, entry] : file.tensors)
      weightMap[name] = file.path;
  }
  if (layout.files.size() > 1)
    layout.indexText = Json{{"metadata", {{"total_size", total}}}, {"weight_map", weightMap}}.dump(2) + "\n";
  return layout;
}

std::vector<std::string> checkpointFilesIn(const std::string &folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name == kOneFileName || name == kIndexName || isNumbered(name))
      paths.push_back(it->path().string());
  }
  return paths;
}

} // namespace moert::run
