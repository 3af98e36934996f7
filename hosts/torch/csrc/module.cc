/* SPDX-License-Identifier: BSD-3-Clause */
/* csrc/module.cc - what Python sees of the adapter. */
#include "group.hpp"

#include <ATen/Parallel.h>
#include <torch/csrc/utils/pybind.h>

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#ifndef NIGH_TORCH_MODULE
#define NIGH_TORCH_MODULE TORCH_EXTENSION_NAME
#endif

namespace nigh_torch
{

namespace py = pybind11;

/* Files of torch itself are between the program and us. */
static bool is_torch(const char *file)
{
    return std::strstr(file, "/torch/distributed/") || std::strstr(file, "/torch/_") ||
           std::strstr(file, "/contextlib.py");
}

static std::string python_site()
{
    if (!Py_IsInitialized())
        return "";
    py::gil_scoped_acquire gil;
    std::string out;
    PyFrameObject *frame = PyEval_GetFrame();

    Py_XINCREF(reinterpret_cast<PyObject *>(frame));
    while (frame && out.empty()) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        const char *file = PyUnicode_AsUTF8(code->co_filename);

        if (file && !is_torch(file))
            out = std::string(file) + ":" + std::to_string(PyFrame_GetLineNumber(frame));
        Py_DECREF(reinterpret_cast<PyObject *>(code));
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(reinterpret_cast<PyObject *>(frame));
        frame = back;
    }
    Py_XDECREF(reinterpret_cast<PyObject *>(frame));
    return out;
}

/* In a thread of Python that waits: Ctrl-C ends the wait. The operation stays under way. */
static void run_signal_handlers()
{
    if (!Py_IsInitialized())
        return;
    py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals())
        throw py::error_already_set();
}

/* Threads that only compute for torch have no state of Python. */
static bool is_alone()
{
    py::gil_scoped_acquire gil;
    int count = 0;

    for (PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get()); thread;
         thread = PyThreadState_Next(thread))
        count++;
    return count <= 1;
}

static std::vector<Path> paths(const c10::intrusive_ptr<c10d::Backend> &backend)
{
    auto *group = dynamic_cast<Group *>(backend.get());

    if (!group)
        raise("nigh_torch.paths: the group's backend for the CPU is not nigh");
    return group->paths();
}

/* torch's threads spin for their next work, in each rank: a rank that spins as well takes a CPU from them. */
static bool outnumber_cpus(int ranks)
{
    const char *local = std::getenv("LOCAL_WORLD_SIZE");
    long online = sysconf(_SC_NPROCESSORS_ONLN), threads = at::get_num_threads();
    cpu_set_t mine;

    if (local && std::atoi(local) > 0) /* a group may have fewer, or ranks of other hosts */
        ranks = std::atoi(local);
    if (sched_getaffinity(0, sizeof(mine), &mine) == 0 && threads > CPU_COUNT(&mine))
        return true;
    return online > 0 && ranks * threads > online;
}

/* `gloo` is called for a group on several hosts. */
static c10::intrusive_ptr<c10d::Backend> create(
    const c10d::DistributedBackendOptions &options,
    const std::function<c10::intrusive_ptr<c10d::Backend>(const c10::intrusive_ptr<c10d::Store> &, int, int,
                                                          double)> &gloo)
{
    auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout);

    Group::refuse_in_child();
    if (Engine::spin == Engine::Spin::undecided)
        Engine::spin = outnumber_cpus(options.group_size) ? Engine::Spin::never : Engine::Spin::by_load;
    Engine::get().signals = run_signal_handlers;
    Engine::get().alone = is_alone;
    return c10::make_intrusive<Group>(options.store, options.group_rank, options.group_size, timeout,
                                      options.group_id, options.global_ranks_in_group,
                                      [&gloo](const c10::intrusive_ptr<c10d::Store> &store, int rank,
                                              int size, std::chrono::milliseconds limit) {
                                          return gloo(store, rank, size,
                                                      static_cast<double>(limit.count()) / 1000);
                                      });
}

/* At the end of the interpreter, while threads of Python still run. */
static void finish()
{
    Engine *engine = Engine::current();

    if (!engine)
        return;
    Group::shutdown_all();
    engine->close();
}

static bool is_set(const char *name)
{
    const char *value = std::getenv(name);

    return value && *value && std::strcmp(value, "0") != 0;
}

PYBIND11_MODULE(NIGH_TORCH_MODULE, module)
{
    if (is_set("NIGH_DEBUG"))
        Group::site = python_site;
    Message::strict = is_set("NIGH_STRICT");
    module.def("create", create, py::call_guard<py::gil_scoped_release>());
    module.def("empty", empty, py::call_guard<py::gil_scoped_release>());
    module.def("use_shared_memory", use_shared_memory, py::call_guard<py::gil_scoped_release>());
    module.def("paths", paths, py::call_guard<py::gil_scoped_release>());
    module.def("spins", [] { return Engine::get().spins(); });
    module.def("finish", finish, py::call_guard<py::gil_scoped_release>());
}

} // namespace nigh_torch
