#include "site.h"

#include <cstdio>
#include <cstring>

namespace fusegen_emulator {

namespace {

const char* cuda_name(Operation operation) {
    switch (operation) {
        case Operation::sync_threads:
            return "__syncthreads";
        case Operation::sync_warp:
            return "__syncwarp";
        case Operation::shuffle:
            return "a shuffle";
        case Operation::vote:
            return "a vote";
        case Operation::elect_one:
            return "elect_one";
        case Operation::set_registers:
            return "setmaxnreg";
        case Operation::named_barrier:
            return "a named barrier";
        case Operation::cluster_sync:
            return "cluster_sync";
        case Operation::cluster_shared:
            return "cluster_shared";
        case Operation::cluster_send:
            return "cluster_send";
        case Operation::mbarrier_init:
            return "mbarrier_init";
        case Operation::mbarrier_arrive:
            return "mbarrier_arrive";
        case Operation::mbarrier_wait:
            return "mbarrier_wait";
        case Operation::tma_load:
            return "tma_load";
        case Operation::tma_store:
            return "tma_store";
        case Operation::wgmma:
            return "wgmma";
        case Operation::cp_async:
            return "cp_async";
        case Operation::ldmatrix:
            return "ldmatrix";
        case Operation::stmatrix:
            return "stmatrix";
        case Operation::mma:
            return "mma";
    }
    return "?";
}

}  // namespace

bool same_site(const Site& a, const Site& b) {
    return a.line == b.line && a.operation == b.operation &&
           (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

const char* base_name(const char* path) {
    const char* slash = std::strrchr(path, '/');
    return slash == nullptr ? path : slash + 1;
}

SiteText::SiteText(const Site& site) {
    std::snprintf(text, sizeof text, "%s at %s:%u", cuda_name(site.operation), base_name(site.file),
                  site.line);
}

}  // namespace fusegen_emulator
