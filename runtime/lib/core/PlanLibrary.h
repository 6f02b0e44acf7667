//===- PlanLibrary.h - a loaded plan .so ----------------------------------===//
#ifndef MOERT_CORE_PLANLIBRARY_H
#define MOERT_CORE_PLANLIBRARY_H

#include "core/World.h"

namespace moert {

class PlanLibrary {
public:
  ~PlanLibrary();
  PlanLibrary() = default;
  PlanLibrary(const PlanLibrary &) = delete;
  PlanLibrary &operator=(const PlanLibrary &) = delete;

  /// Loads `path`, parses its metadata, and finds its programs.
  Status open(const std::string &path);

  const char *metadataText = nullptr;
  Metadata metadata;
  RankProgram rankEntry = nullptr;
  RankProgram referenceEntry = nullptr; ///< null where the plan has none

private:
  Status find(const std::string &path, const std::string &symbol, void *&address);

  void *handle = nullptr;
};

} // namespace moert

#endif // MOERT_CORE_PLANLIBRARY_H
