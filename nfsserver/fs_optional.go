// The optional half of the seam: interfaces that an FS can have beside FS, and where they are
// collected.

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/posixacl"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// optional holds the optional interfaces of one FS. A nil field is one that the FS does not have.
// A new interface gets a field here, a line in optionalOf and a row in docs/library.md.
type optional struct {
	now   NonBlocker
	later LaterReader
	acls  ACLer
	locks Locker
	tally MechanismCounter
}

// optionalOf collects the optional interfaces of an FS, once for each export (export.served). No
// other code asserts the type of an FS.
func optionalOf(fs FS) (o optional) {
	o.now, _ = fs.(NonBlocker)
	o.later, _ = fs.(LaterReader)
	o.acls, _ = fs.(ACLer)
	o.locks, _ = fs.(Locker)
	o.tally, _ = fs.(MechanismCounter)
	return o
}

// A NonBlocker is an FS that serves some calls from memory, and knows beforehand which. The server
// runs such a call on the goroutine that received it, and no worker has to wake up: GETATTR,
// ACCESS, and small UNSTABLE WRITEs of files in use, LOOKUP by LookupInUse, and READ of at most
// 16 KiB by ReadInUse. While it runs, later calls of the same connection wait. The server asks only
// if Info.Quick is set.
//
// Without it, GETATTR and ACCESS of an FS with Info.Quick run where they arrive, whatever the file,
// and every LOOKUP and READ takes a worker.
//
// Concurrency: all methods may be called at once, also beside those of FS, and none of them waits
// for a disk, a service, or a method of FS that does. They do not allocate in the steady state. An
// FS that cannot do one of these returns false from its method.
type NonBlocker interface {
	// InUse reports whether Getattr, Access and a short WriteAt of r wait for no disk.
	InUse(r Ref) bool
	// LookupInUse is Lookup of a name whose directory and file are in use, by a caller that was
	// allowed it lately. ok is false where Lookup could wait or would fail: the server then calls
	// Lookup. It keeps nothing of name.
	LookupInUse(c Cred, dir Ref, name string) (r Ref, a Attr, ok bool)
	// ReadsInUse reports whether ReadInUse of a file is worth a try: the file is in use, and the
	// last reads of it were in memory.
	ReadsInUse(r Ref) bool
	// ReadInUse is ReadAt of a file in use, by a caller that was allowed it lately; n is a number
	// of bytes. ok is false where ReadAt could wait, would fail, or would not fill p, the content
	// of which is arbitrary then: the server then calls ReadAt. It keeps nothing of p.
	ReadInUse(c Cred, r Ref, p []byte, off uint64) (n int, ok bool)
}

// A LaterReader is an FS that can leave a file's bytes in place until a reply is sent. The server
// then sends a READ of at least 32 KiB over RDMA without a buffer for the whole of it: the
// transport reads the file in pieces as it sends them.
//
// Without it, or over TCP, ReadAt reads the data into memory before the reply is sent.
type LaterReader interface {
	// ReadLater is ReadAt of the n bytes at off, without the bytes. The sender reads them from the
	// result, and sees bytes that are written to the file until then. It reads on another goroutine
	// and possibly after later methods of the FS; it calls mem.DeferredRead.Done when it needs no
	// more. errors.ErrUnsupported: the server calls ReadAt for this file now. ReadLater may block.
	ReadLater(c Cred, r Ref, n int, off uint64) (mem.DeferredRead, error)
}

// An ACLType says which of its ACLs an object is asked for.
type ACLType uint8

// The ACLs of an object.
const (
	AccessACL  ACLType = iota // who may use it
	DefaultACL                // of a directory: the first ACL of new objects in it
)

// An ACLer is an FS whose objects can have POSIX ACLs, by which its methods decide. The server
// answers GETACL and SETACL of the NFSACL program by it. A new object in a directory with a default
// ACL gets that ACL, and the requested mode bounds it in place of a umask.
//
// Without it, GETACL and SETACL of the export fail with NFS3ERR_NOTSUPP, and clients show modes.
type ACLer interface {
	// ACL returns an ACL; an empty one: there is none, and the mode of the object is all there is.
	// Every caller may read it. EOPNOTSUPP: the object's file system has no ACLs, so clients need
	// not ask. Concurrency: as Getattr. Durability: changes nothing.
	ACL(r Ref, t ACLType) (posixacl.ACL, error)
	// SetACL gives an object a valid ACL as c, which has to be its owner or root (EPERM). An empty
	// ACL removes the present one. The mode follows an access ACL, as the ACL follows a mode that
	// Setattr sets. EOPNOTSUPP: the object's file system has no ACLs. Concurrency: others see the
	// ACL and the mode of before or of after. Durability: Sync of r with dataOnly false.
	SetACL(c Cred, r Ref, t ACLType, a posixacl.ACL) error
}

// A Locker is an FS whose files other programs beside the server can lock, with fcntl(2) or at
// another server of the same FS. The lock manager (package nlm) holds its clients' locks there too,
// as one owner, so that these programs and its clients exclude each other.
//
// Without it, clients of this server exclude each other, and other programs do not see their locks.
type Locker interface {
	// OpenLocks returns the server's locks on a regular file. It has none at first, but for those
	// that the FS keeps for a process before (EndGrace). It may block on a disk. Until they are
	// closed the file stays in use, even if its last name is removed. The lock manager opens a file
	// once, for all of its clients.
	OpenLocks(r Ref) (FileLocks, error)
	// EndGrace ends the time in which clients reclaim locks of a process before. An FS that kept
	// such locks from other programs releases, soon, those that no client has locked again; any
	// other FS does nothing. It waits for no disk and no service. The lock manager calls it again
	// and again, from any goroutine.
	EndGrace()
}

// A MechanismCounter is an FS that counts the decisions of its mechanisms for speed. The figures of
// the server have the sum over its exports. Only FSs of this module can have it, because the type
// of the table is internal.
//
// Without it, the figures have no mechanisms of the FS.
type MechanismCounter interface {
	// Mechanisms returns the decisions since the FS was opened, by mechanism. The table is the
	// caller's. It may be called at any time, after Close too, and waits for nothing.
	Mechanisms() tally.Table
}

// A LockType is how bytes of a file are locked. They are in the order of their strength.
type LockType uint8

// The types of locks.
const (
	Unlocked LockType = iota
	Shared
	Exclusive
)

// FileLocks are the locks that the server, as one owner, holds on a file against other programs.
// Methods are called one at a time. Offsets are in bytes, at most math.MaxInt64, which stands for
// the end of the file however long it becomes, and both ends are included.
type FileLocks interface {
	// Set makes the server hold the bytes from start to end in this way. EAGAIN: the lock of
	// another program conflicts, and nothing has changed; Set does not wait for it. EROFS: the file
	// cannot be locked exclusively, because it cannot be written.
	Set(start, end uint64, t LockType) error
	// Test returns a lock of another program that Set would fail for; other is Unlocked if there is
	// none.
	Test(start, end uint64, t LockType) (at, last uint64, other LockType, err error)
	// Close releases all locks.
	Close() error
}

// LocalLocks are FileLocks on a file of this machine. The lock manager finds deadlocks between its
// clients and programs of the machine by the inode, and lists its locks with the path.
//
// FileLocks without it take no part in the search for deadlocks, and are listed without a path.
type LocalLocks interface {
	FileLocks
	// Inode returns the file's device and inode number in the kernel's list of locks
	// (proc_locks(5)). It waits for no disk.
	Inode() (major, minor uint32, number uint64, err error)
	// Path returns the path of the file on this machine, or "". It waits for no disk.
	Path() string
}
