// Calls that another server of the volume has done: what a client repeats, as their replies were lost, succeeds here too.

package juicefs

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// A server's duplicate request cache ends with it. A client that has lost its server repeats what was not answered at another
// one, with the same XID, and there a REMOVE that was done finds no name, a MKDIR one that exists. To be told apart from
// others that fail so, what was done has to be known with its call (nfsserver.CallID), and for sure: a success that
// was none is worse than an error. There is no transaction of JuiceFS's with something of ours in it but one.
//
//   - CREATE, MKDIR, SYMLINK, MKNOD of a FIFO or socket: the new object has a mark, 31 bits of a MAC of the call and of the time, where
//     JuiceFS has the numbers of devices: written by the transaction that makes the object, so it is there if and only if
//     that call made it. It costs nothing.
//   - REMOVE, RMDIR, RENAME, LINK: nothing that stays has room for a mark. A record of the call and of the inode
//     is written before the change, once that is known to be possible as far as it can be (records.go): one transaction more. It says
//     what was to be done. That it was, the inode tells: it has lost a link, or has its new name. So of a server that dies
//     between the two, nothing is taken for done unless somebody else has done the very same meanwhile.
//   - MKNOD of a device has its numbers where the mark would be, and a SETATTR with a guard that was done gives NOT_SYNC: they stay as they are.
//
// Marks and records are looked at only when a call fails as a repeated one does, and only on a connection that is new: a client
// repeats calls as soon as it has connected. A repeated call that does not fail, since others have used the name again in the
// meantime, is not recognized.

// The operations, in marks and records.
const (
	opMake byte = iota + 1
	opRemove
	opRmdir
	opRename
	opLink
)

// markPeriod is for how long marks of one call are the same: one is recognized for at least that, and for less than twice that.
const markPeriod = 2 * time.Minute

// mac authenticates a call, an operation and a number by the key that the volume's servers share: nobody makes up a call that has the sum of another.
func (f *FS) mac(op byte, id *nfsserver.CallID, n uint64) (sum [sha256.Size]byte) {
	h := hmac.New(sha256.New, f.key[:])
	var b [9]byte
	b[0] = op
	binary.BigEndian.PutUint64(b[1:], n)
	h.Write(b[:])
	h.Write(id.Sum[:])
	h.Sum(sum[:0])
	return sum
}

// period is that of a time.
func period(t time.Time) uint64 { return uint64(t.Unix()) / uint64(markPeriod/time.Second) }

// mark is that of an object of type t which the call makes in a period; 0: none. All services keep 31 bits.
func (f *FS) mark(id *nfsserver.CallID, t nfsserver.FileType, in uint64) uint32 {
	if id == nil || t == nfsserver.TypeBlock || t == nfsserver.TypeChar {
		return 0
	}
	sum := f.mac(opMake, id, in)
	return max(1, binary.BigEndian.Uint32(sum[:])&^(1<<31))
}

// made returns the object that a call which finds its name taken has made before; ok is false when it has not.
func (f *FS) made(c *nfsserver.Cred, d *inode, name string, t nfsserver.FileType) (ino meta.Ino, a meta.Attr, ok bool) {
	if c.Call == nil || !c.Call.Moved {
		return 0, a, false
	}
	// Asked for anew: a service that does not tell of what is in the way would leave the mark of this call.
	if no := f.m.Lookup(system, d.ino, name, &ino, &a, false); no != 0 || typeOf(a.Typ) != t || a.Rdev == 0 {
		return 0, a, false
	}
	now := period(f.now())
	for in := now - 1; in <= now+1; in++ { // also of a server whose clock is ahead
		if a.Rdev == f.mark(c.Call, t, in) {
			return ino, a, true
		}
	}
	return ino, a, false
}

// untouched reports whether an object is as it was made. JuiceFS sets all times of a new one to the same nanosecond.
func untouched(a *meta.Attr) bool {
	return a.Atime == a.Ctime && a.Mtime == a.Ctime && a.Atimensec == a.Ctimensec && a.Mtimensec == a.Ctimensec
}

// removed is what a REMOVE or RMDIR that ends with err returns: nil if it finds no name, and has been done before, or meanwhile.
func (f *FS) removed(op byte, c *nfsserver.Cred, dir *nfsserver.Ref, name string, err error) error {
	if !errors.Is(err, syscall.ENOENT) {
		return err
	}
	rec, ok := f.calls.find(f, op, c.Call)
	if !ok {
		return err
	}
	var a meta.Attr
	switch no := f.m.GetAttr(system, rec.ino, &a); {
	case no == syscall.ENOENT, no == 0 && a.Parent.IsTrash(): // the volume's trash
		return nil
	case no == 0 && op == opRemove && a.Nlink < rec.nlink: // it has other names, or is still open in a mount
		return nil
	case no == 0 && op == opRemove && f.trashed(dir, name, &rec): // it has other names, and the trash has one of them
		return nil
	}
	return err // it was renamed by others
}

// trashed reports whether the trash has a name of what is recorded since the record was written: JuiceFS gives it a directory for each hour, and the
// names in that begin with the numbers of both inodes.
func (f *FS) trashed(dir *nfsserver.Ref, name string, rec *record) bool {
	d, _, err := f.parse(dir)
	if err != nil {
		return false
	}
	name = fmt.Sprintf("%d-%d-%s", d, rec.ino, name)
	name = name[:min(len(name), meta.MaxName)]
	for _, t := range [...]time.Time{rec.at, f.now()} {
		var hour, ino meta.Ino
		var a meta.Attr
		if f.m.Lookup(system, meta.TrashInode, t.UTC().Format("2006-01-02-15"), &hour, &a, false) == 0 &&
			f.m.Lookup(system, hour, name, &ino, &a, false) == 0 && ino == rec.ino {
			return true
		}
	}
	return false
}

// renamed is that of a RENAME: nil if what it finds gone, and was to move, has the new name.
func (f *FS) renamed(c *nfsserver.Cred, to *nfsserver.Ref, toName string, err error) error {
	if !errors.Is(err, syscall.ENOENT) {
		return err
	}
	if rec, ok := f.calls.find(f, opRename, c.Call); ok && f.has(to, toName, rec.ino) {
		return nil
	}
	return err
}

// linked is that of a LINK which finds its name taken: nil if that is the file's, by its own doing. A file that had the name when the record was
// written has no link more now, and then the server has died before it was refused.
func (f *FS) linked(c *nfsserver.Cred, dir *nfsserver.Ref, name string, err error) error {
	if !errors.Is(err, syscall.EEXIST) {
		return err
	}
	rec, ok := f.calls.find(f, opLink, c.Call)
	if !ok || !f.has(dir, name, rec.ino) {
		return err
	}
	if a, e := f.files.raw(rec.ino); e != nil || a.Nlink <= rec.nlink { // a name in the trash is no link, as in the record
		return err
	}
	return nil
}

// has reports whether a name in dir is one of ino.
func (f *FS) has(dir *nfsserver.Ref, name string, ino meta.Ino) bool {
	d, _, err := f.parse(dir)
	if err != nil {
		return false
	}
	var found meta.Ino
	return f.m.Lookup(system, d, name, &found, new(meta.Attr), false) == 0 && found == ino
}
