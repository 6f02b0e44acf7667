//===- PlanLibrary.h - a loaded plan .so ----------------------------------===//
#ifndef MOERT_CORE_PLANLIBRARY_H
#define MOERT_CORE_PLANLIBRARY_H

#include "core/World.h"

#include <memory>

namespace moert {

/// Entries of the programs of one variant.
struct PlanEntries {
  std::vector<ProgramEntry> ranks;  ///< in the order of Metadata::programs
  ProgramEntry reference = nullptr; ///< null if there is none
};

class PlanLibrary {
public:
  ~PlanLibrary();
  PlanLibrary() = default;
  PlanLibrary(const PlanLibrary &) = delete;
  PlanLibrary &operator=(const PlanLibrary &) = delete;

  /// Loads `path`, parses its metadata, and finds its programs.
  Status open(const std::string &path);

  const char *metadataText = nullptr;
  std::string digest;               ///< SHA-256 of the file, in hexadecimal
  std::vector<Metadata> variants;   ///< one variant for a plan of one shape
  std::vector<PlanEntries> entries; ///< by variant
  /// Returns the variant for batch and sequence, or -1; null in a plan of one shape.
  int64_t (*choose)(int64_t batch, int64_t sequence) = nullptr;

private:
  Status find(const std::string &path, const std::string &symbol, void *&address);
  Status findProgram(const std::string &path, const Program &program, ProgramEntry &entry);

  Status chooseName(const std::string &file, std::string &name);

  void *handle = nullptr;
  std::shared_ptr<void> user; ///< shows that the plan is open
};

} // namespace moert

#endif // MOERT_CORE_PLANLIBRARY_H
