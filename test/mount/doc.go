// What the suite does, and how its parts fit.

// Package mount holds the suite that mounts by the client binary and uses the mounts
// as programs do: random operations against a local directory and against a model,
// the errors of POSIX case by case, two mounts of one export, real programs, and
// servers and mount processes that are killed under load.
//
// The mounts are processes of nfsrdma, the programs that use them are child processes:
// this test binary again, as a worker (worker_test.go). The process of the suite itself
// never touches a mount, for a process that is stuck in one could not end. Every
// worker runs on a local directory too, where it must find nothing to complain about.
//
// The same checks hold on exports of nfs-ganesha and, with NFSRDMA_LINUX=1, of Linux in a
// guest; differences of those servers from POSIX are listed in testdata, case by case.
//
// NFSRDMA_FULL=1 runs the counts of operations, and the faults, at length. With the race
// detector the programs under test have it too, and the suite does less.
package mount
