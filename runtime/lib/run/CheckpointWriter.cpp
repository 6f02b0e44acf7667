//===- CheckpointWriter.cpp - parameters back into a checkpoint's layout --===//

#include "run/CheckpointWriter.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace fs = std::filesystem;

namespace moert::run {
namespace {

Status invalid(const std::string &message) {
  return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "--save-checkpoint: " + message);
}

int64_t elementsOf(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

/// What has the most precise values of a parameter: its f32 copy, or itself.
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

/// Of a path that is a folder, a file or an index.
fs::path folderOf(const std::string &path) {
  bool isFile = isOneFile(path) || fs::is_regular_file(path);
  fs::path folder = isFile ? fs::path(path).parent_path() : fs::path(path);
  return folder.empty() ? fs::path(".") : folder;
}

/// A step, or another file of --load, made it another one than the checkpoint's.
bool differs(const Value &value, const Loads &loads) { return value.updated || !loads.isFromCheckpoint(value.name); }

} // namespace

Status CheckpointWriter::addParameter(const Value &value, const Value &kept, Checkpoint *checkpoint) {
  for (const Piece &piece : piecesOf(value)) {
    if (checkpoint)
      if (Status status = checkpoint->check(piece, value.name); !status.ok())
        return status;
    std::string tensor = checkpoint ? checkpoint->nameOf(piece.tensor) : piece.tensor;
    std::vector<Piece> stored = checkpoint ? checkpoint->stored(piece) : std::vector{piece};
    auto [it, isNew] = dtypes.emplace(tensor, value.dtype);
    if (!isNew && (it->second != value.dtype || uses[tensor][0].piece.shape != stored[0].shape))
      return invalid("expected the arguments '" + uses[tensor][0].value->name + "' and '" + value.name +
                     "' to agree on the shape and dtype of tensor '" + tensor + "'");
    for (Piece &part : stored)
      uses[tensor].push_back({std::move(part), &kept});
  }
  return {};
}

/// Of a quantised checkpoint not the layout is kept but the parameters, and it is not written over.
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
    return invalid("expected another folder than that of '" + loaded->path() +
                   "', whose tensors are quantised: the parameters are written dequantised");
  log << "moe-run: '" << loaded->path() << "' is quantised; '" << path
      << "' gets the parameters dequantised, in one file: its config.json must have no 'quantization_config'\n";
  loaded = nullptr;
  return {};
}

Status CheckpointWriter::open(const std::string &path, const std::vector<Value> &arguments, Loads &loads,
                              std::ostream &log) {
  std::vector<Checkpoint *> checkpoints = loads.checkpoints();
  if (checkpoints.size() > 1)
    return invalid("expected one checkpoint to take the layout of but --load names '" + checkpoints[0]->path() +
                   "' and '" + checkpoints[1]->path() + "'");
  loaded = checkpoints.empty() ? nullptr : checkpoints[0];
  if (Status status = leaveQuantised(path, arguments, log); !status.ok())
    return status;
  for (const Value &value : arguments) {
    if (value.role != "parameter")
      continue;
    if (!value.source)
      return invalid("the plan does not say what '" + value.name +
                     "' is in a checkpoint; expected a plan of moe-compile --whole-model");
    const Value &kept = keptIn(value, arguments);
    if (loaded && !loads.checkpointOf(value))
      return invalid("expected tensor '" + loaded->nameOf(piecesOf(value)[0].tensor) + "' of argument '" + value.name +
                     "' in '" + loaded->path() + "', but it is not there");
    if (!loaded || differs(value, loads))
      if (Status status = addParameter(value, kept, loaded); !status.ok())
        return status;
  }
  if (!loaded)
    if (Status status = layOutNew(); !status.ok())
      return status;
  if (Status status = choosePaths(path); !status.ok())
    return status;
  return lockFiles(log);
}

/// One file of all tensors, by name.
Status CheckpointWriter::layOutNew() {
  if (uses.empty())
    return invalid("the plan has no parameters");
  Output &output = outputs.emplace_back();
  // transformers refuses a file that does not say what made it.
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  int64_t offset = 0;
  for (const auto &[name, parts] : uses) {
    int64_t covered = 0;
    for (const Use &use : parts)
      covered += use.piece.elements();
    const std::vector<int64_t> &shape = parts[0].piece.shape;
    if (covered != elementsOf(shape))
      return invalid("expected the plan's parameters to make up tensor '" + name + "' " + shapeText(shape) +
                     " but they have " + std::to_string(covered) + " of its elements");
    std::string dtype = fileDtype(dtypes.at(name));
    int64_t end = offset + covered * fileDtypeSize(dtype);
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {offset, end}}};
    output.tensors.push_back({name, {dtype, shape, offset, end}});
    offset = end;
  }
  output.head = headOf(header.dump());
  return {};
}

