// Removing a tree: what can be removed is, and each failure is told.

package nfsclient

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"syscall"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/sync/errgroup"
)

// removeWindow is how many files of one directory are removed at once.
const removeWindow = 32

// A TreeRemoval is how RemoveTree goes about it and what it tells. Each function
// may be nil; they are called one at a time, with paths that begin with the
// name that RemoveTree was given.
type TreeRemoval struct {
	// Ask reports whether to remove an object; false leaves it, without an
	// error. For a directory that is not empty it is asked twice: with enter set
	// before anything in it is removed, then for the directory itself. With Ask
	// nothing is done at once.
	Ask func(name string, info *FileInfo, enter bool) bool

	// Removed is told of each object that is gone.
	Removed func(name string, dir bool)

	// Failed is told of each object that could not be removed, but not of the
	// directories above it, which are then left without a try.
	Failed func(name string, err error)
}

// RemoveAll removes name and, when it is a directory, all that is below it. It
// goes on after an error, and returns the first. A name that is not there is no
// error. A symbolic link is removed itself; a slash after name is for
// directories only.
func (f *FS) RemoveAll(ctx context.Context, name string) error {
	err := f.RemoveTree(ctx, name, TreeRemoval{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// RemoveTree is RemoveAll with a say in it; a name that is not there is an error.
// It returns the first error that Failed was told of.
func (f *FS) RemoveTree(ctx context.Context, name string, how TreeRemoval) error {
	p, err := f.oldName(ctx, name)
	var n Node
	if err == nil {
		n, err = f.lookup(ctx, p.dir, p.base)
	}
	if err == nil && p.slash && n.Attr.Type != nfs3.TypeDir {
		err = syscall.ENOTDIR
	}
	r := &removal{c: f.c, size: f.size, how: how}
	if err != nil {
		r.failed(name, err)
	} else {
		r.remove(ctx, p.dir, p.base, n, name)
	}
	return r.err
}

// A removal is one run of RemoveTree.
type removal struct {
	c    *Client
	size *sizes
	how  TreeRemoval

	mu  sync.Mutex // held while a function of how runs; guards err
	err error      // the first failure
}

func (r *removal) failed(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = pathError("removeall", name, err)
	}
	if r.how.Failed != nil {
		r.how.Failed(name, err)
	}
}

func (r *removal) removed(name string, dir bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.how.Removed != nil {
		r.how.Removed(name, dir)
	}
}

func (r *removal) ask(name string, n Node, enter bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.how.Ask == nil || r.how.Ask(name, &FileInfo{name: baseName(name), Node: n}, enter)
}

// An outcome is what became of one object.
type outcome uint8

// The outcomes.
const (
	gone   outcome = iota // it was there and is removed
	absent                // it was not there
	kept                  // it is still there: a failure, which was told, or Ask's will
)

// remove removes one object, a directory with all that is in it.
func (r *removal) remove(ctx context.Context, dir nfs3.FH, base string, n Node, name string) outcome {
	isDir := n.Attr.Type == nfs3.TypeDir
	var err error
	switch {
	case isDir:
		err = r.directory(ctx, dir, base, n, name)
	case !r.ask(name, n, false):
		err = errKept
	default:
		err = r.c.Remove(ctx, dir, base)
	}
	switch {
	case errors.Is(err, errKept):
		return kept
	case errors.Is(err, fs.ErrNotExist):
		return absent
	case err != nil:
		r.failed(name, err)
		return kept
	}
	r.removed(name, isDir)
	return gone
}

// errKept stands for a failure that was told already, or the will of Ask.
var errKept = errors.New("kept")

// directory empties a directory and removes it. Removing moves the cookies of
// some servers, which then leave names out, so it lists again as long as that
// leads to something.
func (r *removal) directory(ctx context.Context, dir nfs3.FH, base string, n Node, name string) error {
	p := &pass{r: r, dir: n, name: name, left: make(map[string]bool), entered: r.how.Ask == nil}
	for {
		progress, err := p.run(ctx)
		switch {
		case errors.Is(err, errKept):
			return err
		case err == nil && len(p.left) > 0 && progress:
			continue
		case err == nil && (len(p.left) > 0 || !r.ask(name, n, false)):
			return errKept
		}
		// Where the listing failed the directory may still be empty.
		e := r.c.Rmdir(ctx, dir, base)
		full := errors.Is(e, nfs3.ErrNotEmpty) || errors.Is(e, nfs3.ErrExist)
		switch {
		case full && err != nil:
			return err // why it could not be emptied
		case full && progress:
			continue
		}
		return e
	}
}

// A pass goes once through the listing of a directory and removes what it finds.
type pass struct {
	r       *removal
	dir     Node
	name    string
	entered bool // Ask has allowed to enter

	mu       sync.Mutex // guards left, progress
	left     map[string]bool
	progress bool // something was removed
}

func (p *pass) run(ctx context.Context) (progress bool, err error) {
	p.progress = false
	var g errgroup.Group
	g.SetLimit(removeWindow)
	defer func() { _ = g.Wait(); progress = p.progress }()
	for e, err := range (&FS{c: p.r.c, root: p.dir.FH, size: p.r.size}).Entries(ctx, "/") {
		switch {
		case err != nil:
			var pe *fs.PathError
			if errors.As(err, &pe) {
				err = pe.Err // the caller names the whole path
			}
			return false, err
		case !p.entered && !p.r.ask(p.name, p.dir, true):
			return false, errKept
		}
		p.entered = true
		if p.isLeft(e.name) {
			continue
		}
		n, err := e.Node()
		switch {
		case err != nil:
			p.lookupFailed(e.name, err)
		case n.Attr.Type == nfs3.TypeDir || p.r.how.Ask != nil:
			p.one(ctx, e.name, n)
		default:
			g.Go(func() error { p.one(ctx, e.name, n); return nil })
		}
	}
	return false, nil
}

func (p *pass) isLeft(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left[name]
}

// lookupFailed tells of a name whose object cannot be had, unless it is gone.
func (p *pass) lookupFailed(name string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	p.r.failed(p.name+"/"+name, err)
	p.note(name, kept)
}

func (p *pass) one(ctx context.Context, name string, n Node) {
	full := strings.TrimRight(p.name, "/") + "/" + name
	p.note(name, p.r.remove(ctx, p.dir.FH, name, n, full))
}

// note counts what became of a name. A name that was listed and is not there is
// no progress: a server that lists it again and again would keep us for ever.
func (p *pass) note(name string, o outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch o {
	case gone:
		p.progress = true
	case kept:
		p.left[name] = true
	}
}
