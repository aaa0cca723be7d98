// Calls executed by another server of the volume: a client repeats them after a lost reply, and
// they succeed here, too.

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

// A server's duplicate request cache ends with the server. A client that has lost its server
// repeats the unanswered calls at another one, with the same XID. There an executed REMOVE finds no
// name, and a MKDIR finds an existing one. To distinguish them from other failing calls, the volume
// must identify the executed call (nfsserver.CallID), with certainty: a false success is worse than
// an error. Only one kind of JuiceFS transaction can carry additional data.
//
// CREATE, MKDIR, SYMLINK, and MKNOD of a FIFO or socket: the new object has a mark, 31 bits of a
// MAC of the call and the time, in JuiceFS's field for device numbers. The transaction that makes
// the object writes it, so the mark exists if and only if that call made the object. It costs
// nothing.
//
// REMOVE, RMDIR, RENAME, LINK: no remaining object has a field for a mark. A record with the call
// and the inode is written before the change, once the change appears possible (records.go): one
// more transaction. It records only the intention. The inode shows the execution: it has lost a
// link, or has its new name. So if a server crashes between the two, the call counts as executed
// only if another client has made the very same change meanwhile.
//
// MKNOD of a device needs the field itself, and an executed SETATTR with a guard gives NOT_SYNC:
// these stay as they are.
//
// Marks and records are read only when a call fails as a repeated one would, and only on a new
// connection: a client repeats calls right after connecting. A repeated call that does not fail,
// because others have reused the name meanwhile, is not recognized.

// The operations, in marks and records.
const (
	opMake byte = iota + 1
	opRemove
	opRmdir
	opRename
	opLink
)

// markPeriod is the time in which marks of one call are equal. A mark is recognized for at least
// that long, and for less than twice as long.
const markPeriod = 2 * time.Minute

// mac authenticates a call, an operation and a number with the key shared by the volume's servers,
// so a client cannot construct a call with another call's sum.
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

// period returns the number of a time's period.
func period(t time.Time) uint64 { return uint64(t.Unix()) / uint64(markPeriod/time.Second) }

// mark returns the mark for an object of type t made by the call in a period; 0: none. All services
// store 31 bits.
func (f *FS) mark(id *nfsserver.CallID, t nfsserver.FileType, in uint64) uint32 {
	if id == nil || t == nfsserver.TypeBlock || t == nfsserver.TypeChar {
		return 0
	}
	sum := f.mac(opMake, id, in)
	return max(1, binary.BigEndian.Uint32(sum[:])&^(1<<31))
}

// made returns the object that a call finding its name taken has made earlier; ok is false if it
// has not.
func (f *FS) made(c *nfsserver.Cred, d *inode, name string, t nfsserver.FileType) (ino meta.Ino, a meta.Attr, ok bool) {
	if c.Call == nil || !c.Call.Moved {
		return 0, a, false
	}
	// Look it up again: a service that does not return the conflicting object would leave this
	// call's mark in a.
	if no := f.m.Lookup(system, d.ino, name, &ino, &a, false); no != 0 || typeOf(a.Typ) != t || a.Rdev == 0 {
		return 0, a, false
	}
	now := period(f.now())
	for in := now - 1; in <= now+1; in++ { // also by a server with a faster clock
		if a.Rdev == f.mark(c.Call, t, in) {
			return ino, a, true
		}
	}
	return ino, a, false
}

// untouched reports whether an object is unchanged since its creation. JuiceFS then sets all times
// to the same nanosecond.
func untouched(a *meta.Attr) bool {
	return a.Atime == a.Ctime && a.Mtime == a.Ctime && a.Atimensec == a.Ctimensec && a.Mtimensec == a.Ctimensec
}

// removed returns the result of a REMOVE or RMDIR that ended with err: nil if the name is missing
// because this call was executed earlier, or meanwhile.
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
	case no == syscall.ENOENT, no == 0 && a.Parent.IsTrash(): // in the volume's trash
		return nil
	// It has other names, or is still open in a mount.
	case no == 0 && op == opRemove && a.Nlink < rec.nlink:
		return nil
	// It has other names, and the trash has this one.
	case no == 0 && op == opRemove && f.trashed(dir, name, &rec):
		return nil
	}
	return err // others have renamed it
}

// trashed reports whether the trash got the recorded object's name after the record was written.
// JuiceFS's trash has a directory for each hour, and a name in it begins with both inode numbers.
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

// renamed returns the result of a RENAME: nil if the source is missing because the recorded object
// has its new name.
func (f *FS) renamed(c *nfsserver.Cred, to *nfsserver.Ref, toName string, err error) error {
	if !errors.Is(err, syscall.ENOENT) {
		return err
	}
	if rec, ok := f.calls.find(f, opRename, c.Call); ok && f.has(to, toName, rec.ino) {
		return nil
	}
	return err
}

// linked returns the result of a LINK whose name is taken: nil if this call created the name. If
// the file had the name before the record was written, its link count has not grown: the server
// crashed before it refused the call.
func (f *FS) linked(c *nfsserver.Cred, dir *nfsserver.Ref, name string, err error) error {
	if !errors.Is(err, syscall.EEXIST) {
		return err
	}
	rec, ok := f.calls.find(f, opLink, c.Call)
	if !ok || !f.has(dir, name, rec.ino) {
		return err
	}
	// Names in the trash do not count, as in the record.
	if a, e := f.files.raw(rec.ino); e != nil || a.Nlink <= rec.nlink {
		return err
	}
	return nil
}

// has reports whether a name in dir refers to ino.
func (f *FS) has(dir *nfsserver.Ref, name string, ino meta.Ino) bool {
	d, _, err := f.parse(dir)
	if err != nil {
		return false
	}
	var found meta.Ino
	return f.m.Lookup(system, d, name, &found, new(meta.Attr), false) == 0 && found == ino
}
