// The interface to an exported file tree: FS and the contracts of its methods.

package nfsserver

import (
	"errors"
	"math"
)

// Errors that an FS returns besides those of io/fs and the syscall.Errno values.
var (
	// ErrStale: the file named by the Ref is gone, or never existed.
	ErrStale = errors.New("file handle is stale")
	// ErrBadType: the FS cannot make objects of this type here.
	ErrBadType = errors.New("object type is not supported")
	// ErrBadCookie: the position in a directory is no longer valid.
	ErrBadCookie = errors.New("directory cookie is not valid")
	// ErrBusy: the operation would take too long now; the client should retry (JUKEBOX).
	ErrBusy = errors.New("try again later")
)

// An FS is one file tree. A Ref names a file in it, not a path: it survives renames and hard links,
// and, where the FS is persistent, restarts.
//
// Concurrency: all methods may be called at once from many goroutines. To the other methods each
// change to names and attributes is atomic, except where a method says otherwise. Any method may
// block on a disk.
//
// Durability: all later calls see a change as soon as its method has returned. It is on stable
// storage only once Sync has returned nil for each object listed under the method's "Durability".
// The NFS programs build UNSTABLE, DATA_SYNC, FILE_SYNC and COMMIT (RFC 1813 §3.3.7, §3.3.21) on
// these two rules. A method that fails has changed nothing, unless it says otherwise.
//
// Permissions: methods with a Cred act with that user's permissions, and fail with EACCES or EPERM
// like system calls. A method that finds or changes a name needs the permissions on the directory
// that a local process needs. Names are single components, neither empty nor with a slash or NUL;
// "." and ".." come only to Lookup.
//
// Errors are syscall.Errno values, those of io/fs, or those above; status.go maps them. A Ref that
// names nothing gives ErrStale.
type FS interface {
	// Root is the Ref of the top directory. It never changes, and Root never blocks.
	Root() Ref
	// Info returns the FS's limits and behaviour. Both never change, and Info never blocks.
	Info() Info

	// Getattr returns the attributes as they were at one moment. With Info.Quick it does not block
	// on other methods of the same file. Durability: changes nothing; the attributes returned are
	// possibly not stable yet. It does not allocate in the steady state.
	Getattr(r Ref) (Attr, error)
	// Access returns the subset of want (MayRead, MayWrite, MayExec) permitted to c. Concurrency:
	// the result is true at the moment of the call; each later method checks again. Durability:
	// changes nothing.
	Access(c Cred, r Ref, want uint32) (uint32, error)
	// Setattr sets the attributes in s.Mask. Symbolic links are not followed. A change of owner or
	// size clears set-id bits, as chown(2) and write(2) do. Write permission suffices to set the
	// current time; other times only the owner may set. After an error some attributes may have
	// been set. But the size is unchanged if the call failed because c is not the owner.
	// Concurrency: others may see the attributes set one after another; if a truncation runs with a
	// ReadAt or WriteAt, each byte is as if one had run first. Durability: Sync of r with dataOnly
	// false.
	Setattr(c Cred, r Ref, s *SetAttr) error
	// ReadAt fills p from offset off and returns the number of bytes read. A count below len(p)
	// means the end of the file, which is no error. The owner may read regardless of the mode, and
	// so may a user with execute permission (RFC 1813 §4.4). Permission is checked even if p is
	// empty. Concurrency: during a WriteAt of the same bytes each byte read is old or new.
	// Durability: changes only, and later, the access time; the bytes read are possibly not stable
	// yet. ReadAt does not allocate in the steady state, and keeps no reference to p.
	ReadAt(c Cred, r Ref, p []byte, off uint64) (int, error)
	// WriteAt writes p at off, which may be beyond the end: the gap reads as zeros. The owner may
	// write regardless of the mode (RFC 1813 §4.4). With an empty p it only checks permission, and
	// succeeds even if a program runs from the file. Set-id bits are cleared as by write(2).
	// WriteAt returns the number of bytes written, n. If n is 0 and p is not empty, err is the
	// reason; a shorter write may return no error. Concurrency: of two writes to the same bytes
	// each byte is from one or the other. Durability: Sync of r, for data and size with dataOnly
	// true. WriteAt does not allocate in the steady state, and keeps no reference to p.
	WriteAt(c Cred, r Ref, p []byte, off uint64) (int, error)
	// Sync brings all data written to r to stable storage. With dataOnly false it also brings r's
	// attributes or, for a directory, its names. Concurrency: Sync covers the methods that returned
	// before its call; a concurrent method can be left out. Durability: after a nil error
	// the data is stable. Only one Sync reports a write-back error since the last Sync, so callers
	// that share an object share its result (syncs.go).
	Sync(r Ref, dataOnly bool) error

	// Lookup finds name in dir. In the root, ".." is the root itself. Lookup keeps no reference to
	// name, because the caller reuses the bytes afterwards. Concurrency: a name being replaced by
	// Rename leads to the old or the new file. Durability: changes nothing; the name is possibly
	// not stable yet.
	Lookup(c Cred, dir Ref, name string) (Ref, Attr, error)
	// Readlink returns the target of a symbolic link, or EINVAL for other objects. Concurrency: a
	// target never changes. Durability: changes nothing.
	Readlink(c Cred, r Ref) (string, error)
	// Create makes an empty regular file with the attributes of s. If the name exists, with any
	// type, it returns EEXIST. The file belongs to c and c's group or, in a directory with the
	// set-group-id bit, to the directory's group, unless s names others and c may set them. The
	// mode is that of s (default 0600, for directories 0700), limited by the directory's default
	// ACL. The new file has these attributes from the start, except those that need another owner.
	// Concurrency: if several calls make one name, one succeeds. Durability: Sync of the new file
	// and of dir, both with dataOnly false.
	Create(c Cred, dir Ref, name string, s *SetAttr) (Ref, Attr, error)
	// Mkdir makes an empty directory; attributes, concurrency and durability as with Create.
	Mkdir(c Cred, dir Ref, name string, s *SetAttr) (Ref, Attr, error)
	// Symlink makes a symbolic link with target unchanged; attributes, concurrency and durability
	// as with Create.
	Symlink(c Cred, dir Ref, name, target string, s *SetAttr) (Ref, Attr, error)
	// Mknod makes a socket, FIFO or device with the numbers in rdev; attributes, concurrency and
	// durability as with Create.
	Mknod(c Cred, dir Ref, name string, t FileType, rdev Rdev, s *SetAttr) (Ref, Attr, error)
	// Link gives the file r, not a directory, another name. Concurrency: if several calls make one
	// name, one succeeds. Durability: Sync of r and of dir, both with dataOnly false.
	Link(c Cred, r, dir Ref, name string) error
	// Remove removes a name, unless it is a directory's (EISDIR). Concurrency: if several calls
	// remove one name, one succeeds; methods that have found the file continue with it or return
	// ErrStale. Durability: Sync of dir with dataOnly false.
	Remove(c Cred, dir Ref, name string) error
	// Rmdir removes an empty directory's name (ENOTDIR, ENOTEMPTY). Concurrency and durability as
	// with Remove. Nothing can be made in a removed directory.
	Rmdir(c Cred, dir Ref, name string) error
	// Rename moves a name, replacing an existing target if both or neither are directories; two
	// names of one file stay unchanged. Concurrency: the target exists at each moment. The moved
	// file may have both names for a moment, but never no name. Durability: Sync of to and then of
	// from, both with dataOnly false.
	Rename(c Cred, from Ref, fromName string, to Ref, toName string) error

	// ReadDir calls emit for the entries after the cookie (0: all), including "." and "..", until
	// emit returns false. c needs read permission on dir. With plus, ReadDir fills in Ref and Attr
	// where that is cheap and c may search dir. emit must not call the FS, and the Dirent is valid
	// only during emit. eof: no entry is left. Concurrency: over all calls of a listing, a name
	// present throughout is emitted once, regardless of other changes. A name created or removed
	// meanwhile is emitted once or never. Durability: changes nothing; names are possibly not
	// stable yet.
	ReadDir(c Cred, dir Ref, cookie uint64, plus bool, emit func(*Dirent) bool) (eof bool, err error)
	// Statfs returns the free space, which other calls change at any time. Durability: changes
	// nothing.
	Statfs(r Ref) (Statfs, error)
	// Close frees the FS's resources. No call may be running or follow. Unsynced changes may be
	// lost.
	Close() error
}

