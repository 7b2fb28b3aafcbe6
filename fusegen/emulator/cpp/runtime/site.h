// Places in the kernel's text, as reports show them.
#pragma once

#include "../include/fusegen_emulator/interface.h"

namespace fusegen_emulator {

// Whether two sites are the same operation on the same line.
bool same_site(const Site& a, const Site& b);

// "__syncthreads at softmax.cu:12".
struct SiteText {
    explicit SiteText(const Site& site);
    char text[256];
};

// The part of a path after its last slash.
const char* base_name(const char* path);

}  // namespace fusegen_emulator
