#pragma once
#include "wire/address.h"  // IWYU pragma: export
