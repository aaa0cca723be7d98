// Package tree is an nfsserver.FS over a tree of paths, a Backend.
package tree

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"sync"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/pathtree"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
)

const (
	nameMax = 255
	// memoryFileSize is the largest file without Options.MaxFileSize where the tree is not known to
	// be on a disk.
	memoryFileSize = 1 << 30
	// space is the free space that Statfs reports, because trees do not know theirs.
	space = 1 << 50
	// fixedObjects bounds the cache in a tree with derived identities.
	fixedObjects = 1 << 17
)

// A Kind says how a Backend differs.
type Kind struct {
	// Fixed: nothing changes names in the tree, so identities depend on paths alone.
	Fixed    bool
	Symlinks bool
}

// FS is a served tree.
//
// Lock order: names, then attrs, then the locks in table, files and listings.
type FS struct {
	// Set once.
	b     Backend
	kind  Kind
	table *pathtree.Table
	owner nfsserver.Cred
	info  nfsserver.Info
	ro    bool
	fsid  uint64
	timed bool  // the tree keeps times
	began int64 // the time for objects without one, in nanoseconds since the Unix epoch

	// names is held for writing while names change, and for reading while a path is in use.
	names sync.RWMutex
	attrs sync.Mutex // held while attributes change

	files files
	lists listings
}

var _ nfsserver.FS = (*FS)(nil)

// New returns the FS over a tree. Errors come from the tree's root or the state directory.
func New(b Backend, k Kind, o adapters.Options) (*FS, error) {
	if o.Serialize {
		b = &serialized{b: b}
	}
	top, err := b.Stat("")
	if err != nil {
		return nil, err
	}
	if !top.IsDir() {
		return nil, syscall.ENOTDIR
	}
	f := &FS{b: b, kind: k, ro: o.ReadOnly || k.Fixed, owner: nfsserver.Self(), began: nsOf(nfsserver.Now())}
	if o.Owner != nil {
		f.owner = *o.Owner
	}
	if o.MaxFileSize == 0 {
		o.MaxFileSize = memoryFileSize
		if OnDisk(top) || f.ro {
			o.MaxFileSize = math.MaxInt64
		}
	}
	if f.timed, err = keepsTimes(b, top); err != nil {
		return nil, err
	}
	if o.OpenFiles <= 0 {
		o.OpenFiles = 64
	}
	f.files.init(o.OpenFiles)
	f.lists.init()
	of := pathtree.Options{Dir: o.StateDir, Max: o.MaxObjects}
	if k.Fixed {
		of.Seed = append([]byte("io/fs\x00"), o.Name...)
		if of.Max <= 0 {
			of.Max = fixedObjects
		}
	}
	if f.table, err = pathtree.New(of); err != nil {
		return nil, err
	}
	root := f.table.Root()
	f.fsid = binary.BigEndian.Uint64(root[:])
	f.info = nfsserver.Info{MaxFileSize: min(o.MaxFileSize, math.MaxInt64), NameMax: nameMax, LinkMax: 1,
		TimeDelta: nfsserver.Time{Nsec: 1}, CookieVerf: f.fsid, Symlinks: k.Symlinks, Shared: !k.Fixed}
	return f, nil
}

// keepsTimes reports whether a tree has times. Some trees return the present time for each object.
func keepsTimes(b Backend, top fs.FileInfo) (bool, error) {
	again, err := b.Stat("")
	if err != nil {
		return false, err
	}
	return top.ModTime().Equal(again.ModTime()), nil
}

// OnDisk reports whether an object is in a file system of this machine.
func OnDisk(info fs.FileInfo) bool {
	_, ok := info.Sys().(*syscall.Stat_t)
	return ok
}

// Root returns the top directory.
func (f *FS) Root() nfsserver.Ref {
	r, _ := nfsserver.MakeRef(f.refBytes(f.table.Root()))
	return r
}

// Info returns the limits.
func (f *FS) Info() nfsserver.Info { return f.info }

// refBytes returns a Ref's bytes: the identity and, where it is derived, hints at the path.
func (f *FS) refBytes(id pathtree.ID) []byte {
	b := make([]byte, 0, nfsserver.MaxRef)
	b = append(b, id[:]...)
	if f.kind.Fixed {
		hints, err := f.table.Hints(id)
		if err != nil {
			return nil // forgotten since the caller has found it
		}
		b = append(b, hints...)
	}
	return b
}

