//===- Checkpoint.cpp - safetensors files as models are published in them -===//

#include "run/checkpoint/Checkpoint.h"
#include "run/checkpoint/CheckpointFolder.h"
#include "run/checkpoint/Replace.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace fs = std::filesystem;

namespace moert::run {
namespace {

constexpr int64_t kBlockBytes = 4 << 20;

/// Reads the files of an index by tensor. A file must be in the index's own folder, whoever wrote the index.
Status parseWeightMap(const std::string &path, const std::string &text, std::map<std::string, std::string> &files) {
  auto wrong = [&](const std::string &message) { return invalid("'" + path + "': " + message); };
  auto root = nlohmann::json::parse(text, nullptr, false);
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object())
    return wrong("expected an object of JSON with an object 'weight_map'");
  for (const auto &[tensor, file] : root["weight_map"].items()) {
    if (!file.is_string())
      return wrong("weight_map: tensor '" + tensor + "': expected the name of a file but got " + file.dump());
    std::string name = file.get<std::string>();
    if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string("/\\\0", 3)) != std::string::npos)
      return wrong("weight_map: tensor '" + tensor + "': expected the name of a file in the index's folder but got '" +
                   name + "'");
    files[tensor] = name;
  }
  return files.empty() ? wrong("weight_map: expected at least one tensor but got none") : Status{};
}

} // namespace

std::string firstNames(const std::vector<std::string> &names) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i)
    text += (i ? ", '" : "'") + names[i] + "'";
  return names.size() > kShown ? text + ", .." : text;
}

int64_t rowsOfBlock(int64_t rowBytes) { return std::max<int64_t>(1, kBlockBytes / std::max<int64_t>(1, rowBytes)); }

Status Checkpoint::addPlaces(const std::map<std::string, std::string> &weightMap) {
  for (size_t i = 0; i < shards.size(); ++i)
    for (const auto &[tensor, entry] : shards[i].tensors.entries())
      if (auto it = weightMap.find(tensor); it != weightMap.end() && it->second == shards[i].name)
        places[tensor] = i;
  for (const auto &[tensor, file] : weightMap)
    if (!places.count(tensor))
      return invalid("'" + where + "': expected '" + file + "' to have tensor '" + tensor +
                     "', as the index says, but it does not");
  return {};
}

Status Checkpoint::openIndex(const std::string &folder) {
  std::string path = (fs::path(folder) / index).string();
  if (!fs::is_regular_file(path))
    return invalid("'" + path + "': cannot be opened for reading");
  std::ifstream file(path, std::ios::binary);
  text.assign(std::istreambuf_iterator<char>(file), {});
  std::map<std::string, std::string> weightMap;
  MOERT_RETURN_IF_ERROR(parseWeightMap(path, text, weightMap));
  std::set<std::string> names;
  for (const auto &[tensor, file] : weightMap)
    if (names.insert(file).second && !fs::is_regular_file(fs::path(folder) / file))
      return invalid("'" + path + "': expected the file '" + file + "' of tensor '" + tensor + "' in '" + folder +
                     "', but it is not there");
  for (const std::string &name : names) {
    shards.push_back({name, {}});
    MOERT_RETURN_IF_ERROR(shards.back().tensors.open((fs::path(folder) / name).string()));
  }
  return addPlaces(weightMap);
}

Status Checkpoint::openSharded(const std::string &folder) {
  MOERT_RETURN_IF_ERROR(sharded.emplace().open(folder));
  for (const auto &[name, tensor] : sharded->index().tensors) {
    int64_t bytes = Region::whole(tensor.shape).count * fileDtypeSize(tensor.dtype);
    ofSharded[name] = {tensor.dtype, tensor.shape, 0, bytes};
    places[name] = 0;
  }
  return {};
}

