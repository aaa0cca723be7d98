// File content.

package tree

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
)

// regular returns the regular file in a Ref; names is held.
func (f *FS) regular(r *nfsserver.Ref) (o object, err error) {
	if o, err = f.get(r); err != nil {
		return o, err
	}
	switch o.attr.Type {
	case nfsserver.TypeReg:
		return o, nil
	case nfsserver.TypeDir:
		return o, syscall.EISDIR
	}
	return o, syscall.EINVAL
}

// file returns an open file; names is held. The caller releases it, and may release names before.
func (f *FS) file(o *object, write bool) (*openFile, error) {
	flag := os.O_RDONLY
	if write {
		flag = os.O_RDWR
	}
	return f.files.use(o.id, write, func() (File, error) { return f.b.Open(o.path, flag, 0) })
}

// ReadAt reads from a file.
func (f *FS) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	x, o, err := f.toRead(&c, &r, len(p), off)
	if err != nil || x == nil {
		return 0, err
	}
	defer f.files.release(x)
	// The tree's size bounds the read, because readers of some trees do not stop at the end.
	p = p[:min(uint64(len(p)), o.attr.Size-off)]
	n := 0
	err = x.alone(func() error {
		for n < len(p) {
			k, err := x.File.ReadAt(p[n:], int64(off)+int64(n))
			n += k
			if err != nil || k == 0 {
				return err
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, io.EOF) && n == 0 {
		return 0, err
	}
	return n, nil
}

// toRead returns the file to read n bytes at off from, or none if there are no such bytes.
func (f *FS) toRead(c *nfsserver.Cred, r *nfsserver.Ref, n int, off uint64) (*openFile, object, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	o, err := f.regular(r)
	switch {
	case err != nil:
		return nil, o, err
	case !o.rights().MayRead(c):
		return nil, o, syscall.EACCES
	case n == 0 || off >= o.attr.Size:
		return nil, o, nil
	}
	x, err := f.file(&o, false)
	return x, o, err
}

// WriteAt writes to a file.
func (f *FS) WriteAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	x, o, err := f.toWrite(&c, &r, len(p), off)
	if err != nil || x == nil {
		return 0, err
	}
	defer f.files.release(x)
	n := 0
	err = x.alone(func() (err error) {
		n, err = x.File.WriteAt(p, int64(off))
		return err
	})
	if n > 0 {
		f.touched(o.id)
		return n, f.dropSetID(&c, &r, &o)
	}
	return n, err
}

// toWrite returns the file to write n bytes at off to, or none if n is 0.
func (f *FS) toWrite(c *nfsserver.Cred, r *nfsserver.Ref, n int, off uint64) (*openFile, object, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	o, err := f.regular(r)
	switch {
	case err != nil:
		return nil, o, err
	case !o.rights().MayWrite(c):
		return nil, o, syscall.EACCES
	case f.ro:
		return nil, o, syscall.EROFS
	case off > f.info.MaxFileSize || uint64(n) > f.info.MaxFileSize-off:
		return nil, o, syscall.EFBIG
	case n == 0:
		return nil, o, nil
	}
	x, err := f.file(&o, true)
	return x, o, err
}

// dropSetID clears the set-id bits on a file that c has written.
func (f *FS) dropSetID(c *nfsserver.Cred, r *nfsserver.Ref, o *object) error {
	mode := perm.Written(c, &o.attr)
	if mode == o.attr.Mode {
		return nil
	}
	root := nfsserver.Cred{}
	err := f.Setattr(root, *r, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: mode})
	if errors.Is(err, nfsserver.ErrStale) {
		return nil // removed since
	}
	return err
}

// Sync brings an object, and its identity, to stable storage.
func (f *FS) Sync(r nfsserver.Ref, dataOnly bool) error {
	f.names.RLock()
	defer f.names.RUnlock()
	o, err := f.get(&r)
	if err != nil || f.ro {
		return err
	}
	if o.attr.Type == nfsserver.TypeReg {
		err = f.files.sync(o.id)
	}
	if err == nil && !dataOnly && o.attr.Type != nfsserver.TypeSymlink {
		err = f.b.Sync(o.path)
	}
	if err != nil {
		return err
	}
	return f.table.Sync()
}
