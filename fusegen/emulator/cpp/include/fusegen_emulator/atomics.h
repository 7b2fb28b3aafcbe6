// Atomic operations. Threads take turns and give way only where they synchronise, so a plain
// read-modify-write is atomic; the checker is told of it.
#pragma once

#include <type_traits>

#include "interface.h"

namespace fusegen_emulator {

template <class T>
struct Exactly {
    using type = T;  // keeps the second argument out of deduction: atomicAdd(&float_value, 1)
};

template <class T, class... Allowed>
constexpr bool is_one_of = (std::is_same<T, Allowed>::value || ...);

template <class T>
constexpr bool has_integer_atomics = is_one_of<T, int, unsigned, unsigned long long>;

template <class T, class Update>
FUSEGEN_EMULATOR_UNCHECKED inline T read_modify_write(T* address, Update update) {
    const T old = *address;
    *address = update(old);
    return old;
}

// Inlined, so that the checker is told the kernel's line.
template <class T, class Update>
__forceinline__ T atomic_update(T* address, [[maybe_unused]] bool reads, Update update) {
#ifdef __SANITIZE_THREAD__
    fusegen_emulator_note_atomic(address, sizeof(T), reads);
#endif
    return read_modify_write(address, update);
}

}  // namespace fusegen_emulator

template <class T>
__forceinline__ T atomicAdd(T* address, typename fusegen_emulator::Exactly<T>::type value) {
    static_assert(
        fusegen_emulator::has_integer_atomics<T> || fusegen_emulator::is_one_of<T, float, double>,
        "CUDA has no atomicAdd for this type");
    return fusegen_emulator::atomic_update(address, true, [=](T old) { return old + value; });
}

template <class T>
__forceinline__ T atomicMax(T* address, typename fusegen_emulator::Exactly<T>::type value) {
    static_assert(
        fusegen_emulator::has_integer_atomics<T> || fusegen_emulator::is_one_of<T, long long>,
        "CUDA has no atomicMax for this type");
    return fusegen_emulator::atomic_update(address, true,
                                           [=](T old) { return old < value ? value : old; });
}

template <class T>
__forceinline__ T atomicMin(T* address, typename fusegen_emulator::Exactly<T>::type value) {
    static_assert(
        fusegen_emulator::has_integer_atomics<T> || fusegen_emulator::is_one_of<T, long long>,
        "CUDA has no atomicMin for this type");
    return fusegen_emulator::atomic_update(address, true,
                                           [=](T old) { return value < old ? value : old; });
}

template <class T>
__forceinline__ T atomicExch(T* address, typename fusegen_emulator::Exactly<T>::type value) {
    static_assert(fusegen_emulator::has_integer_atomics<T> || fusegen_emulator::is_one_of<T, float>,
                  "CUDA has no atomicExch for this type");
    return fusegen_emulator::atomic_update(address, false, [=](T) { return value; });
}

template <class T>
__forceinline__ T atomicCAS(T* address, typename fusegen_emulator::Exactly<T>::type compare,
                            typename fusegen_emulator::Exactly<T>::type value) {
    static_assert(
        fusegen_emulator::has_integer_atomics<T> || fusegen_emulator::is_one_of<T, unsigned short>,
        "CUDA has no atomicCAS for this type");
    return fusegen_emulator::atomic_update(address, true,
                                           [=](T old) { return old == compare ? value : old; });
}
