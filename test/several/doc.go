// The promises of NFS to several clients of one directory, and their checks.

// Package several checks the promises of NFS to several clients of one directory.
//
// A schedule is a list of steps, each a system call or few of one actor, in one order:
// no two steps overlap, so each outcome follows from those before it. An actor is a
// process with a directory of its own: a mount, the served directory, or the commands.
// The actors' directories are one and the same to the server.
//
// The model is a plain file system that keeps all versions of each file, and for each
// actor the oldest version that it may still see. Close-to-open consistency, locks,
// attributes that were shown, and noac move that version forward. Where it is the newest
// one, the outcome is exact. Otherwise each byte is of a version not older than it.
//
// Schedules are drawn from a seed, or are all of a matrix: each way to change a file,
// each way to see it, and each event that makes the one visible to the other. One that
// fails is cut down to the steps that it takes, and printed.
//
// The actors themselves are started by the suites: test/mount runs schedules on mounts,
// and the program cmd/several is an actor in a guest.
package several