Status Checkpoint::open(const std::string &path) {
  where = path;
  isFolder = fs::is_directory(path);
  std::string folder = isFolder ? path : fs::path(path).parent_path().string(), ofTraining;
  MOERT_RETURN_IF_ERROR(CheckpointFolder::find(path, ofTraining));
  if (!ofTraining.empty())
    return openSharded(ofTraining);
  if (folder.empty())
    folder = ".";
  quantisation = QuantisationConfig::read(folder);
  if (isFolder ? fs::exists(fs::path(path) / kIndexName) : path.ends_with(".index.json")) {
    index = isFolder ? kIndexName : fs::path(path).filename().string();
    return openIndex(folder);
  }
  if (isFolder && !fs::exists(fs::path(path) / kOneFileName) && fs::exists(fs::path(path) / (kIndexName + kPartial)))
    return invalid("'" + path +
                   "': --save-checkpoint was interrupted when all files were written and got their names; "
                   "to end it, take '" +
                   kPartial + "' off the names of the files that have it");
  if (isFolder && !fs::exists(fs::path(path) / kOneFileName))
    return invalid("'" + path + "': expected '" + kIndexName + "' or '" + kOneFileName + "' in the folder");
  shards.push_back({isFolder ? kOneFileName : fs::path(path).filename().string(), {}});
  MOERT_RETURN_IF_ERROR(shards[0].tensors.open(isFolder ? (fs::path(path) / kOneFileName).string() : path));
  for (const auto &[tensor, entry] : shards[0].tensors.entries())
    places[tensor] = 0;
  return {};
}

void Checkpoint::leaveOut(const std::string &prefix, const std::set<std::string> &tensors) {
  auto first = places.lower_bound(prefix);
  if (prefix.empty() || (first != places.end() && first->first.starts_with(prefix)))
    return;
  if (std::any_of(tensors.begin(), tensors.end(),
                  [&](const std::string &tensor) { return has(tensor.substr(prefix.size())); }))
    leftOut = prefix;
}

std::string Checkpoint::nameOf(const std::string &tensor) const {
  return tensor.starts_with(leftOut) ? tensor.substr(leftOut.size()) : tensor;
}

const SafetensorsFile::Entry *Checkpoint::find(const std::string &tensor) const {
  auto it = places.find(nameOf(tensor));
  if (it == places.end())
    return nullptr;
  return sharded ? &ofSharded.at(it->first) : &shards[it->second].tensors.entries().at(it->first);
}

Status Checkpoint::readWhole(const Value &value, Tensor &tensor) {
  if (!sharded)
    return fileOf(value.name).read(value, tensor);
  MOERT_RETURN_IF_ERROR(checkType("'" + where + "'", value, *find(value.name)));
  MOERT_RETURN_IF_ERROR(Tensor::allocate(value, tensor));
  return sharded->read(value.name, Region::whole(value.shape), tensor.as<char>());
}

bool Checkpoint::isQuantised(const std::string &tensor) const {
  return run::isQuantised(tensor, [&](const std::string &name) { return find(name); });
}

Status Checkpoint::describe(const Piece &piece, Quantised &quantised) const {
  return run::describe(
      piece.tensor, piece.shape, [&](const std::string &name) { return find(name); }, quantisation, quantised);
}

bool Checkpoint::isExchanged(const Piece &piece) const {
  const SafetensorsFile::Entry *entry = find(piece.tensor);
  if (!entry || piece.shape.size() != 3 || piece.shape[1] == piece.shape[2])
    return false;
  return entry->shape == std::vector<int64_t>{piece.shape[0], piece.shape[2], piece.shape[1]};
}

std::vector<Piece> Checkpoint::stored(const Piece &piece) const {
  return isExchanged(piece) ? transposed(piece) : std::vector{piece};
}

/// Notes whether the stack of a piece is exchanged or square, and fails if a checkpoint has both. The shape does not
/// tell whether a square stack is exchanged, so it is taken to be stored as the others.
Status Checkpoint::checkSquare(const Piece &piece) {
  if (isExchanged(piece))
    exchanged = nameOf(piece.tensor);
  else if (piece.shape.size() == 3 && piece.shape[1] == piece.shape[2])
    square = nameOf(piece.tensor);
  if (exchanged.empty() || square.empty())
    return {};
  return invalid("'" + where + "': tensor '" + exchanged + "' has rows and columns exchanged, and '" + square +
                 "' is square, so that its layout is unknown: expected all stacks of experts in the published layout");
}

