// Removing a tree: remove as much as possible and report each failure.

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

// removeWindow bounds concurrent removals of files in one directory.
const removeWindow = 32

// A TreeRemoval has the callbacks of RemoveTree. Each may be nil. They are called one at a time,
// with paths that begin with RemoveTree's name.
type TreeRemoval struct {
	// Ask reports whether to remove an object; false keeps it without an error. For a directory
	// that is not empty it is called twice: with enter set before the entries, then for the
	// directory itself. If Ask is set, removals run one at a time.
	Ask func(name string, info *FileInfo, enter bool) bool

	// Removed is called for each removed object.
	Removed func(name string, dir bool)

	// Failed is called for each object that could not be removed. Directories above it are kept
	// without a call.
	Failed func(name string, err error)
}

// RemoveAll removes name and, if it is a directory, everything below it. It continues after errors
// and returns the first. A missing name is no error. It does not follow symbolic links. Only
// directories accept a slash after name.
func (f *FS) RemoveAll(ctx context.Context, name string) error {
	err := f.RemoveTree(ctx, name, TreeRemoval{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// RemoveTree is RemoveAll with callbacks; a missing name is an error. It returns the first error
// passed to Failed.
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

	mu  sync.Mutex // held during a callback; guards err
	err error      // the first failure
}

// failed records the first error and calls how.Failed.
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

// removed calls how.Removed.
func (r *removal) removed(name string, dir bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.how.Removed != nil {
		r.how.Removed(name, dir)
	}
}

// ask calls how.Ask; without it everything is removed.
func (r *removal) ask(name string, n Node, enter bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.how.Ask == nil || r.how.Ask(name, &FileInfo{name: baseName(name), Node: n}, enter)
}

// A removeOutcome is the result for one object.
type removeOutcome uint8

// The outcomes.
const (
	objRemoved removeOutcome = iota // removed
	objMissing                      // missing
	objKept                         // still there, after a reported failure or by Ask's choice
)

// remove removes one object; a directory with its entries.
func (r *removal) remove(ctx context.Context, dir nfs3.FH, base string, n Node, name string) removeOutcome {
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
		return objKept
	case errors.Is(err, fs.ErrNotExist):
		return objMissing
	case err != nil:
		r.failed(name, err)
		return objKept
	}
	r.removed(name, isDir)
	return objRemoved
}

// errKept stands for a reported failure, or for Ask's choice.
var errKept = errors.New("kept")

// directory empties a directory and removes it. On some servers removals shift the cookies, so that
// listings skip names. So directory lists again as long as passes make progress.
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
		// After a failed listing try RMDIR, because the directory may be empty.
		e := r.c.Rmdir(ctx, dir, base)
		full := errors.Is(e, nfs3.ErrNotEmpty) || errors.Is(e, nfs3.ErrExist)
		switch {
		case full && err != nil:
			return err // the listing's error is the reason why the directory is not empty
		case full && progress:
			continue
		}
		return e
	}
}

// A pass goes once through a directory's listing and removes its entries.
type pass struct {
	r       *removal
	dir     Node
	name    string
	entered bool // Ask has allowed entering

	mu       sync.Mutex // guards left, progress
	left     map[string]bool
	progress bool // something was removed
}

// run makes the pass. It returns after all its removals have ended, even after an error.
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
				err = pe.Err // the caller adds the whole path
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

// isLeft reports whether an earlier attempt to remove name failed.
func (p *pass) isLeft(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left[name]
}

// lookupFailed reports a name with a failed lookup, unless it is missing.
func (p *pass) lookupFailed(name string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	p.r.failed(p.name+"/"+name, err)
	p.note(name, objKept)
}

// one removes one entry and records the outcome.
func (p *pass) one(ctx context.Context, name string, n Node) {
	full := strings.TrimRight(p.name, "/") + "/" + name
	p.note(name, p.r.remove(ctx, p.dir.FH, name, n, full))
}

// note records the outcome for a name. A missing name is no progress: a server that keeps listing
// it would make an endless loop.
func (p *pass) note(name string, o removeOutcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch o {
	case objRemoved:
		p.progress = true
	case objKept:
		p.left[name] = true
	}
}
