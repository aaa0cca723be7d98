// Copies a tree to a tree in parallel, with bounded memory.
//
// A few walkers list directories and make them on the other side. They pass files to more workers
// over a small channel, so a directory with any number of names takes bounded memory. Workers
// create no new work, so a full channel always drains. A directory counts its unfinished children.
// The goroutine that finishes the last child sets the directory's mode and times, which nothing
// changes afterwards.

package treecopy

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// Limits of concurrency.
const (
	copyWalkers = 8  // directories being listed
	copyWorkers = 48 // files being copied
)

// A walk is the copy of one tree.
type walk struct {
	r    *Run
	work chan *fileTask

	mu    sync.Mutex // guards stack, busy
	cond  sync.Cond
	stack []*dirTask
	busy  int // walkers at work
}

// A dirTask is one directory to copy. pending counts its listing and its children; the goroutine
// that brings pending to zero finishes the directory. The walker that opens the directory sets
// from, to, the texts and fresh before the listing. Then the children's tasks only read these
// fields, until the last task finishes and closes both Dirs.
type dirTask struct {
	parent   *dirTask
	src      Meta
	name     string // the target's name in its parent
	from, to Dir    // nil until opened, or if that failed
	srcText  string
	dstText  string
	fresh    bool // made by this run
	keepOpen bool // to belongs to the operand and stays open
	pending  atomic.Int64
}

type fileTask struct {
	dir *dirTask
	m   Meta
}

// copyTree copies the directory src, with attributes m, to name in to.
func (r *Run) copyTree(ctx context.Context, src Operand, m Meta, to Dir, name string) {
	from, err := src.Tree.OpenDir(ctx, src.Path, src.Text)
	if err != nil {
		r.fail(ctx, "cannot access "+r.quote(src.Text), err)
		return
	}
	t := &dirTask{src: m, name: name, from: from, srcText: src.Text, dstText: to.Text(name)}
	t.keepOpen = name == "." && src.Name != "."
	if t.to, t.fresh = r.top(ctx, src, m, to, name); t.to == nil {
		from.Close()
		return
	}
	w := &walk{r: r, work: make(chan *fileTask, copyWorkers), stack: []*dirTask{t}}
	w.cond.L = &w.mu
	t.pending.Store(1)
	var walkers, workers sync.WaitGroup
	for range copyWorkers {
		workers.Go(func() { w.workLoop(ctx) })
	}
	for range copyWalkers {
		walkers.Go(func() { w.walkLoop(ctx) })
	}
	walkers.Wait()
	close(w.work)
	workers.Wait()
	for _, t := range w.stack {
		// after the end of ctx, tasks are not copied, but their open parents must be closed
		w.finish(ctx, t)
	}
}

// top opens or makes the target directory. First it checks that no directory is copied into itself.
func (r *Run) top(ctx context.Context, src Operand, m Meta, to Dir, name string) (Dir, bool) {
	if name == "." && same(&m, to.Self()) {
		r.fail(ctx, r.quote(src.Text)+" and "+r.quote(to.Text(name))+" are the same file", nil)
		return nil, false
	}
	old, err := to.Lstat(ctx, name)
	if err == nil && !old.Mode.IsDir() {
		return r.openExisting(ctx, old, src.Text, to, to.Text(name))
	}
	if err == nil && same(&m, &old) {
		r.fail(ctx, r.quote(src.Text)+" and "+r.quote(to.Text(name))+" are the same file", nil)
		return nil, false
	}
	for i := range r.aboveDst {
		if name != "." && same(&m, &r.aboveDst[i]) || i > 0 && same(&m, &r.aboveDst[i]) {
			r.fail(ctx, "cannot copy a directory, "+r.quote(src.Text)+", into itself, "+r.quote(to.Text(name)), nil)
			return nil, false
		}
	}
	if name == "." && src.Name != "." {
		r.Dirs.Add(1)
		return to, false
	}
	return r.enter(ctx, m, src.Text, to, name, false)
}

