#include "shadow_memory.h"

namespace fusegen_emulator {

template <class Update>
void ShadowMemory::update(const void* begin, std::size_t bytes, Update update) {
    const auto first = reinterpret_cast<std::uintptr_t>(begin);
    const std::uintptr_t end = first + bytes;
    for (std::uintptr_t word = first - first % word_bytes; word < end; word += word_bytes) {
        Cell* cell = find(word);
        if (cell == nullptr) {
            const std::uintptr_t number = word / page_bytes;
            pages_[number] = std::make_unique<Page>();
            cell = find(word);
        }
        update(*cell, bytes_in_word(word, first, end));
    }
}

void ShadowMemory::expose(const void* begin, std::size_t bytes, bool initialised) {
    update(begin, bytes, [=](Cell& cell, std::uint8_t mask) {
        const std::uint8_t others = static_cast<std::uint8_t>(~mask);
        const std::uint8_t known = initialised ? mask : std::uint8_t{0};
        cell = {static_cast<std::uint8_t>(cell.exposed | mask),
                static_cast<std::uint8_t>((cell.initialised & others) | known),
                static_cast<std::uint8_t>(cell.written & others),
                0,
                {}};
    });
}

void ShadowMemory::withdraw(const void* begin, std::size_t bytes) {
    update(begin, bytes, [](Cell& cell, std::uint8_t mask) {
        cell.exposed &= static_cast<std::uint8_t>(~mask);
        cell.initialised &= cell.exposed;
        cell.written &= cell.exposed;
    });
}

void ShadowMemory::withdraw_all() {
    pages_.clear();
    for (Recent& recent : recent_) {
        recent = {};
    }
}

ShadowMemory::Page* ShadowMemory::look_up(std::uintptr_t number) const {
    const auto found = pages_.find(number);
    return found == pages_.end() ? nullptr : found->second.get();
}

}  // namespace fusegen_emulator
