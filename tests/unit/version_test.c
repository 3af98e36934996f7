/* SPDX-License-Identifier: BSD-3-Clause */
/* The version that the module reports is the one that configure and pkg-config name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config.h"
#include "plugin/version.h"

static void version_is_the_packages(void **state)
{
    (void)state;
    assert_string_equal(nigh_version(), PACKAGE_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_is_the_packages),
    };
    return cmocka_run_group_tests_name("version", tests, NULL, NULL);
}
