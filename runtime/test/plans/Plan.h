/* Shared parts of the hand-written plans of these tests. */
#include "moert/moert.h"

#include <stddef.h>

#define TRY(call)                                                                                                      \
  do {                                                                                                                 \
    int32_t code = (call);                                                                                             \
    if (code != MOERT_OK)                                                                                              \
      return code;                                                                                                     \
  } while (0)

#define ARGUMENT(index, dtype, rank, ...) {MOERT_SPACE_ARGUMENT, dtype, index, rank, {__VA_ARGS__}, 0, 0, 0, 0}
#define DEVICE(offset, dtype, rank, ...) {MOERT_SPACE_DEVICE, dtype, offset, rank, {__VA_ARGS__}, 0, 0, 0, 0}

int32_t moeplan_rank(moert_rank_t rank);
int32_t moeplan_reference(moert_rank_t rank);
