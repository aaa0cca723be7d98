// The seam to the locks that other programs of the machine hold on a file.

package nfsserver

// A LockType is how bytes of a file are locked. They are in the order of their strength.
type LockType uint8

// The types of locks.
const (
	Unlocked LockType = iota
	Shared
	Exclusive
)

// A Locker is an FS whose files can be locked by programs beside the server (fcntl(2)). The files
// of any other FS are the server's alone.
type Locker interface {
	// OpenLocks returns the server's locks on a regular file, of which there are none yet. It may
	// block on a disk. Until they are closed the file stays in use, whatever becomes of its names.
	OpenLocks(r Ref) (FileLocks, error)
}

// A Reclaimer is a Locker that goes on with the locks of the process before: it keeps other
// programs from them while clients reclaim them.
type Reclaimer interface {
	Locker
	// EndGrace has it release, soon, what no client has locked again: none can reclaim it any more.
	// It waits for no disk and no service, and is called again and again.
	EndGrace()
}

// EndGrace tells the exports that are open that the period to reclaim locks in is over. One that is
// opened later is told by the next call.
func (s *Server) EndGrace() {
	for _, e := range s.table.Load().entries {
		if !e.x.enter() {
			continue
		}
		if r, ok := e.x.reclaimer(); ok {
			r.EndGrace()
		}
		e.x.leave()
	}
}

// reclaimer is the FS of an export that is open, if it is a Reclaimer.
func (x *export) reclaimer() (r Reclaimer, ok bool) {
	if x.ready.Load() {
		r, ok = x.fs.(Reclaimer)
	}
	return r, ok
}

// FileLocks are the locks that the server, as one owner, holds on a file against other programs.
// Methods are called one at a time. Offsets are at most math.MaxInt64, which stands for the end
// of the file however long it becomes, and both ends are included.
type FileLocks interface {
	// Set has the server hold the bytes from start to end in this way. EAGAIN: another
	// program holds a lock that is in the way, and nothing has changed; it does not wait for it.
	// EROFS: the file cannot be locked exclusively, since it cannot be written.
	Set(start, end uint64, t LockType) error
	// Test returns a lock of another program that Set would fail for; t is Unlocked where there is
	// none.
	Test(start, end uint64, t LockType) (at, last uint64, other LockType, err error)
	// Close releases all locks.
	Close() error
}

// InodeLocks are FileLocks of a file whose locks the kernel lists (proc_locks(5)).
type InodeLocks interface {
	FileLocks
	// Inode returns what the file is called there: the device, and the number of the inode. It
	// waits for no disk.
	Inode() (major, minor uint32, number uint64, err error)
}

// PathLocks are FileLocks that know a name of the file.
type PathLocks interface {
	FileLocks
	// Path returns the path of the file on this machine, or "". It waits for no disk.
	Path() string
}
