// The seam to what is exported: the FS interface and the promises of its methods.

package nfsserver

import (
	"errors"
	"math"
)

// Errors that an FS returns next to those of io/fs and the syscall.Errno values.
var (
	// ErrStale: the Ref names a file that is gone, or never was.
	ErrStale = errors.New("file handle is stale")
	// ErrBadType: the kind of object cannot be made here.
	ErrBadType = errors.New("object type is not supported")
	// ErrBadCookie: the position in a directory is not valid any more.
	ErrBadCookie = errors.New("directory cookie is not valid")
	// ErrBusy: it would take too long now; the client shall ask again (JUKEBOX).
	ErrBusy = errors.New("try again later")
)

// An FS is one file tree. A Ref names a file in it, not a path: it survives
// renames and hard links, and, where the FS is persistent, restarts.
//
// Concurrency: all methods may be called at once from many goroutines. Each
// method is atomic to the others on names and attributes; what a method adds to
// that, or takes from it, stands with the method. Any method may block on a disk.
//
// Durability: a change is seen by all later calls as soon as its method has
// returned, but it is on stable storage only once Sync of each object that the
// method names as changed has returned nil. The NFS programs make UNSTABLE, DATA_SYNC,
// FILE_SYNC and COMMIT (RFC 1813 §3.3.7, §3.3.21) from these two facts. A method
// that fails has changed nothing, unless it says otherwise.
//
// Permissions: methods with a Cred do what that user may do and refuse the rest, EACCES and EPERM
// as system calls give them. A method that finds or changes a name needs what a local process needs
// on the directory. Names are single components, neither empty nor with a slash or NUL; "." and
// ".." come only to Lookup.
//
// Errors are syscall.Errno values, those of io/fs, or those above; status.go
// maps them. A Ref that names nothing gives ErrStale.
type FS interface {
	// Root is the Ref of the top directory. It never changes, and Root never blocks.
	Root() Ref
	// Info tells the limits and habits of the FS. They never change, and Info never blocks.
	Info() Info

	// Getattr returns the attributes, all of one moment between two changes.
	// Where Info.Quick is set it does not block on other methods of the same file.
	// Durability: changes nothing; what it tells is possibly not stable yet.
	// It does not allocate in the steady state.
	Getattr(r Ref) (Attr, error)
	// Access returns those of the permissions want (MayRead, MayWrite, MayExec) that c has.
	// Concurrency: true of the moment of the call; each later method checks again.
	// Durability: changes nothing.
	Access(c Cred, r Ref, want uint32) (uint32, error)
	// Setattr sets what s.Mask names. Symbolic links are not followed. A change of
	// owner or size clears set-id bits, as chown(2) and write(2) do. Who may write
	// may set the present time, others than the owner no other. On an error some of
	// the attributes may have been set, but if s names what only an owner may set
	// nobody else has changed the size.
	// Concurrency: others may see the attributes of s set one after another; of a cut beside
	// a ReadAt or WriteAt each byte has the outcome of one order or the other.
	// Durability: Sync of r with dataOnly false.
	Setattr(c Cred, r Ref, s *SetAttr) error
	// ReadAt fills p from offset off and returns how many bytes there were; fewer than len(p) means
	// that the file ends there, which is no error. Its owner may read a file whatever the mode, and
	// so may who may execute it (RFC 1813 §4.4); permission is checked even if p is empty.
	// Concurrency: beside a WriteAt of the same bytes each byte is the old or the new one.
	// Durability: changes nothing but, later, the access time; what it reads is possibly not stable
	// yet. It does not allocate in the steady state, and keeps nothing of p.
	ReadAt(c Cred, r Ref, p []byte, off uint64) (int, error)
	// WriteAt writes p at off, which may be beyond the end: the gap reads as zeros.
	// The owner may write whatever the mode (RFC 1813 §4.4). With p empty it checks
	// permission and does no more; a program that runs from the file is no obstacle
	// then. Set-id bits are cleared as by write(2).
	// With n < len(p) err says why, unless n > 0; n bytes have been written.
	// Concurrency: of two of the same bytes each byte is of one or the other.
	// Durability: Sync of r, for the data and the size with dataOnly true.
	// It does not allocate in the steady state, and keeps nothing of p.
	WriteAt(c Cred, r Ref, p []byte, off uint64) (int, error)
	// Sync brings all that was written to r, and with dataOnly false also its
	// attributes or, for a directory, its names, to stable storage.
	// Concurrency: covers the methods that returned before it was called; of those that run
	// beside it each is covered or not.
	// Durability: nil says that it is done. A write-back that failed since the last Sync is told
	// by one Sync only: callers that share an object share its answer (syncs.go).
	Sync(r Ref, dataOnly bool) error

	// Lookup finds name in dir. ".." of the root is the root. It keeps nothing of name, whose
	// bytes are used again once it has returned.
	// Concurrency: a name that is being replaced by Rename is found, as the old or the new file.
	// Durability: changes nothing; the name is possibly not stable yet.
	Lookup(c Cred, dir Ref, name string) (Ref, Attr, error)
	// Readlink returns the target of a symbolic link, EINVAL for other objects.
	// Concurrency: a target never changes. Durability: changes nothing.
	Readlink(c Cred, r Ref) (string, error)
	// Create makes an empty regular file with the attributes of s; an existing
	// name is EEXIST, whatever it names. It belongs to c, and to c's group or, in a
	// directory with the set-group-id bit, to the directory's, unless s says
	// otherwise and c may; its mode is that of s (without: 0600, directories 0700),
	// less what a default ACL of the directory takes away. All this holds from its
	// first moment, but for what s gives to another owner.
	// Concurrency: of several that make one name, one succeeds.
	// Durability: Sync of the new file and of dir, both with dataOnly false.
	Create(c Cred, dir Ref, name string, s *SetAttr) (Ref, Attr, error)
	// Mkdir makes an empty directory; attributes, concurrency and durability as with Create.
	Mkdir(c Cred, dir Ref, name string, s *SetAttr) (Ref, Attr, error)
	// Symlink makes a symbolic link to target, which is kept as it is;
	// attributes, concurrency and durability as with Create.
	Symlink(c Cred, dir Ref, name, target string, s *SetAttr) (Ref, Attr, error)
	// Mknod makes a socket, FIFO or device, whose numbers stand in rdev;
	// attributes, concurrency and durability as with Create.
	Mknod(c Cred, dir Ref, name string, t FileType, rdev Rdev, s *SetAttr) (Ref, Attr, error)
	// Link gives the file r, not a directory, another name.
	// Concurrency: of several that make one name, one succeeds.
	// Durability: Sync of r and of dir, both with dataOnly false.
	Link(c Cred, r, dir Ref, name string) error
	// Remove takes away the name of anything but a directory (EISDIR).
	// Concurrency: of several that remove one name, one succeeds; methods that have found
	// the file go on with it or get ErrStale.
	// Durability: Sync of dir with dataOnly false.
	Remove(c Cred, dir Ref, name string) error
	// Rmdir takes away the name of an empty directory (ENOTDIR, ENOTEMPTY).
	// Concurrency and durability as with Remove; nothing is made in a directory that has gone.
	Rmdir(c Cred, dir Ref, name string) error
	// Rename moves a name, over an existing one of the same sort if there is one;
	// two names of one file stay as they are.
	// Concurrency: there is no moment without the target; what is moved may have both names
	// for a moment, never none.
	// Durability: Sync of to and then of from, both with dataOnly false.
	Rename(c Cred, from Ref, fromName string, to Ref, toName string) error

	// ReadDir calls emit for the entries after the cookie (0: all), "." and ".."
	// too, until it returns false. c must be allowed to read dir.
	// With plus, Ref and Attr are filled in where they can be had cheaply and c may
	// search dir. emit must not call the FS; the Dirent is valid only inside it. eof
	// tells that no entry is left.
	// Concurrency: a name that exists during the whole of a listing, over all its calls, is
	// emitted once, whatever else comes or goes; one that comes or goes meanwhile once or never.
	// Durability: changes nothing; names are possibly not stable yet.
	ReadDir(c Cred, dir Ref, cookie uint64, plus bool, emit func(*Dirent) bool) (eof bool, err error)
	// Statfs tells the room left, which other calls change at any time. Durability: changes
	// nothing.
	Statfs(r Ref) (Statfs, error)
	// Close frees what the FS holds. No call may be running or follow. What was not
	// synced may be lost.
	Close() error
}

