//===- Quantised.h - weights of a few bits and their scales ---------------===//
//
// Published checkpoints have weights as codes of 4 or 8 bits and a scale for each block of them. They are read as f32:
// value = number of the code x scale of its block, rounded once.
//
// - Block-scaled fp8 (DeepSeek-V3, Kimi-K2, GLM, MiniMax): 'T' of F8_E4M3 or F8_E5M2 [.., R, C], and 'T_scale_inv'
//   [.., r, c] for blocks of the sizes in config.json, or one scale for all. The last blocks may be smaller.
// - MXFP4 (gpt-oss): 'T_blocks' of U8 [E, C, R / 32, 16], low four bits first, and 'T_scales' [E, C, R / 32], powers of
//   two, for 'T' [E, R, C].
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_RUN_CHECKPOINT_QUANTISED_H
#define MOERT_RUN_CHECKPOINT_QUANTISED_H

#include "run/checkpoint/Safetensors.h"

#include <functional>

namespace moert::run {

/// Quantised tensor as rows of codes. Row i has the scales of row scaleRow(i).
struct Quantised {
  std::string codes, scales;       ///< names of the tensors of codes and scales
  std::string codeType, scaleType; ///< "F8_E4M3", "F8_E5M2" or "F4_E2M1", and the file's name of the scales' type
  bool transposed = false;         ///< whether the rows are columns of the original tensor
  int64_t length = 1;              ///< number of values in a row
  int64_t matrixRows = 1, matrixScaleRows = 1; ///< rows of each matrix of a stack
  int64_t blockRows = 1, blockColumns = 1;
  int64_t scaleColumns = 1;

  int64_t rowBytes() const { return codeType == "F4_E2M1" ? length / 2 : length; }
  int64_t scaleRowBytes() const { return scaleColumns * fileDtypeSize(scaleType); }
  int64_t scaleRow(int64_t row) const { return row / matrixRows * matrixScaleRows + row % matrixRows / blockRows; }
};

/// Contents of `quantization_config` in a model's config.json.
struct QuantisationConfig {
  std::string method;                      ///< empty: nothing
  int64_t blockRows = 0, blockColumns = 0; ///< 0: nothing

  /// Reads config.json. The result is empty if the folder has none, or if it has no such entry.
  static QuantisationConfig read(const std::string &folder);
};

/// Finds a tensor; null if there is none.
using FindTensor = std::function<const SafetensorsFile::Entry *(const std::string &)>;

/// Whether tensor `name` is there as codes, of a known kind or any other.
bool isQuantised(const std::string &name, const FindTensor &find);
/// Describes quantised tensor `name` of shape `shape`. An error tells what is wrong with the tensors, or which other
/// kind of quantisation they have.
Status describe(const std::string &name, const std::vector<int64_t> &shape, const FindTensor &find,
                const QuantisationConfig &config, Quantised &quantised);

/// Computes the values of `count` rows, which begin at row `first`. `codes` are theirs, and `scales` begin at row
/// scaleRow(first).
void dequantise(const Quantised &quantised, int64_t first, int64_t count, const char *codes, const char *scales,
                float *values);

} // namespace moert::run

#endif // MOERT_RUN_CHECKPOINT_QUANTISED_H