// enter opens or makes the directory name in to. It returns nil after a failure.
func (r *Run) enter(ctx context.Context, m Meta, srcText string, to Dir, name string, parentFresh bool) (Dir, bool) {
	text := to.Text(name)
	if !parentFresh || r.caseBlind {
		old, err := to.Lstat(ctx, name)
		if err == nil {
			return r.openExisting(ctx, old, srcText, to, text)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, r.fail(ctx, "failed to access "+r.quote(text), err)
		}
	}
	perm := r.dirPerm(&m) | 0o700
	if r.opt.Preserve.Mode {
		perm &^= 0o077 // until owner and ACL are set, because the source's mode may show a mask
	}
	d, err := to.Mkdir(ctx, name, perm)
	if errors.Is(err, fs.ErrExist) { // another program was faster
		if old, e := to.Lstat(ctx, name); e == nil {
			return r.openExisting(ctx, old, srcText, to, text)
		}
	}
	if err != nil {
		return nil, r.fail(ctx, "cannot create directory "+r.quote(text), err)
	}
	r.Dirs.Add(1)
	r.mu.Lock()
	r.madeDirs[d.Self().key()] = true
	r.mu.Unlock()
	r.verbose(srcText, text)
	return d, true
}

// openExisting opens an existing target directory.
func (r *Run) openExisting(ctx context.Context, old Meta, srcText string, to Dir, text string) (Dir, bool) {
	if !old.Mode.IsDir() {
		return nil, r.fail(ctx, "cannot overwrite non-directory "+r.quote(text)+" with directory "+r.quote(srcText), nil)
	}
	d, err := to.Sub(ctx, old)
	if err != nil {
		return nil, r.fail(ctx, "cannot access "+r.quote(text), err)
	}
	r.Dirs.Add(1)
	return d, false
}

// dirPerm returns the mode of a new directory. The sticky bit is kept, as with mkdir(2).
func (r *Run) dirPerm(m *Meta) fs.FileMode {
	return m.Mode & (fs.ModePerm | fs.ModeSticky) &^ r.opt.Umask
}

// next returns a directory to list, or nil at the end of the walk.
func (w *walk) next(ctx context.Context) *dirTask {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.stack) == 0 && w.busy > 0 {
		w.cond.Wait()
	}
	if len(w.stack) == 0 || ctx.Err() != nil {
		w.cond.Broadcast()
		return nil
	}
	t := w.stack[len(w.stack)-1]
	w.stack = w.stack[:len(w.stack)-1]
	w.busy++
	return t
}

func (w *walk) walkLoop(ctx context.Context) {
	for t := w.next(ctx); t != nil; t = w.next(ctx) {
		if w.open(ctx, t) {
			w.list(ctx, t)
		}
		w.finish(ctx, t)
		w.mu.Lock()
		w.busy--
		w.mu.Unlock()
		w.cond.Broadcast()
	}
}

// open opens a directory on both sides. The top is already open.
func (w *walk) open(ctx context.Context, t *dirTask) bool {
	if t.parent == nil {
		return true
	}
	t.srcText, t.dstText = t.parent.from.Text(t.src.Name), t.parent.to.Text(t.name)
	if w.r.inside(t) {
		return w.r.fail(ctx, "cannot copy a directory, "+w.r.quote(t.srcText)+", into itself, "+w.r.quote(t.dstText), nil)
	}
	if t.isLoop() {
		return w.r.fail(ctx, "cannot copy cyclic symbolic link "+w.r.quote(t.srcText), nil)
	}
	if t.to, t.fresh = w.r.enter(ctx, t.src, t.srcText, t.parent.to, t.name, t.parent.fresh); t.to == nil {
		return false
	}
	from, err := t.parent.from.Sub(ctx, t.src)
	if err != nil {
		return w.r.fail(ctx, "cannot access "+w.r.quote(t.srcText), err)
	}
	t.from = from
	return true
}