// Info is the part of FSINFO and PATHCONF that depends on an FS, and the behaviour of its cookies.
// The zero value has the usual limits and no features: an FS sets the fields in which it differs.
type Info struct {
	MaxFileSize     uint64 // 0: the largest signed offset
	NameMax         uint32 // bytes; 0: 255
	LinkMax         uint32 // 0: 32,000, or 1 without HardLinks
	TimeDelta       Time   // granularity of the times; 0: a nanosecond
	CookieVerf      uint64 // of all its directory cookies
	CaseInsensitive bool
	// Path is the top directory on this machine, free of symbolic links; "" if it has none.
	Path string
	// Quick: Getattr of a file in use (see NonBlocker) is a matter of microseconds, whatever the
	// disk does: the file system is this machine's own.
	Quick bool
	// Shared: others change directories at any moment, by other servers of the same FS above all.
	// Attributes of before an operation are not told of them: they would not be of its own moment
	// (RFC 1813 §2.6).
	Shared bool
	// SyncSetsTimes: Sync itself may change the times of a file.
	SyncSetsTimes bool
	HardLinks     bool
	Symlinks      bool
	// HandleKey, of an FS that several servers serve at once, takes the place of each server's own
	// key (Options.Key) in handles of its files, so that handles of one server are valid at the
	// others. These export it under the same name, too, or with the same fsid, whose number the
	// handles contain. It is a secret. Zero: the server's key.
	HandleKey [KeySize]byte
	// RecordsCalls: several servers serve the FS, and it recognizes calls that another one has
	// executed. Cred.Call is set for methods that change names. Such a method succeeds where it
	// would fail only because the FS knows that call to be done.
	RecordsCalls bool
}

// filled replaces limits that are not set by the defaults: a limit of 0 would refuse all.
func (in Info) filled() Info {
	if in.MaxFileSize == 0 {
		in.MaxFileSize = math.MaxInt64
	}
	if in.NameMax == 0 {
		in.NameMax = 255
	}
	if in.LinkMax == 0 {
		in.LinkMax = 1
		if in.HardLinks {
			in.LinkMax = 32000
		}
	}
	if in.TimeDelta == (Time{}) {
		in.TimeDelta = Time{Nsec: 1}
	}
	return in
}

// A Dirent is one entry of a directory.
type Dirent struct {
	Name   []byte
	Fileid uint64
	Cookie uint64 // position after this entry
	// HasAttr: Ref and Attr are those of the entry.
	HasAttr bool
	Ref     Ref
	Attr    Attr
}

// Statfs is the room of an FS: bytes and files; the last of each triple is
// what a caller without privileges may use.
type Statfs struct {
	TotalBytes, FreeBytes, AvailBytes uint64
	TotalFiles, FreeFiles, AvailFiles uint64
}
