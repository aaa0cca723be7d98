// The path walk: POSIX path resolution by LOOKUP and READLINK, one component at a time.

package nfsclient

import (
	"context"
	"io/fs"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// maxLinks bounds the symbolic links in one path, as on Linux.
const maxLinks = 40

// A walker resolves one path. It belongs to one goroutine.
//
// The path's text alone decides nothing, because only the server knows its symbolic links. So ".."
// removes the last entered directory from the stack. Each component followed by a slash has to be a
// directory.
type walker struct {
	f     *FS
	ctx   context.Context
	stack []Node // from the top directory to the current object; all but the last are directories
	links int    // symbolic links followed so far
}

// walker returns a walker at the FS's root.
func (f *FS) walker(ctx context.Context) *walker {
	w := &walker{f: f, ctx: ctx, stack: make([]Node, 0, len(f.above)+8)}
	for _, fh := range f.above {
		w.stack = append(w.stack, Node{FH: fh})
	}
	w.stack = append(w.stack, Node{FH: f.root})
	return w
}

// top returns the current object.
func (w *walker) top() *Node { return &w.stack[len(w.stack)-1] }

// needDir returns an error unless the current object is a directory. The root has no attributes
// from a LOOKUP but is a directory.
func (w *walker) needDir() error {
	if t := w.top().Attr.Type; t != 0 && t != nfs3.TypeDir {
		return syscall.ENOTDIR
	}
	return nil
}

// advance enters all components of path except the last and returns the last: "" if path is empty
// or only slashes. slash reports whether a slash follows the last component.
func (w *walker) advance(path string) (base string, slash bool, err error) {
	path = strings.TrimLeft(path, "/")
	for {
		comp, rest, slash := strings.Cut(path, "/")
		path = strings.TrimLeft(rest, "/")
		if path == "" {
			return comp, slash, nil
		}
		if err := w.enter(comp, true, true); err != nil {
			return "", false, err
		}
	}
}

// enter makes comp in the current directory the current object. It follows a symbolic link if
// follow is set. With dir a non-directory is an error.
func (w *walker) enter(comp string, follow, dir bool) error {
	if err := w.needDir(); err != nil {
		return err
	}
	switch comp {
	case "", ".":
		return nil
	case "..":
		w.stack = w.stack[:max(len(w.stack)-1, 1)]
		return nil
	}
	n, err := w.lookup(comp)
	if err != nil {
		return err
	}
	if n.Attr.Type == nfs3.TypeLnk && follow {
		base, slash, err := w.follow(n)
		if err != nil {
			return err
		}
		return w.enter(base, true, dir || slash)
	}
	w.stack = append(w.stack, n)
	if dir {
		return w.needDir()
	}
	return nil
}

// follow advances along a symbolic link's content in the current directory. An absolute link begins
// at the FS's top, because its target on the server's own disk is out of reach.
func (w *walker) follow(link Node) (base string, slash bool, err error) {
	if w.links++; w.links > maxLinks {
		return "", false, syscall.ELOOP
	}
	target, err := w.f.c.Readlink(w.ctx, link.FH)
	switch {
	case err != nil:
		return "", false, err
	case target == "":
		return "", false, syscall.ENOENT
	case strings.IndexByte(target, 0) >= 0:
		return "", false, errBadReply
	case target[0] == '/':
		w.stack = w.stack[:1]
	}
	return w.advance(target)
}

// lookup finds name in the current directory.
func (w *walker) lookup(name string) (Node, error) {
	return w.f.lookup(w.ctx, w.top().FH, name)
}

// Walk returns handle and attributes of the object at name. It follows a symbolic link at the end
// if follow is set or a slash follows.
func (f *FS) Walk(ctx context.Context, name string, follow bool) (Node, error) {
	n, err := f.walk(ctx, name, follow)
	return n, pathError("walk", name, err)
}

// walk is Walk without the path in its error.
func (f *FS) walk(ctx context.Context, name string, follow bool) (Node, error) {
	w, err := f.walkTo(ctx, name, follow)
	if err != nil {
		return Node{}, err
	}
	n := *w.top()
	if n.Attr.Type == 0 { // the root
		n.Attr, err = f.c.Getattr(ctx, n.FH)
	}
	return n, err
}

// walkTo is walk that also returns the directories on the way.
func (f *FS) walkTo(ctx context.Context, name string, follow bool) (*walker, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return nil, fs.ErrInvalid
	}
	w := f.walker(ctx)
	base, slash, err := w.advance(name)
	if err == nil {
		err = w.enter(base, follow || slash, slash)
	}
	return w, err
}

// lookup finds name in dir. A name longer than NFSv3 allows fails without a call.
func (f *FS) lookup(ctx context.Context, dir nfs3.FH, name string) (Node, error) {
	if len(name) > nfs3.MaxName {
		return Node{}, syscall.ENAMETOOLONG
	}
	return f.c.Lookup(ctx, dir, name)
}

// A parentName is the end of a path: a directory and a name in it. The name may be missing and is
// not followed.
type parentName struct {
	dir   nfs3.FH
	base  string // last component; "" for the root
	slash bool   // a slash follows base: it has to be a directory
}

// isName reports whether the path ends in a name, which can be made and removed, not in "." or ".."
// or nothing.
func (p *parentName) isName() bool { return p.base != "" && p.base != "." && p.base != ".." }

// resolveParent resolves all of name except its last component.
func (f *FS) resolveParent(ctx context.Context, name string) (parentName, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return parentName{}, fs.ErrInvalid
	}
	w := f.walker(ctx)
	base, slash, err := w.advance(name)
	if err == nil && len(base) > nfs3.MaxName {
		err = syscall.ENAMETOOLONG
	}
	return parentName{dir: w.top().FH, base: base, slash: slash}, err
}

// newName returns the parent and base of a new name. A slash may follow the name only if dir is
// set, for a new directory. "." and ".." and the root always exist.
func (f *FS) newName(ctx context.Context, name string, dir bool) (parentName, error) {
	p, err := f.resolveParent(ctx, name)
	switch {
	case err != nil:
		return p, err
	case !p.isName():
		return p, syscall.EEXIST
	case p.slash && !dir:
		if _, err := f.lookup(ctx, p.dir, p.base); err != nil {
			return p, err
		}
		return p, syscall.EEXIST
	}
	return p, nil
}

// Parent resolves all of name except its last component. dir is the FS of the parent directory.
// base is the last component: "" for the root, and it may be "." or "..". slash reports whether a
// slash follows, which marks a directory (POSIX).
func (f *FS) Parent(ctx context.Context, name string) (dir *FS, base string, slash bool, err error) {
	p, err := f.resolveParent(ctx, name)
	if err != nil {
		return nil, "", false, pathError("walk", name, err)
	}
	up := strings.TrimRight(name, "/")
	return f.At(p.dir, f.path+"/"+up[:len(up)-len(p.base)]), p.base, p.slash, nil
}