// inside reports whether a source directory contains the destination or was made by this run. A
// link or a second mount may lead to such a directory.
func (r *Run) inside(t *dirTask) bool {
	for i := range r.aboveDst {
		if same(&t.src, &r.aboveDst[i]) {
			return true
		}
	}
	if t.src.domain != r.aboveDst[0].domain {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.madeDirs[t.src.key()]
}

// isLoop reports whether a followed link leads back to a directory being walked.
func (t *dirTask) isLoop() bool {
	if !t.src.followed {
		return false
	}
	for up := t.parent; up != nil; up = up.parent {
		if same(&up.src, &t.src) {
			return true
		}
	}
	return false
}

// list hands out the entries of a directory.
func (w *walk) list(ctx context.Context, t *dirTask) {
	what := "cannot access "
	for m, err := range t.from.Entries(ctx) {
		if ctx.Err() != nil {
			return
		}
		if m.Name != "" && badName(m.Name) {
			err, m.Name = errBadName, ""
		}
		if m.Name == "" {
			w.r.fail(ctx, what+w.r.quote(t.srcText), err)
			return
		}
		what = "error reading directory "
		if err == nil && m.Mode.Type() == fs.ModeSymlink && w.r.opt.Follow == FollowAlways {
			m, err = w.follow(ctx, t, m)
		}
		if err != nil {
			w.r.fail(ctx, "cannot stat "+w.r.quote(t.from.Text(m.Name)), err)
			continue
		}
		w.giveOut(ctx, t, m)
	}
}

// errBadName means that a listing contains an impossible name.
var errBadName = errors.New("the listing holds a name that cannot be one")

func (w *walk) follow(ctx context.Context, t *dirTask, m Meta) (Meta, error) {
	to, err := t.from.Stat(ctx, m.Name)
	if err != nil {
		return m, err
	}
	return to, nil
}

func (w *walk) giveOut(ctx context.Context, t *dirTask, m Meta) {
	t.pending.Add(1)
	if m.Mode.IsDir() {
		d := &dirTask{parent: t, src: m, name: m.Name}
		d.pending.Store(1)
		w.mu.Lock()
		w.stack = append(w.stack, d)
		w.mu.Unlock()
		w.cond.Signal()
		return
	}
	if m.Mode.IsRegular() {
		w.r.Total.Add(m.Size)
	}
	select {
	case w.work <- &fileTask{t, m}:
	case <-ctx.Done():
		t.pending.Add(-1)
	}
}

// finish counts one part of t as done. The last part closes t and continues with its parent.
func (w *walk) finish(ctx context.Context, t *dirTask) {
	for ; t != nil && t.pending.Add(-1) == 0; t = t.parent {
		if t.to != nil && ctx.Err() == nil {
			w.r.finishDir(ctx, t)
		}
		if t.to != nil && !t.keepOpen {
			t.to.Close()
		}
		if t.from != nil {
			t.from.Close()
		}
	}
}

// finishDir sets a directory's final attributes.
func (r *Run) finishDir(ctx context.Context, t *dirTask) {
	self := *t.to.Self()
	self.Name = "."
	set := func(ctx context.Context, a Attr) error { return t.to.SetAttr(ctx, self, a) }
	if r.opt.Preserve.attrs() {
		r.preserve(ctx, t.dstText, &t.src, &self, t.sourceACLs, set)
	}
	perm := r.dirPerm(&t.src)
	if t.fresh && !r.opt.Preserve.Mode && perm|0o700 != perm {
		// The directory may have inherited setgid.
		if err := set(ctx, Attr{SetMode: true, Mode: perm | self.Mode&fs.ModeSetgid}); err != nil {
			r.fail(ctx, "setting permissions for "+r.quote(t.dstText), err)
		}
	}
}

// sourceACLs reads the source's ACLs, also if the source could not be opened, because the copy
// still gets the source's mode.
func (t *dirTask) sourceACLs(ctx context.Context) (nfsclient.ACLs, error) {
	if t.from == nil {
		return t.parent.from.ACLs(ctx, t.src)
	}
	m := t.src
	m.Name, m.followed = ".", false
	return t.from.ACLs(ctx, m)
}

func (w *walk) workLoop(ctx context.Context) {
	for f := range w.work {
		if ctx.Err() == nil {
			w.r.entry(ctx, &job{
				from: f.dir.from, src: f.m, srcText: f.dir.from.Text(f.m.Name),
				to: f.dir.to, name: f.m.Name, dstText: f.dir.to.Text(f.m.Name), fresh: f.dir.fresh && !w.r.caseBlind,
			})
		}
		w.finish(ctx, f.dir)
	}
}
