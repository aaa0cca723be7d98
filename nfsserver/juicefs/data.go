// Reading and writing files.

package juicefs

import (
	"syscall"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
)

// ReadAt reads committed data, so it first stores the file's buffered writes.
func (f *FS) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, err := f.loadFile(&r)
	switch {
	case err != nil:
		return 0, err
	case !n.rights().MayRead(&c):
		return 0, syscall.EACCES
	case off >= n.attr.Size || len(p) == 0:
		return 0, nil
	}
	o := f.files.use(n.ino)
	defer f.files.release(o)
	return o.get(p[:min(uint64(len(p)), n.attr.Size-off)], off, n)
}

// WriteAt copies the bytes to JuiceFS's buffer.
func (f *FS) WriteAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, err := f.loadFile(&r)
	switch {
	case err != nil:
		return 0, err
	case !n.rights().MayWrite(&c):
		return 0, syscall.EACCES
	case n.fixed && len(p) > 0: // JuiceFS checks this only when it opens a file
		return 0, syscall.EPERM
	case off > maxFileSize || uint64(len(p)) > maxFileSize-off:
		return 0, syscall.EFBIG
	case len(p) == 0:
		return 0, nil
	}
	if mode := perm.Written(&c, &n.attr); mode != n.attr.Mode {
		if err := f.set(n.ino, meta.SetAttrMode, &meta.Attr{Mode: uint16(mode)}); err != nil {
			return 0, err
		}
	}
	o := f.files.use(n.ino)
	defer f.files.release(o)
	if err := o.put(p, off, n); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Readlink returns the target.
func (f *FS) Readlink(_ nfsserver.Cred, r nfsserver.Ref) (string, error) {
	n, err := f.load(&r)
	switch {
	case err != nil:
		return "", err
	case n.attr.Type != nfsserver.TypeSymlink:
		return "", syscall.EINVAL
	}
	var target []byte
	if no := f.m.ReadLink(system, n.ino, &target); no != 0 {
		return "", failedOn(no)
	}
	return string(target), nil
}
