#include "loaded_code.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "../runtime/site.h"

namespace fusegen_emulator {

namespace {

// One line of addr2line's answer, "path/kernel.cu:12 (discriminator 2)", as "kernel.cu:12".
struct Frame {
    char text[200] = "";

    bool read(FILE* answer) {
        char line[4096];
        if (std::fgets(line, sizeof line, answer) == nullptr) {
            return false;
        }
        line[std::strcspn(line, " \n")] = '\0';
        if (std::strchr(line, '?') == nullptr) {
            std::snprintf(text, sizeof text, "%s", base_name(line));
        }
        return true;
    }

    bool known() const { return text[0] != '\0'; }
    bool in_kernel() const { return std::strstr(text, ".cu:") != nullptr; }
};

}  // namespace

std::uintptr_t base_of(const void* address) {
    Dl_info info;
    return dladdr(address, &info) != 0 ? reinterpret_cast<std::uintptr_t>(info.dli_fbase) : 0;
}

CodeLine::CodeLine(std::uintptr_t address) {
    std::snprintf(text, sizeof text, "an unknown line");
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(address), &info) == 0 || info.dli_fname == nullptr) {
        return;
    }
    if (info.dli_sname != nullptr) {
        std::snprintf(text, sizeof text, "an unknown line of %s", info.dli_sname);
    }
    if (std::strchr(info.dli_fname, '\'') != nullptr) {
        return;  // cannot be quoted simply for the shell
    }
    char command[4200];
    std::snprintf(
        command, sizeof command, "addr2line -i -e '%s' 0x%zx 2>/dev/null", info.dli_fname,
        static_cast<std::size_t>(address - reinterpret_cast<std::uintptr_t>(info.dli_fbase)));
    FILE* answer = popen(command, "r");
    if (answer == nullptr) {
        return;
    }
    Frame innermost, frame;
    if (frame.read(answer) && frame.known()) {
        innermost = frame;
        while (!frame.in_kernel() && frame.read(answer)) {
        }
        if (frame.in_kernel() && !innermost.in_kernel()) {
            std::snprintf(text, sizeof text, "%s (in %s)", frame.text, innermost.text);
        } else {
            std::snprintf(text, sizeof text, "%s", innermost.text);
        }
    }
    pclose(answer);
}

bool LoadedData::is_known(std::uintptr_t address) const {
    return std::any_of(segments_.begin(), segments_.end(), [=](const Segment& segment) {
        return segment.begin <= address && address < segment.end;
    });
}

bool LoadedData::contains(const void* address) {
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    if (is_known(wanted)) {
        return true;
    }
    segments_.clear();  // a library may have been loaded since
    dl_iterate_phdr(
        [](dl_phdr_info* file, std::size_t, void* segments) {
            for (int i = 0; i < file->dlpi_phnum; ++i) {
                const auto& header = file->dlpi_phdr[i];
                if (header.p_type == PT_LOAD) {
                    const std::uintptr_t begin = file->dlpi_addr + header.p_vaddr;
                    static_cast<std::vector<Segment>*>(segments)->push_back(
                        {begin, begin + header.p_memsz});
                }
            }
            return 0;
        },
        &segments_);
    return is_known(wanted);
}

}  // namespace fusegen_emulator
