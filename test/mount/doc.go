// An overview of the suite and its parts.

// Package mount is the suite that mounts with the client program and uses the mounts like programs
// do. It compares random operations with a local directory and with a model, and tries the errors
// in POSIX case by case. Two mounts use one export, and real programs run on mounts. Servers and
// mount processes are killed under load.
//
// The mounts are nfsrdma processes; the programs that use them are child processes: this test
// binary again, as a worker (worker_test.go). The suite's process never touches a mount, because a
// process stuck in one could not end. Every worker also runs on a local directory, where it must
// report no errors.
//
// The same checks run on exports of nfs-ganesha and, with NFSRDMA_LINUX=1, of Linux in a guest.
// These servers' deviations from POSIX are listed in testdata, case by case.
//
// NFSRDMA_FULL=1 runs more operations and faults. With the race detector the tested programs have
// it too, and the suite does less.
package mount