// Info has the FS's values for FSINFO and PATHCONF, and its cookies' behaviour. The zero value has
// the usual limits and no features. An FS sets the fields in which it differs.
type Info struct {
	MaxFileSize     uint64 // 0: the largest signed offset
	NameMax         uint32 // bytes; 0: 255
	LinkMax         uint32 // 0: 32,000, or 1 without HardLinks
	TimeDelta       Time   // time granularity; 0: a nanosecond
	CookieVerf      uint64 // for all directory cookies
	CaseInsensitive bool
	// Path is the top directory's path on this machine, without symbolic links; "": no such path.
	Path string
	// Quick: Getattr of a file in use (see NonBlocker) takes microseconds and waits for no disk,
	// because the file system is this machine's own.
	Quick bool
	// Shared: others change directories at any moment, especially other servers of the same FS.
	// Replies then omit the attributes before an operation, because another change may come between
	// those attributes and the operation (RFC 1813 §2.6).
	Shared bool
	// SyncSetsTimes: Sync itself may change the times of a file.
	SyncSetsTimes bool
	HardLinks     bool
	Symlinks      bool
	// HandleKey is for an FS served by several servers at once. It replaces each server's own key
	// (Options.Key) in handles of the FS's files, so a handle from one server is valid at the
	// others. All of them must export the FS under the same name, or with the same fsid, because
	// handles contain an export number. The key is a secret. Zero: the server's key.
	HandleKey [KeySize]byte
	// RecordsCalls: several servers serve the FS, which recognizes calls executed by another
	// server. Cred.Call is set for methods that change names. Such a method returns success instead
	// of an error if the FS knows that another server executed the call.
	RecordsCalls bool
}

// filled sets a default for each missing limit, because a limit of 0 would refuse every call.
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
	// HasAttr: Ref and Attr are set.
	HasAttr bool
	Ref     Ref
	Attr    Attr
}

// Statfs is an FS's space in bytes and files. The last field of each triple is the space available
// without privileges.
type Statfs struct {
	TotalBytes, FreeBytes, AvailBytes uint64
	TotalFiles, FreeFiles, AvailFiles uint64
}
