/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/table.cc - see table.hpp. */
#include "table.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace nigh_torch
{

static std::string plugin_path()
{
    static const char here = 0;
    const char *chosen = std::getenv("NIGH_PLUGIN");
    Dl_info self;

    if (chosen && *chosen)
        return chosen;
    if (!dladdr(&here, &self) || !self.dli_fname)
        return "nigh.so";
    std::string folder(self.dli_fname);
    return folder.substr(0, folder.rfind('/') + 1) + "nigh.so";
}

const struct nigh_ops *load_table()
{
    std::string path = plugin_path();
    void *object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);

    if (!object)
        throw std::runtime_error(
            std::string("nigh: cannot load the plugin: ") + dlerror() +
            "; install nigh_torch again, or set NIGH_PLUGIN to a nigh.so of its release");
    auto entry = reinterpret_cast<nigh_transport_fn>(dlsym(object, NIGH_SYMBOL));
    const struct nigh_ops *table = entry ? entry(NIGH_ABI) : nullptr;
    /* The last slot that is used, so all are there. */
    if (!table || !NIGH_HAS(table, group_end))
        throw std::runtime_error("nigh: " + path +
                                 " is of another release than nigh_torch: unset NIGH_PLUGIN, or "
                                 "install nigh_torch again");
    return table;
}

} // namespace nigh_torch