Status Checkpoint::check(const Piece &piece, const std::string &argument) {
  std::string what = "'" + where + "': tensor '" + nameOf(piece.tensor) + "' of argument '" + argument + "': ";
  const SafetensorsFile::Entry *entry = find(piece.tensor);
  if (!has(piece.tensor))
    return invalid(what + "expected this tensor beside the others but it is missing");
  if (isQuantised(piece.tensor)) {
    Quantised quantised;
    if (Status status = describe(piece, quantised); !status.ok())
      return invalid(what + status.message);
  } else if (!isConvertible(entry->dtype)) {
    return invalid(what + "expected F32, F64, BF16 or F16 but got " + entry->dtype);
  }
  if (entry && entry->shape != piece.shape && !isExchanged(piece))
    return invalid(what + "expected " + shapeText(piece.shape) + " but got " + shapeText(entry->shape));
  return checkSquare(piece);
}

Status Checkpoint::readBytes(const std::string &tensor, int64_t first, int64_t count, char *bytes) {
  return fileOf(tensor).readBytes(find(tensor)->begin + first, count, bytes);
}

/// Reads rows of a quantised tensor as f32.
Status Checkpoint::readRows(const Quantised &quantised, const RowBlock &block) {
  int64_t rowBytes = quantised.rowBytes(), scaleBytes = quantised.scaleRowBytes();
  int64_t firstScale = quantised.scaleRow(block.first);
  int64_t scaleRows = quantised.scaleRow(block.first + block.count - 1) - firstScale + 1;
  std::vector<char> codes(static_cast<size_t>(block.count * rowBytes));
  std::vector<char> scales(static_cast<size_t>(scaleRows * scaleBytes));
  MOERT_RETURN_IF_ERROR(readBytes(quantised.codes, block.first * rowBytes, block.count * rowBytes, codes.data()));
  MOERT_RETURN_IF_ERROR(readBytes(quantised.scales, firstScale * scaleBytes, scaleRows * scaleBytes, scales.data()));
  dequantise(quantised, block.first, block.count, codes.data(), scales.data(), reinterpret_cast<float *>(block.bytes));
  return {};
}

Status Checkpoint::read(const Piece &piece, const Tensor &argument) {
  Quantised quantised;
  bool isCoded = isQuantised(piece.tensor);
  if (isCoded)
    MOERT_RETURN_IF_ERROR(describe(piece, quantised));
  std::string dtype = isCoded ? "F32" : find(piece.tensor)->dtype;
  for (const Piece &part : quantised.transposed ? transposed(piece) : stored(piece)) {
    int64_t rowBytes = part.length * fileDtypeSize(dtype), step = rowsOfBlock(rowBytes);
    std::vector<char> bytes(static_cast<size_t>(std::min(step, part.rows) * rowBytes));
    for (int64_t row = 0; row < part.rows; row += step) {
      RowBlock block{bytes.data(), part.rowBegin + row, std::min(step, part.rows - row)};
      Status status = isCoded ? readRows(quantised, block)
                              : readBytes(part.tensor, block.first * rowBytes, block.count * rowBytes, block.bytes);
      if (!status.ok())
        return status;
      readPiece(part, block, dtype, argument);
    }
  }
  return {};
}

Status Loads::checkNames(const Checkpoint &file, const std::vector<Value> &arguments) const {
  auto isUnknown = [&](const auto &place) {
    return std::ranges::find(arguments, place.first, &Value::name) == arguments.end();
  };
  auto unknown = std::ranges::find_if(file.tensors(), isUnknown);
  if (unknown == file.tensors().end())
    return {};
  std::string names, example;
  for (const Value &value : arguments) {
    names += (names.empty() ? "'" : ", '") + value.name + "'";
    if (value.source && example.empty())
      example = "; of a checkpoint it knows tensors such as '" + piecesOf(value)[0].tensor + "'";
  }
  return invalid("'" + file.path() + "': the plan has no argument '" + unknown->first + "'; its arguments are " +
                 names + example);
}