// ref returns an object's Ref.
func (f *FS) ref(id pathtree.ID) (nfsserver.Ref, error) {
	r, ok := nfsserver.MakeRef(f.refBytes(id))
	if !ok {
		return r, nfsserver.ErrBusy
	}
	return r, nil
}

// An object is what a Ref names, at one moment; names is held as long as the path is used.
type object struct {
	id   pathtree.ID
	path string
	info fs.FileInfo
	attr nfsserver.Attr
}

func (o *object) rights() perm.Object { return perm.Object{Attr: &o.attr} }

// child returns the path for a name in directory o.
func (o *object) child(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "/" + name
}

// find returns the identity and path in a Ref; names is held.
func (f *FS) find(r *nfsserver.Ref) (id pathtree.ID, path string, err error) {
	b := r.Bytes()
	if len(b) < len(id) || !f.kind.Fixed && len(b) != len(id) {
		return id, "", nfsserver.ErrStale
	}
	copy(id[:], b)
	path, err = f.table.Path(id)
	if err != nil && f.kind.Fixed {
		if err = f.table.Rediscover(id, b[len(id):], f.list); err == nil {
			path, err = f.table.Path(id)
		}
	}
	if err != nil || f.kind.Fixed && string(f.refBytes(id)) != string(b) {
		return id, "", nfsserver.ErrStale
	}
	return id, path, nil
}

// list returns the names in a directory; none if it cannot be listed.
func (f *FS) list(path string) []string {
	names, err := f.b.List(path)
	if err != nil {
		return nil
	}
	return names
}

// get returns the object in a Ref; names is held.
func (f *FS) get(r *nfsserver.Ref) (o object, err error) {
	if o.id, o.path, err = f.find(r); err != nil {
		return o, err
	}
	o.info, err = f.b.Stat(o.path)
	switch {
	case err != nil && absent(err) && o.path != "":
		f.forget(o.id)
		return o, nfsserver.ErrStale
	case err != nil:
		return o, err
	case !f.sameType(o.id, o.info):
		f.forget(o.id) // others have put another object in its place
		return o, nfsserver.ErrStale
	}
	o.attr = f.attr(o.id, o.path, o.info)
	return o, nil
}

// forget drops an object that others have removed.
func (f *FS) forget(id pathtree.ID) {
	if f.kind.Fixed {
		return
	}
	f.table.Drop(id)
	f.files.drop(id)
}

// sameType reports whether an object has the type that it was found with, and notes the first.
func (f *FS) sameType(id pathtree.ID, info fs.FileInfo) bool {
	t, same := uint32(typeOf(info.Mode())), true
	f.table.Keep(id, func(k *pathtree.Kept) {
		if k.Type == 0 {
			k.Type = t
		}
		same = k.Type == t
	})
	return same
}

// getDir returns the directory in a Ref, in which c has the permissions want; names is held.
func (f *FS) getDir(c *nfsserver.Cred, r *nfsserver.Ref, want uint32) (o object, err error) {
	if o, err = f.get(r); err != nil {
		return o, err
	}
	if o.attr.Type != nfsserver.TypeDir {
		return o, syscall.ENOTDIR
	}
	return o, o.rights().Check(c, want)
}

// in returns the object under a name in directory d; names is held. The name is not "." or "..".
func (f *FS) in(d *object, name string) (o object, err error) {
	if len(name) > nameMax {
		return o, syscall.ENAMETOOLONG
	}
	o.path = d.child(name)
	if o.info, err = f.b.Stat(o.path); err != nil {
		if !absent(err) {
			return o, err
		}
		if id, known := f.table.Child(d.id, name); known {
			f.forget(id)
		}
		return o, syscall.ENOENT
	}
	return o, f.identify(d, name, &o)
}

// identify sets identity and attributes for an object found as name in d.
func (f *FS) identify(d *object, name string, o *object) (err error) {
	if o.id, err = f.table.Find(d.id, name); err == nil && !f.sameType(o.id, o.info) {
		f.forget(o.id)
		if o.id, err = f.table.Find(d.id, name); err == nil {
			f.sameType(o.id, o.info)
		}
	}
	switch {
	case errors.Is(err, pathtree.ErrFull):
		return syscall.ENOSPC
	case err != nil:
		return nfsserver.ErrBusy // the table has just forgotten the directory
	}
	o.attr = f.attr(o.id, o.path, o.info)
	return nil
}

// Close closes all files and the state directory.
func (f *FS) Close() error { return errors.Join(f.files.close(), f.table.Close()) }
