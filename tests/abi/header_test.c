/* SPDX-License-Identifier: Apache-2.0
 * The public header compiles alone as C99. */
#include "echelon/echelon.h"

int main(void) { return ech_status_name(ECH_OK) == NULL; }