/// As the file is.
void CheckpointWriter::layOut(Checkpoint::File &file, const std::string &path) {
  Output &output = outputs.emplace_back();
  output.path = path;
  output.head = file.tensors.head();
  output.original = &file.tensors;
  output.tensors.assign(file.tensors.entries().begin(), file.tensors.entries().end());
  // Empty tensors before the one that begins there.
  std::sort(output.tensors.begin(), output.tensors.end(), [](const auto &a, const auto &b) {
    return std::pair(a.second.begin, a.second.end) < std::pair(b.second.begin, b.second.end);
  });
}

Status CheckpointWriter::choosePaths(const std::string &path) {
  bool isFile = isOneFile(path);
  if (isFile && loaded && !loaded->indexName().empty())
    return invalid("expected a folder for the " + std::to_string(loaded->files().size()) + " files of '" +
                   loaded->path() + "' but got '" + path + "'");
  fs::path folder = folderOf(path);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return invalid("'" + folder.string() + "': cannot be made: " + error.message());
  auto pathOf = [&](const std::string &name) { return isFile ? path : (folder / name).string(); };
  if (!loaded) {
    outputs[0].path = pathOf("model.safetensors");
    return {};
  }
  for (Checkpoint::File &file : loaded->files())
    layOut(file, pathOf(file.name));
  if (!loaded->indexName().empty())
    indexPath = pathOf(loaded->indexName());
  return {};
}

/// From here on the paths are those of files and not of links to them.
Status CheckpointWriter::lockFiles(std::ostream &log) {
  std::vector<std::string *> paths;
  for (Output &output : outputs)
    paths.push_back(&output.path);
  if (!indexPath.empty())
    paths.push_back(&indexPath);
  for (std::string *path : paths) {
    if (Status status = targetOf(*path, *path); !status.ok())
      return status;
    if (Status status = locks.take(*path, log); !status.ok())
      return status;
  }
  return {};
}

Status CheckpointWriter::writeTensor(const Output &output, const std::string &name, const SafetensorsFile::Entry &entry,
                                     std::ostream &file, const ReadValue &read) {
  auto it = uses.find(name);
  // Of a name that two files have, the index says which one is meant.
  bool isUsed = it != uses.end() && (!loaded || loaded->find(name) == &output.original->entries().at(name));
  // What is copied only is one long column.
  int64_t length = isUsed ? it->second[0].piece.length : 1;
  int64_t rowBytes = length * (isUsed ? fileDtypeSize(entry.dtype) : 1);
  int64_t rows = rowBytes ? (entry.end - entry.begin) / rowBytes : 0, step = rowsOfBlock(rowBytes);
  std::vector<char> bytes(static_cast<size_t>(std::min(rows, step) * rowBytes));
  for (int64_t row = 0; row < rows; row += step) {
    RowBlock block{bytes.data(), row, std::min(step, rows - row)};
    if (output.original)
      if (Status status = output.original->readBytes(entry.begin + row * rowBytes, block.count * rowBytes, block.bytes);
          !status.ok())
        return status;
    for (size_t i = 0; isUsed && i < it->second.size(); ++i) {
      const Use &use = it->second[i];
      const Tensor *value = nullptr;
      if (Status status = read(*use.value, value); !status.ok())
        return status;
      writePiece(use.piece, block, entry.dtype, *value);
    }
    file.write(block.bytes, block.count * rowBytes);
  }
  return {};
}

Status CheckpointWriter::writeFile(const Output &output, const ReadValue &read) {
  return writePartial(output.path, [&](OutputFile &file) {
    file << output.head;
    for (const auto &[name, entry] : output.tensors)
      if (Status status = writeTensor(output, name, entry, file, read); !status.ok())
        return status;
    return Status{};
  });
}

Status CheckpointWriter::write(const ReadValue &read) {
  for (const Output &output : outputs)
    if (Status status = writeFile(output, read); !status.ok())
      return status;
  auto writeIndex = [&](OutputFile &file) {
    file << loaded->indexText();
    return Status{};
  };
  if (!indexPath.empty())
    if (Status status = writePartial(indexPath, writeIndex); !status.ok())
      return status;
  for (const Output &output : outputs)
    if (Status status = renamePartial(output.path); !status.ok())
      return status;
  return indexPath.empty() ? Status{} : renamePartial(indexPath);
}

} // namespace moert::run
