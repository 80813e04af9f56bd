// Whether this build has a sanitizer with its own allocator and shadow memory.
#ifndef TESTS_SANITIZER_H
#define TESTS_SANITIZER_H

#if defined __has_feature
#define HAS_SANITIZER (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define HAS_SANITIZER 1
#else
#define HAS_SANITIZER 0
#endif

#endif