Status Loads::open(const std::vector<std::string> &paths, const std::vector<Value> &arguments) {
  std::set<std::string> ofSources;
  std::map<std::string, std::set<std::string>> byPrefix;
  for (const Value &value : arguments) {
    wanted.insert(value.name);
    if (value.source)
      for (const Piece &piece : piecesOf(value)) {
        ofSources.insert(piece.tensor);
        byPrefix[value.source->prefix].insert(piece.tensor);
      }
  }
  for (const std::string &tensor : ofSources)
    for (const char *suffix : {"", "_scale_inv", "_blocks", "_scales"})
      wanted.insert(tensor + suffix);
  for (const std::string &path : paths) {
    MOERT_RETURN_IF_ERROR(all.emplace_back().open(path));
    for (const auto &[prefix, tensors] : byPrefix)
      all.back().leaveOut(prefix, tensors);
    isCheckpoint.push_back(std::any_of(ofSources.begin(), ofSources.end(),
                                       [&](const std::string &tensor) { return all.back().has(tensor); }));
    if (!isCheckpoint.back())
      MOERT_RETURN_IF_ERROR(checkNames(all.back(), arguments));
  }
  return {};
}

Checkpoint *Loads::checkpointOf(const Value &value) {
  if (!value.source)
    return nullptr;
  // An argument must have all of its tensors: with only some of them, it is an error and not random.
  std::vector<Piece> pieces = piecesOf(value);
  for (Checkpoint &file : all)
    if (std::any_of(pieces.begin(), pieces.end(), [&](const Piece &piece) { return file.has(piece.tensor); }))
      return &file;
  return nullptr;
}

Checkpoint *Loads::fileOf(const std::string &name) {
  auto it = std::find_if(all.begin(), all.end(), [&](const Checkpoint &file) { return file.find(name); });
  return it == all.end() ? nullptr : &*it;
}

Status Loads::read(const Value &value, Tensor &tensor, bool &found) {
  found = true;
  if (Checkpoint *file = fileOf(value.name))
    return file->readWhole(value, tensor);
  Checkpoint *checkpoint = checkpointOf(value);
  found = checkpoint;
  if (!checkpoint)
    return {};
  throughSource.insert(value.name);
  std::vector<Piece> pieces = piecesOf(value);
  for (const Piece &piece : pieces)
    MOERT_RETURN_IF_ERROR(checkpoint->check(piece, value.name));
  MOERT_RETURN_IF_ERROR(Tensor::allocate(value, tensor));
  for (const Piece &piece : pieces)
    MOERT_RETURN_IF_ERROR(checkpoint->read(piece, tensor));
  return {};
}

void Loads::reportUnused(std::ostream &log) const {
  for (size_t i = 0; i < all.size(); ++i) {
    std::set<std::string> used;
    for (const std::string &name : wanted)
      used.insert(all[i].nameOf(name));
    std::vector<std::string> unused;
    for (const auto &[name, place] : all[i].tensors())
      if (!used.count(name))
        unused.push_back(name);
    if (!unused.empty())
      log << "moe-run: the plan has no use for " << unused.size() << " of the " << all[i].tensors().size()
          << " tensors of '" << all[i].path() << "': " << firstNames(unused) << "\n";
  }
}

std::string Loads::paths() const {
  std::string text;
  for (const Checkpoint &file : all)
    text += (text.empty() ? "'" : ", '") + file.path() + "'";
  return text;
}

std::vector<Checkpoint *> Loads::checkpoints() {
  std::vector<Checkpoint *> list;
  for (size_t i = 0; i < all.size(); ++i)
    if (isCheckpoint[i])
      list.push_back(&all[i]);
  return list;
}

const Value *masterOf(const Value &value, const std::vector<Value> &arguments) {
  if (value.role != "state" || !value.name.ends_with(".master"))
    return nullptr;
  for (const Value &parameter : arguments)
    if (parameter.name + ".master" == value.name && parameter.shape == value.shape)
      return &parameter;
  return nullptr;
}

} // namespace moert::run
