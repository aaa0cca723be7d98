// The walk: from a path to a handle, one LOOKUP for each component.

package nfsclient

import (
	"context"
	"io/fs"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// maxLinks is how many symbolic links one path may lead through.
const maxLinks = 40

// Walk returns handle and attributes of what is at name; the last component is
// followed when it is a symbolic link and follow is set.
func (f *FS) Walk(ctx context.Context, name string, follow bool) (Node, error) {
	n, err := f.walk(ctx, name, follow)
	return n, pathError("walk", name, err)
}

// walk returns the object at name. Symbolic links on the way are followed, the
// last component only when follow is set. An absolute link begins at the root of
// the FS again: what it means on the server's own disk is not ours to reach.
func (f *FS) walk(ctx context.Context, name string, follow bool) (Node, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return Node{}, fs.ErrInvalid
	}
	stack := make([]Node, 1, 8)
	stack[0].FH = f.root
	links := 0
	for name != "" {
		var comp string
		comp, name, _ = strings.Cut(name, "/")
		switch comp {
		case "", ".":
			continue
		case "..":
			stack = stack[:max(len(stack)-1, 1)]
			continue
		}
		n, err := f.lookup(ctx, stack[len(stack)-1].FH, comp)
		if err != nil {
			return Node{}, err
		}
		if n.Attr.Type != nfs3.TypeLnk || !follow && strings.Trim(name, "/") == "" {
			stack = append(stack, n)
			continue
		}
		if links++; links > maxLinks {
			return Node{}, syscall.ELOOP
		}
		target, err := f.c.Readlink(ctx, n.FH)
		if err != nil {
			return Node{}, err
		}
		if strings.HasPrefix(target, "/") {
			stack = stack[:1]
		}
		name = target + "/" + name
	}
	return f.withAttr(ctx, stack[len(stack)-1])
}

// withAttr fetches the attributes of the root, which no LOOKUP has brought.
func (f *FS) withAttr(ctx context.Context, n Node) (Node, error) {
	var err error
	if n.Attr.Type == 0 {
		n.Attr, err = f.c.Getattr(ctx, n.FH)
	}
	return n, err
}

func (f *FS) lookup(ctx context.Context, dir nfs3.FH, name string) (Node, error) {
	if len(name) > nfs3.MaxName {
		return Node{}, syscall.ENAMETOOLONG
	}
	return f.c.Lookup(ctx, dir, name)
}

// parent returns the directory of name and its last component, which is neither
// empty nor "." nor "..".
func (f *FS) parent(ctx context.Context, name string) (dir nfs3.FH, base string, err error) {
	trimmed := strings.TrimRight(name, "/")
	i := strings.LastIndexByte(trimmed, '/')
	base = trimmed[i+1:]
	switch {
	case base == "" || base == "." || base == "..", strings.IndexByte(base, 0) >= 0:
		return nfs3.FH{}, "", fs.ErrInvalid
	case len(base) > nfs3.MaxName:
		return nfs3.FH{}, "", syscall.ENAMETOOLONG
	case strings.Trim(trimmed[:i+1], "/") == "":
		return f.root, base, nil
	}
	n, err := f.walk(ctx, trimmed[:i+1], true)
	return n.FH, base, err
}
