//===- CheckpointLayout.h - the files of a checkpoint of Hugging Face -----===//
#ifndef MOERT_RUN_CHECKPOINT_CHECKPOINTLAYOUT_H
#define MOERT_RUN_CHECKPOINT_CHECKPOINTLAYOUT_H

#include "run/checkpoint/Safetensors.h"

namespace moert::run {

/// Names of a folder's checkpoint: one file, or the index of several.
constexpr const char *kOneFileName = "model.safetensors", *kIndexName = "model.safetensors.index.json";

/// File to write.
struct CheckpointFile {
  std::string path; ///< path, or the name in a folder that is not known yet
  std::string head; ///< bytes before the data
  std::vector<std::pair<std::string, SafetensorsFile::Entry>> tensors; ///< ordered by their bytes
  SafetensorsFile *original = nullptr;                                 ///< file that it takes bytes from, or null
};

struct CheckpointLayout {
  std::vector<CheckpointFile> files;
  std::string indexText; ///< empty if there is one file
};

/// Lays out a new checkpoint of tensors whose dtype and shape are given. Files have at most `fileBytes` bytes of data,
/// in the order of names; a larger tensor has a file of its own. Names and index are those of transformers.
CheckpointLayout layOutCheckpoint(const std::map<std::string, SafetensorsFile::Entry> &tensors, int64_t fileBytes);

/// Paths of the files in a folder that transformers takes for parts of a checkpoint or its index.
std::vector<std::string> checkpointFilesIn(const std::string &folder);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_CHECKPOINTLAYOUT_H
