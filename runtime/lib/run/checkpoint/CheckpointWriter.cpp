//===- CheckpointWriter.cpp - parameters back into a checkpoint's layout --===//

#include "run/checkpoint/CheckpointWriter.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace moert::run {
namespace {

Status invalidSave(const std::string &message) { return invalid("--save-checkpoint: " + message); }

/// Argument with the most precise values of a parameter: its f32 copy, or itself.
const Value &keptIn(const Value &parameter, const std::vector<Value> &arguments) {
  for (const Value &value : arguments)
    if (masterOf(value, arguments) == &parameter)
      return value;
  return parameter;
}

/// Whether --save-checkpoint=PATH is one file and not a folder.
bool isOneFile(const std::string &path) {
  return fs::path(path).extension() == ".safetensors" && !fs::is_directory(path);
}

/// Folder of a path that is a folder, a file or an index.
fs::path folderOf(const std::string &path) {
  bool isFile = isOneFile(path) || fs::is_regular_file(path);
  fs::path folder = isFile ? fs::path(path).parent_path() : fs::path(path);
  return folder.empty() ? fs::path(".") : folder;
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

/// Paths of the files in a folder that transformers takes for parts of a checkpoint or its index.
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

/// Whether the value is not the checkpoint's, because a step changed it or another file of --load has it.
bool differs(const Value &value, const Loads &loads) { return value.updated || !loads.isFromCheckpoint(value.name); }

} // namespace

std::vector<CheckpointFile> layOutCheckpoint(const std::map<std::string, SafetensorsFile::Entry> &tensors,
                                             int64_t fileBytes, std::string &indexText) {
  std::vector<CheckpointFile> files;
  int64_t offset = 0, total = 0;
  for (const auto &[name, entry] : tensors) {
    int64_t bytes = fileDtypeSize(entry.dtype) * Region::whole(entry.shape).count;
    if (files.empty() || (offset > 0 && bytes > fileBytes - offset)) {
      files.emplace_back();
      offset = 0;
    }
    files.back().tensors.push_back({name, {entry.dtype, entry.shape, offset, offset + bytes}});
    offset += bytes;
    total += bytes;
  }
  Json weightMap = Json::object();
  for (size_t i = 0; i < files.size(); ++i) {
    CheckpointFile &file = files[i];
    file.path = nameOf(i, files.size());
    // transformers refuses a file without this format.
    Json header = {{"__metadata__", {{"format", "pt"}}}};
    for (const auto &[name, entry] : file.tensors) {
      header[name] = {{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
      weightMap[name] = file.path;
    }
    file.head = headOf(header.dump());
  }
  if (files.size() > 1)
    indexText = Json{{"metadata", {{"total_size", total}}}, {"weight_map", weightMap}}.dump(2) + "\n";
  return files;
}

Status CheckpointWriter::addParameter(const Value &value, const Value &kept, Checkpoint *checkpoint) {
  for (const Piece &piece : piecesOf(value)) {
    if (checkpoint)
      MOERT_RETURN_IF_ERROR(checkpoint->check(piece, value.name));
    std::string tensor = checkpoint ? checkpoint->nameOf(piece.tensor) : piece.tensor;
    std::vector<Piece> stored = checkpoint ? checkpoint->stored(piece) : std::vector{piece};
    auto [it, isNew] = dtypes.emplace(tensor, value.dtype);
    if (!isNew && (it->second != value.dtype || uses[tensor][0].piece.shape != stored[0].shape))
      return invalidSave("expected the arguments '" + uses[tensor][0].value->name + "' and '" + value.name +
                         "' to agree on the shape and dtype of tensor '" + tensor + "'");
    for (Piece &part : stored)
      uses[tensor].push_back({std::move(part), &kept});
  }
  return {};
}

/// Writes a new layout in place of that of a quantised checkpoint, whose files must stay.
Status CheckpointWriter::leaveQuantised(const std::string &path, const std::vector<Value> &arguments,
                                        std::ostream &log) {
  auto isQuantised = [&](const Value &value) {
    std::vector<Piece> pieces = value.source ? piecesOf(value) : std::vector<Piece>();
    return std::any_of(pieces.begin(), pieces.end(),
                       [&](const Piece &piece) { return loaded->isQuantised(piece.tensor); });
  };
  if (!loaded || std::none_of(arguments.begin(), arguments.end(), isQuantised))
    return {};
  std::error_code error;
  if (fs::equivalent(folderOf(path), folderOf(loaded->path()), error))
    return invalidSave("expected another folder than that of '" + loaded->path() +
                       "', whose tensors are quantised: the parameters are written dequantised");
  log << "moe-run: '" << loaded->path() << "' is quantised; '" << path
      << "' gets the parameters dequantised: its config.json must have no 'quantization_config'\n";
  loaded = nullptr;
  return {};
}

Status CheckpointWriter::open(const std::string &path, const std::vector<Value> &arguments, Loads &loads,
                              std::ostream &log, const WriterOptions &given) {
  options = given;
  std::vector<Checkpoint *> checkpoints = loads.checkpoints();
  if (checkpoints.size() > 1)
    return invalidSave("expected one checkpoint to take the layout of but --load names '" + checkpoints[0]->path() +
                       "' and '" + checkpoints[1]->path() + "'");
  loaded = checkpoints.empty() ? nullptr : checkpoints[0];
  MOERT_RETURN_IF_ERROR(leaveQuantised(path, arguments, log));
  for (const Value &value : arguments) {
    if (value.role != "parameter")
      continue;
    if (!value.source)
      return invalidSave("the plan does not say what '" + value.name +
                         "' is in a checkpoint; expected a plan of moe-compile --whole-model");
    const Value &kept = keptIn(value, arguments);
    if (loaded && !loads.checkpointOf(value))
      return invalidSave("expected tensor '" + loaded->nameOf(piecesOf(value)[0].tensor) + "' of argument '" +
                         value.name + "' in '" + loaded->path() + "', but it is not there");
    if (!loaded || differs(value, loads))
      MOERT_RETURN_IF_ERROR(addParameter(value, kept, loaded));
  }
  if (!loaded)
    MOERT_RETURN_IF_ERROR(layOutNew(isOneFile(path) ? INT64_MAX : options.fileBytes));
  MOERT_RETURN_IF_ERROR(choosePaths(path));
  reportLarge(log);
  return lockFiles(log);
}

/// Warns of files that are larger than --shard-bytes.
void CheckpointWriter::reportLarge(std::ostream &log) const {
  for (const CheckpointFile &output : outputs) {
    int64_t bytes = output.tensors.empty() ? 0 : output.tensors.back().second.end;
    if (bytes <= options.fileBytes || output.tensors.size() == 1)
      continue;
    log << "moe-run: '" << output.path << "' gets " << bytes << " bytes, more than --shard-bytes: "
        << (loaded ? "files stay as those of --load are" : "PATH names one file and no folder") << "\n";
    return;
  }
}

Status CheckpointWriter::layOutNew(int64_t fileBytes) {
  if (uses.empty())
    return invalidSave("the plan has no parameters");
  std::map<std::string, SafetensorsFile::Entry> tensors;
  for (const auto &[name, parts] : uses) {
    int64_t covered = 0;
    for (const Use &use : parts)
      covered += use.piece.elements();
    const std::vector<int64_t> &shape = parts[0].piece.shape;
    if (covered != Region::whole(shape).count)
      return invalidSave("expected the plan's parameters to make up tensor '" + name + "' " + shapeText(shape) +
                         " but they have " + std::to_string(covered) + " of its elements");
    tensors[name] = {fileDtype(dtypes.at(name)), shape};
  }
  outputs = layOutCheckpoint(tensors, fileBytes, indexText);
  return {};
}

/// Takes over the layout of the file.
void CheckpointWriter::layOut(Checkpoint::File &file, const std::string &path) {
  CheckpointFile &output = outputs.emplace_back();
  output.path = path;
  output.head = file.tensors.head();
  output.original = &file.tensors;
  output.tensors.assign(file.tensors.entries().begin(), file.tensors.entries().end());
  // Sorts empty tensors before the one that begins at the same place.
  std::sort(output.tensors.begin(), output.tensors.end(), [](const auto &a, const auto &b) {
    return std::pair(a.second.begin, a.second.end) < std::pair(b.second.begin, b.second.end);
  });
}

Status CheckpointWriter::choosePaths(const std::string &path) {
  bool isFile = isOneFile(path);
  if (isFile && loaded && !loaded->indexName().empty())
    return invalidSave("expected a folder for the " + std::to_string(loaded->files().size()) + " files of '" +
                       loaded->path() + "' but got '" + path + "'");
  fs::path folder = folderOf(path);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return invalidSave("'" + folder.string() + "': cannot be made: " + error.message());
  auto pathOf = [&](const std::string &name) { return isFile ? path : (folder / name).string(); };
  if (!isFile)
    oldFolder = folder.string();
  if (loaded)
    for (Checkpoint::File &file : loaded->files())
      layOut(file, pathOf(file.name));
  else
    for (CheckpointFile &output : outputs)
      output.path = pathOf(output.path);
  if (loaded)
    indexText = loaded->indexText();
  if (!indexText.empty())
    indexPath = pathOf(loaded ? loaded->indexName() : kIndexName);
  return {};
}

/// Locks the files, and replaces paths of links by those of their targets.
Status CheckpointWriter::lockFiles(std::ostream &log) {
  std::vector<std::string *> paths;
  for (CheckpointFile &output : outputs)
    paths.push_back(&output.path);
  if (!indexPath.empty())
    paths.push_back(&indexPath);
  for (std::string *path : paths) {
    MOERT_RETURN_IF_ERROR(targetOf(*path, *path));
    MOERT_RETURN_IF_ERROR(options.process == 0 ? locks.take(*path, log) : Status{});
  }
  return {};
}

Status CheckpointWriter::writeTensor(const CheckpointFile &output, const std::string &name,
                                     const SafetensorsFile::Entry &entry, std::ostream &file, const ReadValue &read) {
  auto it = uses.find(name);
  // If two files have the name, the index selects one.
  bool isUsed = it != uses.end() && (!loaded || loaded->find(name) == &output.original->entries().at(name));
  // A tensor that is only copied is one long column.
  int64_t length = isUsed ? it->second[0].piece.length : 1;
  int64_t rowBytes = length * (isUsed ? fileDtypeSize(entry.dtype) : 1);
  int64_t rows = rowBytes ? (entry.end - entry.begin) / rowBytes : 0, step = rowsOfBlock(rowBytes);
  std::vector<char> bytes(static_cast<size_t>(std::min(rows, step) * rowBytes));
  // The values of each use, kept as long as its rows are written.
  std::vector<std::vector<char>> values(isUsed ? it->second.size() : 0);
  for (int64_t row = 0; row < rows; row += step) {
    RowBlock block{bytes.data(), row, std::min(step, rows - row)};
    if (output.original)
      MOERT_RETURN_IF_ERROR(
          output.original->readBytes(entry.begin + row * rowBytes, block.count * rowBytes, block.bytes));
    for (size_t i = 0; i < values.size(); ++i)
      MOERT_RETURN_IF_ERROR(put(it->second[i], block, entry.dtype, read, values[i]));
    file.write(block.bytes, block.count * rowBytes);
  }
  return {};
}

/// Puts the values of the use into the rows. `values` are those of its piece: read for its first row, freed after its
/// last.
Status CheckpointWriter::put(const Use &use, const RowBlock &block, const std::string &dtype, const ReadValue &read,
                             std::vector<char> &values) const {
  const Piece &piece = use.piece;
  if (!piece.meets(block)) {
    std::vector<char>().swap(values);
    return {};
  }
  if (values.empty()) {
    values.resize(static_cast<size_t>(piece.span()) * dtypeSize(use.value->dtype));
    MOERT_RETURN_IF_ERROR(read(*use.value, piece.first(), piece.span(), values.data()));
  }
  writePiece(piece, block, dtype, use.value->dtype, values.data());
  return {};
}

Status CheckpointWriter::writeFiles(const ReadValue &read) {
  for (auto i = static_cast<size_t>(options.process); i < outputs.size(); i += static_cast<size_t>(options.processes))
    MOERT_RETURN_IF_ERROR(writePartial(outputs[i].path, [&](OutputFile &file) {
      file << outputs[i].head;
      for (const auto &[name, entry] : outputs[i].tensors)
        MOERT_RETURN_IF_ERROR(writeTensor(outputs[i], name, entry, file, read));
      return Status{};
    }));
  return {};
}

/// Removes a folder's files of another layout, because transformers would take one of them for the model.
Status CheckpointWriter::removeOld(std::ostream &log) const {
  std::error_code error;
  // A link to a written file is the same file.
  auto isWritten = [&](const std::string &path) {
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](const CheckpointFile &output) { return fs::equivalent(path, output.path, error); }) ||
           (!indexPath.empty() && fs::equivalent(path, indexPath, error));
  };
  for (const std::string &path : oldFolder.empty() ? std::vector<std::string>() : checkpointFilesIn(oldFolder)) {
    if (isWritten(path))
      continue;
    if (!fs::remove(path, error) || error)
      return invalidSave("'" + path + "', which is of another checkpoint, cannot be removed: " + error.message());
    log << "moe-run: removed '" << path << "', which is not of the checkpoint that was written\n";
  }
  return {};
}

Status CheckpointWriter::giveNames(std::ostream &log) {
  auto writeIndex = [&](OutputFile &file) {
    file << indexText;
    return Status{};
  };
  if (!indexPath.empty()) {
    MOERT_RETURN_IF_ERROR(writePartial(indexPath, writeIndex));
    // Meanwhile there is no index: a folder of old and new files must not look whole.
    if (std::remove(indexPath.c_str()) != 0 && errno != ENOENT)
      return invalidSave("'" + indexPath + "': cannot be removed: " + std::strerror(errno));
  }
  for (const CheckpointFile &output : outputs)
    MOERT_RETURN_IF_ERROR(renamePartial(output.path));
  if (!indexPath.empty())
    MOERT_RETURN_IF_ERROR(renamePartial(indexPath));
  return removeOld(log);
}

Status CheckpointWriter::write(const ReadValue &read, std::ostream &log) {
  Status status = writeFiles(read);
  return status.ok() ? giveNames(log) : status;
}

} // namespace moert::run
