// Package cred lets a thread act as the caller of a request, for the length of some system calls.
package cred

import (
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// A Process is the identity of this process, and its right to act as others.
//
// Credentials belong to threads. A goroutine locks itself to its thread, and sets the thread's
// effective user, group and supplementary groups by raw system calls: the wrappers of Go's
// libraries change all threads. It makes the caller's system calls, and restores the thread. A
// change of the effective user from 0 also empties the effective capabilities and sets the fsuid.
// So permissions, ACLs, quotas, reserved blocks and set-id bits are handled as for a process of
// that user. The real and saved user stay 0: no other user may signal or trace the thread, and it
// can become root again.
//
// Between Act and End there are only system calls: the goroutine waits for no lock of Go's.
type Process struct {
	// Set once.
	Switches bool           // threads may take other identities
	Self     nfsserver.Cred // the process's own user
}

// asIs leaves a user or group unchanged in the setres calls; no user has this number.
const asIs = ^uint32(0)

// errForeign: this process cannot act as the requested user.
const errForeign = unix.EACCES

// restoreTries bounds a thread's attempts to become root again, one a millisecond. Only a kernel
// out of memory refuses the change, and memory is freed again.
const restoreTries = 1000

// New finds out whether this process may act as others.
func New() Process {
	p := Process{Self: nfsserver.Self()}
	if p.Self.UID == 0 {
		p.Switches = true
		p.Switches = p.probe()
	}
	return p
}

// probe reports whether a thread can become an ordinary user without capabilities, and root again.
// In a container or under seccomp it cannot.
func (p *Process) probe() bool {
	a, err := p.Act(&nfsserver.Cred{UID: nfsserver.Nobody, GID: nfsserver.Nobody})
	if err != nil {
		return false
	}
	defer a.End()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err = unix.Capget(&head, &data[0])
	return err == nil && data[0].Effective|data[1].Effective == 0
}

// An Acting is a thread acting as a caller, by those ids that differ from the process's. The zero
// value has the identity of the process.
type Acting struct {
	process          *Process
	user, group, aux bool
}

// Act gives this thread the identity of c until End, and locks the goroutine to it. The superuser
// needs no groups. A process that cannot act as others does everything as itself, and refuses other
// users (EACCES).
func (p *Process) Act(c *nfsserver.Cred) (Acting, error) {
	if !p.Switches {
		if c.UID != p.Self.UID {
			return Acting{}, errForeign
		}
		return Acting{}, nil
	}
	if c.UID == asIs || c.GID == asIs {
		return Acting{}, errForeign
	}
	a := Acting{process: p}
	root := c.UID == 0
	if root && c.GID == p.Self.GID {
		return Acting{}, nil
	}
	runtime.LockOSThread()
	err := error(nil)
	if !root && !slices.Equal(c.GIDs, p.Self.GIDs) {
		err = setGroups(c.GIDs)
		a.aux = err == nil
	}
	if err == nil && c.GID != p.Self.GID {
		err = setGroup(c.GID)
		a.group = err == nil
	}
	if err == nil && !root {
		err = setUser(c.UID)
		a.user = err == nil
	}
	if err != nil {
		a.End()
		return Acting{}, errForeign
	}
	return a, nil
}

// End restores the thread's identity.
func (a Acting) End() {
	if a.process == nil {
		return
	}
	if a.user {
		restore(func() error { return setUser(a.process.Self.UID) })
	}
	if a.group {
		restore(func() error { return setGroup(a.process.Self.GID) })
	}
	if a.aux {
		restore(func() error { return setGroups(a.process.Self.GIDs) })
	}
	runtime.UnlockOSThread()
}

// restore repeats set until it succeeds. A thread with another identity MUST NOT run another
// goroutine, and its present goroutine has to answer a call as the server. So if set fails for
// good, the process ends.
func restore(set func() error) {
	var err error
	for range restoreTries {
		if err = set(); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	fatal(fmt.Errorf("a thread cannot be given back its own identity: %w", err))
}

// fatal ends the process. Nothing recovers the panic, and deferred calls do not run as the wrong
// user.
func fatal(err error) {
	go panic(err)
	select {}
}

// The raw calls change only this thread. They do not sleep, so they need not notify the scheduler.

func setUser(uid uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(asIs), uintptr(uid), uintptr(asIs))
	return errnoError(errno)
}

func setGroup(gid uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(asIs), uintptr(gid), uintptr(asIs))
	return errnoError(errno)
}

func setGroups(gids []uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(gids)), uintptr(unsafe.Pointer(unsafe.SliceData(gids))), 0)
	return errnoError(errno)
}

// errnoError returns a nil error for 0.
func errnoError(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
