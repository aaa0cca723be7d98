// The promises of NFS to several clients of one directory, and their checks.

// Package several checks the promises of NFS to several clients of one directory.
//
// A schedule is a list of steps, each one or a few system calls of one actor, in one order: no two
// steps overlap, so each outcome follows from the steps before it. An actor is a process with a
// directory: a mount, the served directory, or the commands. For the server, all actors'
// directories are the same.
//
// The model is a plain file system that keeps all versions of each file, and for each actor the
// oldest version that it may still see. Close-to-open consistency, locks, attributes shown before,
// and noac advance that version. If it is the newest one, the outcome is exact. Otherwise each byte
// comes from a version not older than it.
//
// Schedules are random, from a seed, or all combinations in a matrix: each way to change a file,
// each way to see it, and each event that makes the change visible. A failing schedule is reduced
// to the necessary steps and printed.
//
// The suites start the actors: test/mount runs schedules on mounts, and the program cmd/several is
// an actor in a guest.
package several
