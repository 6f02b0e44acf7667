//===- CheckpointLayout.h - the files of a checkpoint of Hugging Face -----===//
#ifndef MOERT_RUN_CHECKPOINT_CHECKPOINTLAYOUT_H
#define MOERT_RUN_CHECKPOINT_CHECKPOINTLAYOUT_H

#include "run/checkpoint/Safetensors.h"

namespace moert::run {

/// What a folder's checkpoint is called: one file, or the index of several.
constexpr const char *kOneFileName = "model.safetensors", *kIndexName = "model.safetensors.index.json";

/// A file to write.
struct CheckpointFile {
  std::string path; ///< or its name in a folder that is not known yet
  std::string head; ///< what comes before the data
  std::vector<std::pair<std::string, SafetensorsFile::Entry>> tensors; ///< in the order of their bytes
  SafetensorsFile *original = nullptr;                                 ///< whose bytes it takes over, or null
};

struct CheckpointLayout {
  std::vector<CheckpointFile> files;
  std::string indexText; ///< empty where there is one file
};

/// A new checkpoint of tensors, of which dtype and shape are given: files of at most `fileBytes` bytes of data in the
/// order of names, where a larger tensor has a file of its own. Names and index are those of transformers.
CheckpointLayout layOutCheckpoint(const std::map<std::string, SafetensorsFile::Entry> &tensors, int64_t fileBytes);

/// The files in a folder that transformers takes for parts of a checkpoint, and its index; paths.
std::vector<std::string> checkpointFilesIn(const std::string &folder);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_CHECKPOINTLAYOUT_H
